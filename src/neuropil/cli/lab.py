"""The command that opens the lab."""

from pathlib import Path

from neuropil.config import Config, option
from neuropil.errors import InputError


class LabArguments(Config):
    runs: Path = option(Path("runs"), "the folder of runs that the lab shows and adds to")
    host: str = option("127.0.0.1", "address to listen at; any other than this machine's own demands a token")
    port: int | None = option(None, "port; by default the first free one from 8321 on", low=0, high=65535)
    open: bool = option(True, "open the page in the browser")


def lab(arguments: LabArguments) -> None:
    try:
        from neuropil.lab.serve import serve
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "multipart", "python_multipart"):
            raise
        rule, fix = "neuropil lab needs FastAPI and uvicorn", "pip install 'neuropil[lab]'"
        raise InputError(rule, got=f"an environment without {error.name}", fix=fix) from error
    serve(arguments.runs, host=arguments.host, port=arguments.port, show=arguments.open)
