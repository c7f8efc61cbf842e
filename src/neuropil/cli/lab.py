"""The command that opens the lab."""

from pathlib import Path

from neuropil.config import Config, option
from neuropil.extras import require_extra


class LabArguments(Config):
    runs: Path = option(Path("runs"), "the folder of runs that the lab shows and adds to")
    host: str = option("127.0.0.1", "address to listen at; any other than this machine's own demands a token")
    port: int | None = option(None, "port; by default the first free one from 8321 on", low=0, high=65535)
    open: bool = option(True, "open the page in the browser")


def lab(arguments: LabArguments) -> None:
    require_extra("lab", "neuropil lab")
    from neuropil.lab.serve import serve

    serve(arguments.runs, host=arguments.host, port=arguments.port, show=arguments.open)
