"""The server as a process: where it listens, and how it ends."""

import asyncio
import socket
import sys
import time
from collections.abc import Sequence
from types import FrameType

import uvicorn
from starlette.concurrency import run_in_threadpool
from uvicorn.protocols.http.h11_impl import H11Protocol

from neuropil.errors import InputError
from neuropil.http.access import Access
from neuropil.http.listening import address_of, bind
from neuropil.server.app import create_app
from neuropil.server.config import ServerConfig
from neuropil.server.fields import SECONDS_TO_SEND
from neuropil.server.guard import Draining
from neuropil.server.models import ServedModels, open_models
from neuropil.server.prometheus import Figures

PORT = 8000
SECONDS_TO_CLOSE = 3
"""That connections have for their last answers when all requests are done or refused."""
KEEP_ALIVE = 75
"""Seconds that a connection may be idle: longer than clients keep them, so that none finds its own closed."""
MOST_CONNECTIONS = 1000


class PromptProtocol(H11Protocol):
    """A connection on which no request has come in time is closed, so that those who say nothing keep nobody out."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.loop.call_later(SECONDS_TO_SEND, self._close_silent)

    def _close_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()


class ModelServer(uvicorn.Server):
    """Told to end, it takes no new requests (503), finishes those that it has, and ends then, or when `drain` seconds
    have passed. Told again, it ends at once."""

    def __init__(self, config: uvicorn.Config, models: ServedModels, draining: Draining, drain: float):
        super().__init__(config)
        self.models, self.draining, self.drain = models, draining, drain

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.draining:
            self.should_exit = True
        self.draining.begin()

    async def on_tick(self, counter: int) -> bool:
        since = self.draining.since
        if since is not None and (self.draining.idle or time.monotonic() - since > self.drain):
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # What is not done by now is refused, while its connection is still there.
        await run_in_threadpool(self.models.close)
        await super().shutdown(sockets)


def build(sources: Sequence[str], config: ServerConfig) -> ModelServer:
    """Opens the models, which takes as long as it takes."""
    if not sources:
        raise InputError("neuropil serve needs a run", got="none", fix="neuropil serve runs/mine")
    figures, draining = Figures(), Draining()
    models = open_models(sources, config, figures)
    access = Access(config.host, config.token, unguarded=config.without_token)
    app = create_app(models, access, config, figures, draining)
    settings = uvicorn.Config(
        app,
        http=PromptProtocol,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=SECONDS_TO_CLOSE,
        limit_concurrency=MOST_CONNECTIONS,
        server_header=False,
    )
    return ModelServer(settings, models, draining, config.drain)


def serve(sources: Sequence[str], config: ServerConfig) -> None:
    """Until it is interrupted."""
    listening = bind(config.host, config.port, first=PORT, what="the server")
    with listening:
        server = build(sources, config)
        for model in server.models.named.values():
            sys.stdout.write(f"{model.name}: {', '.join(model.paths)}\n")
        sys.stdout.write(f"Serving at {address_of(listening, config.host)}  (Ctrl-C ends it)\n")
        sys.stdout.flush()
        server.run(sockets=[listening])
    sys.stdout.write("The server has ended.\n")
