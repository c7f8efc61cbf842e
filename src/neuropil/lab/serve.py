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
from neuropil.files import make_folder, write_text
from neuropil.http.access import LOOPBACK, Access
from neuropil.http.listening import address_of, bind
from neuropil.lab.app import create_app
from neuropil.lab.queue.jobs import LAB, lock

PORT = 8321
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
    make_folder(runs)
    lock(runs).close()  # refused here in a sentence, and not by the server in a traceback
    listening = bind(host, port, first=PORT, what="the lab")
    token = None if host in LOOPBACK else secrets.token_urlsafe(24)
    address = f"{address_of(listening, host)}/"
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
