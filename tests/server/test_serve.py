"""The command as a process of its own."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from model_server import Served, serving_thread, wait_until
from neuropil.cli import main
from neuropil.http.listening import address_of, bind
from neuropil.server import serve
from neuropil.server.guard import Draining
from neuropil.server.models import ServedModels
from neuropil.server.prometheus import Figures


def test_a_process_ends_on_sigterm_when_its_last_text_is_written(run_folder: Callable[[str], Path]):
    words = [sys.executable, "-m", "neuropil", "serve", str(run_folder("lstm")), "--port", "0", "--max-tokens", "20000"]
    environment = {**os.environ, "NEUROPIL_TOKEN": "secret", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == "lstm: /v1/completions\n"
    found = re.fullmatch(r"Serving at (http://127\.0\.0\.1:\d+)  \(Ctrl-C ends it\)\n", process.stdout.readline())
    assert found is not None
    body = {"prompt": "12 is", "max_tokens": 400, "temperature": 0, "stream": True}
    token = {"authorization": "Bearer secret"}
    with httpx.Client(base_url=found[1], headers=token, timeout=30) as client:
        assert client.get("/v1/models", headers={"authorization": ""}).status_code == 401
        with client.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            written = [line for line in lines if line]
    assert written[-1] == "data: [DONE]"
    assert '"finish_reason":"length"' in written[-2]
    output, errors = process.communicate(timeout=20)
    assert (output, errors, process.returncode) == ("The server has ended.\n", "", 0)


class Visitor:
    """A client that says what it likes, as slowly as it likes."""

    def __init__(self, address: str):
        host, port = address.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, words: bytes) -> None:
        self.socket.sendall(words)

    def hear(self) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        answer = http.client.HTTPResponse(self.socket)
        answer.begin()
        return answer.status, answer.read()

    def drip(self, piece: bytes) -> bytes:
        """A piece now and then, until the other side has had enough; what it said meanwhile."""
        self.socket.settimeout(0.02)
        said, until = b"", time.monotonic() + 10
        while time.monotonic() < until:
            try:
                self.say(piece)
                heard = self.socket.recv(1 << 16)
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                return said
            if not heard:
                return said
            said += heard
        raise AssertionError("the connection is still there")


@pytest.fixture
def hasty(run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server that gives a fifth of a second where others give half a minute."""
    monkeypatch.setattr(serve, "SECONDS_TO_SEND", 0.2)
    with serving_thread([str(run_folder("lstm"))], max_body=2000) as served:
        yield served


GET = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"


def test_a_connection_that_says_nothing_is_closed(hasty: Served):
    with Visitor(hasty.address) as silent:
        silent.say(b"GET /healthz HTTP/1.1\r\n")
        assert silent.socket.recv(1) == b""
    assert hasty.ask("/healthz").status_code == 200  # one that has asked may be idle for longer
    time.sleep(0.4)
    assert hasty.ask("/healthz").status_code == 200


def test_an_upgrade_to_a_websocket_is_not_made(hasty: Served):
    """Whether or not a library for it is installed."""
    assert hasty.server.config.ws == "none"
    with Visitor(hasty.address) as visitor:
        visitor.say(GET[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n")
        assert visitor.hear()[0] == 200


def test_a_second_request_must_come_as_soon_as_the_first(hasty: Served):
    with Visitor(hasty.address) as slow:
        slow.say(GET)
        assert slow.hear()[0] == 200
        time.sleep(0.4)  # at rest
        slow.say(GET)
        assert slow.hear()[0] == 200
        slow.say(b"GET /healthz HTTP/1.1\r\n")
        assert slow.drip(b"a: b\r\n") == b""
    with Visitor(hasty.address) as slow:
        slow.say(GET + b"GET /healthz HTTP/1.1\r\n")  # whose begin comes with the one before
        assert slow.hear()[0] == 200
        assert slow.drip(b"a: b\r\n") == b""


@pytest.mark.parametrize(
    ("status", "headers"),
    [(413, b"content-length: 1000000"), (403, b"origin: http://other.example\r\ntransfer-encoding: chunked")],
)
def test_the_body_of_a_refused_request_is_not_awaited_for_long(hasty: Served, status: int, headers: bytes):
    with Visitor(hasty.address) as slow:
        slow.say(POST + headers + b"\r\n\r\n")
        assert slow.hear()[0] == status
        assert slow.drip(b"1\r\na\r\n") == b""


def test_a_refused_request_whose_body_is_no_http_ends_without_a_traceback(
    hasty: Served, caplog: pytest.LogCaptureFixture
):
    with Visitor(hasty.address) as broken:
        broken.say(POST + b"origin: http://other.example\r\ntransfer-encoding: chunked\r\n\r\n")
        assert broken.hear()[0] == 403
        broken.say(b"no chunk\r\n")
        assert broken.drip(b"") == b""
    assert [record.getMessage() for record in caplog.records] == ["Invalid HTTP request received."]


def test_a_connection_may_be_used_again_and_rest_when_the_body_of_a_refused_request_has_come(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(serve, "SECONDS_TO_SEND", 0.2)
    monkeypatch.setattr(serve, "KEEP_ALIVE", 0.6)
    with serving_thread([str(run_folder("lstm"))], max_body=2000) as served, Visitor(served.address) as visitor:
        visitor.say(POST + b"content-length: 3000\r\n\r\n")
        assert visitor.hear()[0] == 413
        visitor.say(b"a" * 3000)
        time.sleep(0.4)
        visitor.say(GET)
        assert visitor.hear()[0] == 200
        visitor.say(POST + b"content-length: 3000\r\n\r\n")
        assert visitor.hear()[0] == 413
        visitor.say(b"a" * 3000)
        assert visitor.socket.recv(1) == b""  # after its rest


@contextmanager
def answering(content: bytes) -> Iterator[tuple[str, uvicorn.Server]]:
    """A server of one answer, with the connections of ours."""
    with bind("127.0.0.1", 0, first=0, what="the server") as listening:
        config = uvicorn.Config(Response(content), http=serve.PromptProtocol, lifespan="off", timeout_keep_alive=75)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        yield address_of(listening, "127.0.0.1"), server
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("last", [b"", b"connection: close\r\n"])
def test_an_answer_that_nobody_takes_is_dropped(last: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serve, "SECONDS_TO_TAKE", 0.3)
    content = b"a" * (32 << 20)  # far more than the buffers between the two hold
    with answering(content) as (address, server):
        assert httpx.get(address).content == content
        with Visitor(address) as idle:
            idle.say(b"GET / HTTP/1.1\r\nhost: here\r\n" + last + b"\r\n")
            wait_until(lambda: server.server_state.total_requests == 2)
            wait_until(lambda: not server.server_state.connections)


def test_the_last_connections_are_refused_and_the_others_go_on(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(serve, "MOST_CONNECTIONS", 2)
    with (
        serving_thread([str(run_folder("lstm"))]) as served,
        Visitor(served.address) as first,
        Visitor(served.address),
    ):
        wait_until(lambda: len(served.server.server_state.connections) == 2)
        with Visitor(served.address) as third:
            third.say(GET)  # which who watches the server may ask always
            assert third.hear()[0] == 200
            third.say(GET.replace(b"/healthz", b"/v1/models"))
            status, body = third.hear()
            assert third.socket.recv(1) == b""
        said = "The server has its 2 connections; ask again later."
        error = {"message": said, "type": "unavailable_error", "param": None, "code": "too_many_connections"}
        assert (status, json.loads(body)) == (503, {"error": error})
        first.say(GET.replace(b"/healthz", b"/v1/models"))
        assert first.hear()[0] == 200


def test_it_ends_in_time_where_a_client_reads_nothing_and_a_request_is_slow_to_end():
    """uvicorn answers a request that it cancels, too, and waits until there is room for the answer."""
    begun = threading.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/large":
            await Response(b"a" * (32 << 20))(scope, receive, send)
            return
        begun.set()
        for _ in range(2):  # once by uvicorn, once by asyncio
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        raise RuntimeError

    config = uvicorn.Config(
        app, http=serve.PromptProtocol, lifespan="off", timeout_graceful_shutdown=1, log_level="critical"
    )
    server = serve.ModelServer(config, ServedModels([], Figures()), Draining(), drain=0.0)
    with bind("127.0.0.1", 0, first=0, what="the server") as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        with Visitor(address_of(listening, "127.0.0.1")) as visitor:
            visitor.say(GET.replace(b"/healthz", b"/large") + GET)
            assert begun.wait(20)
            server.handle_exit(signal.SIGTERM, None)
            thread.join(20)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["nowhere"],
            "neuropil: a model is a run, a Hugging Face folder, owner/name on its hub, or a file of word vectors, "
            "but got 'nowhere', which is no folder here",
        ),
        (["run", "--host", "0.0.0.0"], "neuropil: a server that other machines can reach must have a token, "),  # noqa: S104
        (["run", "--slots", "0"], "neuropil: --slots must be at least 1, but got 0."),
        ([], "neuropil: neuropil serve needs a run, but got none: neuropil serve runs/mine."),
    ],
)
def test_what_cannot_be_served_is_refused(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEUROPIL_TOKEN", raising=False)
    with pytest.raises(SystemExit) as caught:
        main(["serve", *words])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(said)
