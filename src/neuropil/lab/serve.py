"""The lab as a server: where it listens, and what it loads behind the first page."""

import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from neuropil.errors import InputError
from neuropil.files import write_text
from neuropil.lab.app import create_app
from neuropil.lab.queue.jobs import LAB, lock
from neuropil.lab.security import LOOPBACK, Access

PORT = 8321
PORTS_TO_TRY = 20
SECONDS_TO_CLOSE = 3
"""How long answers may still take after Ctrl-C."""


class LabServer(uvicorn.Server):
    """Its streams, which have no end of their own, end when it does."""

    def __init__(self, config: uvicorn.Config, close_streams: Callable[[], None]):
        super().__init__(config)
        self.close_streams = close_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.close_streams()
        await super().shutdown(sockets)


def serve(runs: Path, *, host: str, port: int | None, show: bool) -> None:
    """Until it is interrupted. Other machines may ask only where `host` is theirs to reach, and with the token that is
    printed."""
    if runs.exists() and not runs.is_dir():
        raise InputError("--runs must be a folder, which may be new", got=f"the file {str(runs)!r}")
    runs.mkdir(parents=True, exist_ok=True)
    lock(runs).close()  # refused here in a sentence, and not by the server in a traceback
    listening = bind(host, port)
    token = None if host in LOOPBACK else secrets.token_urlsafe(24)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
    link = address if token is None else f"{address}?token={token}"
    app = create_app(runs, Access(host, token), warm=load_behind)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=SECONDS_TO_CLOSE)
    server = LabServer(config, app.state.close_streams)
    known = runs / LAB / "address"
    if token is None:  # so that a notebook finds it
        write_text(known, address)
    sys.stdout.write(f"The lab is at {link}  (Ctrl-C closes it; what trains goes on)\n")
    sys.stdout.flush()
    if show:
        threading.Thread(target=_open_when_ready, args=(server, link), daemon=True).start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        sys.stderr.write("\n")
    finally:
        known.unlink(missing_ok=True)


def bind(host: str, port: int | None) -> socket.socket:
    """The port that was asked for, or the first free one of a few."""
    wrong: Exception | None = None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(PORT, PORT + PORTS_TO_TRY) if port is None else (port,):
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(128)  # whoever comes before the server is up waits, and is not refused
        except (OSError, OverflowError) as error:
            listening.close()
            wrong = error
            continue
        return listening
    fix = "choose another with --port, or leave --port out" if port is not None else "give a free one with --port"
    raise InputError("the lab needs a port that it may listen at", got=f"{host} {port or PORT} ({wrong})", fix=fix)


def load_behind() -> None:
    """While the first page is looked at, so that the first view need not wait. A thread of its own is left to what
    trains."""
    import torch

    import neuropil.runs.run

    torch.set_num_threads(max(1, torch.get_num_threads() - 1))
    _ = neuropil.runs.run


def _open_when_ready(server: uvicorn.Server, link: str) -> None:
    while not server.started:
        time.sleep(0.05)
    webbrowser.open(link)
