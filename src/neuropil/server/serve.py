"""The server as a process: where it listens, and how it ends."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import cast

import h11
import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from neuropil.errors import InputError
from neuropil.http.access import Access
from neuropil.http.listening import address_of, bind
from neuropil.server.app import create_app
from neuropil.server.config import ServerConfig
from neuropil.server.fields import SECONDS_TO_SEND
from neuropil.server.guard import HEALTH, Draining
from neuropil.server.models import ServedModels, open_models
from neuropil.server.prometheus import Figures
from neuropil.server.refusals import Refusal

PORT = 8000
SECONDS_TO_CLOSE = 3
"""That connections have for their last answers when all requests are done or refused."""
KEEP_ALIVE = 75
"""Seconds that a connection may be idle: longer than clients keep them, so that none finds its own closed."""
SECONDS_TO_TAKE = 60
"""That a client has for what it is sent and has not read; a text that is being written waits for nobody."""
MOST_CONNECTIONS = 1000


class PromptProtocol(H11Protocol):
    """Whoever is slow keeps nobody out: a connection is closed on which the first request, the rest of a later one or
    the rest of one that is answered already does not come in time, or on which an answer is not taken in time."""

    coming: asyncio.TimerHandle | None = None
    """While bytes are awaited that no request under way waits for, which has a limit of its own."""
    taking: asyncio.TimerHandle | None = None
    """While the client is behind with reading, or has yet to read the last that it is sent."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self.app = self._refuse
        self._watch()

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """In place of the application, whom balancers may ask always."""
        said = f"The server has its {MOST_CONNECTIONS:,} connections; ask again later."
        headers = {"retry-after": "5", "connection": "close"}
        refusal = Refusal(503, said, code="too_many_connections", headers=headers)
        answering: ASGIApp = cast(ASGIApp, self.config.loaded_app) if scope["path"] in HEALTH else refusal.answer()
        await answering(scope, receive, send)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._limit_taking()
        else:
            self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_taking()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.taking = _stopped(self.taking)

    def connection_lost(self, exc: Exception | None) -> None:
        self.coming, self.taking = _stopped(self.coming), _stopped(self.taking)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn leaves it where the connection was cut

    def send_400_response(self, msg: str) -> None:
        """If no other answer has begun, to which this could not be added."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
            self._limit_taking()
        else:
            self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        self.transport.abort()  # which does not wait until the last answer is taken

    def _watch(self) -> None:
        """From the first byte of a request to its last header; and from an answer to the end of the body that it did
        not need. In between the connection is at rest, for as long as it may be kept alive."""
        under_way = self.cycle is not None and not self.cycle.response_complete
        between = self.cycle is not None and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        if under_way or between or self.transport.is_closing():
            self.coming = _stopped(self.coming)
            if between and not under_way and self.timeout_keep_alive_task is None:
                self.timeout_keep_alive_task = self.loop.call_later(KEEP_ALIVE, self.timeout_keep_alive_handler)
        elif self.coming is None:
            self.coming = self.loop.call_later(SECONDS_TO_SEND, self.transport.abort)

    def _limit_taking(self) -> None:
        if self.taking is None:
            self.taking = self.loop.call_later(SECONDS_TO_TAKE, self.transport.abort)


def _stopped(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class ModelServer(uvicorn.Server):
    """Told to end, it takes no new requests (503), finishes those that it has, and ends then, or when `drain` seconds
    have passed. Told again, it ends at once."""

    def __init__(self, config: uvicorn.Config, models: ServedModels, draining: Draining, drain: float):
        super().__init__(config)
        self.models, self.draining, self.drain = models, draining, drain
        self.announcement = ""
        """Written when it listens, and hears signals."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        sys.stdout.write(self.announcement)
        sys.stdout.flush()

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
        # What is not done by now is refused, while its connection is still there, to whoever reads.
        await run_in_threadpool(self.models.close)
        self._cut(lambda connection: connection.flow.write_paused)
        await super().shutdown(sockets)
        # uvicorn answers even those whom it cancels, and would wait until they read.
        self._cut(lambda connection: True)

    def _cut(self, chosen: Callable[[H11Protocol], bool]) -> None:
        for connection in [each for each in self.server_state.connections if chosen(each)]:
            connection.transport.abort()


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
        ws="none",  # there is nothing to say by WebSocket, and the guard asks none of them for a token
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=SECONDS_TO_CLOSE,
        server_header=False,
    )
    return ModelServer(settings, models, draining, config.drain)


def serve(sources: Sequence[str], config: ServerConfig) -> None:
    """Until it is interrupted."""
    listening = bind(config.host, config.port, first=PORT, what="the server")
    with listening:
        server = build(sources, config)
        lines = [f"{model.name}: {', '.join(model.paths)}" for model in server.models.named.values()]
        lines.append(f"Serving at {address_of(listening, config.host)}  (Ctrl-C ends it)")
        server.announcement = "".join(f"{line}\n" for line in lines)
        server.run(sockets=[listening])
    sys.stdout.write("The server has ended.\n")
    if server.models.busy:  # Python would be taken down under a thread that computes, which ends by a signal
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
