"""The command that serves trained models."""

import os
from typing import TYPE_CHECKING, cast

from neuropil.config import Config, option
from neuropil.extras import require_extra

if TYPE_CHECKING:
    from neuropil.server.config import ServerConfig


class ServeArguments(Config):
    runs: tuple[str, ...] = option(
        (), "run folders, Hugging Face folders, or owner/name on its hub; NAME=RUN calls one by another name"
    )
    server: Config


def serve_arguments() -> ServeArguments:
    from neuropil.server.config import ServerConfig

    return ServeArguments(server=ServerConfig())


def serve(arguments: ServeArguments) -> None:
    require_extra("serve", "neuropil serve")
    from neuropil.server.config import TOKEN
    from neuropil.server.serve import serve

    config = cast("ServerConfig", arguments.server)
    serve(arguments.runs, config.with_token(os.environ.get(TOKEN)))
