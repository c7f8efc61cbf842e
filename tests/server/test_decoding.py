"""Limits, and clients that go: what is asked of one decoder never holds up the others for longer than it must."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from model_server import Gate, Served, Serving, wait_until
from neuropil.sampling.text.continuous_batching import GrowingText
from neuropil.server.decoding import TextWriter

BODY: dict[str, Any] = {"model": "lstm", "prompt": "12 is", "max_tokens": 40, "temperature": 0}


@contextmanager
def gated(serving: Serving, **options: Any) -> Iterator[tuple[Served, Gate]]:
    """A server of a model whose decoder waits to be let on."""
    with serving("lstm", **options) as served:
        gate = Gate(served.writer("lstm"))
        try:
            yield served, gate
        finally:
            gate.open()


def begin(served: Served, **fields: Any) -> socket.socket:
    """A client that has asked, and has not read."""
    request = httpx.Request("POST", f"{served.address}/v1/completions", json={**BODY, **fields})
    connection = socket.create_connection((request.url.host, request.url.port), timeout=20)
    lines = [
        f"{request.method} {request.url.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in request.headers.items()),
    ]
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + request.read())
    return connection


def read_until(connection: socket.socket, words: bytes) -> bytes:
    found = b""
    while words not in found:
        piece = connection.recv(65536)
        assert piece
        found += piece
    return found


@pytest.mark.parametrize("stream", [False, True])
def test_who_leaves_leaves_the_slot_at_the_next_step(serving: Serving, stream: bool):
    with gated(serving, slots=1) as (served, gate):
        writer = served.writer("lstm")
        with begin(served, stream=stream) as leaving:
            gate.let(3)
            if stream:
                read_until(leaving, b"data: ")
            wait_until(lambda: gate.holds and writer.batching.writing[0].written == 3)
            staying = begin(served, prompt="7 is", stream=False)
            wait_until(lambda: writer.waiting == 1)
        left = writer.batching.writing[0]
        wait_until(lambda: writer.commands.cancel)  # the thread waits at the gate, and has not heard of it
        gate.let(1)  # the step that is under way
        wait_until(lambda: left.done)
        assert left.written <= 4
        gate.open()
        with staying:
            assert b'"finish_reason":"length"' in read_until(staying, b"usage")
        assert served.figure('neuropil_cancelled_total{model="lstm"}') == 1
        wait_until(lambda: writer.outstanding == 0)


def test_who_waits_and_leaves_is_never_begun(serving: Serving):
    with gated(serving, slots=1) as (served, gate):
        writer = served.writer("lstm")
        with begin(served) as first:
            wait_until(lambda: gate.holds)
            with begin(served, prompt="7 is"):
                wait_until(lambda: writer.outstanding == 2)
            wait_until(lambda: writer.commands.cancel)
            gate.open()
            read_until(first, b"usage")
        wait_until(lambda: writer.outstanding == 0)
        assert served.figure('neuropil_prompt_tokens_total{model="lstm"}') > 0
        assert served.figure('neuropil_generated_tokens_total{model="lstm"}') == 40


def test_a_full_queue_answers_429_and_when_to_ask_again(serving: Serving):
    with gated(serving, slots=2, queue=1) as (served, gate):
        writer = served.writer("lstm")
        waiting = [begin(served) for _ in range(3)]
        wait_until(lambda: writer.outstanding == 3)
        with pytest.raises(openai.RateLimitError) as caught:
            served.complete(**BODY)
        assert caught.value.response.headers["retry-after"] == "1"
        body: Any = caught.value.body
        assert body["message"] == "The server is busy: it has room for 0 more texts, but got 1; ask again later."
        assert body["code"] == "queue_full"
        # All texts of a request or none: two more would need two places.
        gate.open()
        for each in waiting:
            with each:
                read_until(each, b"usage")
        assert served.ask("/v1/completions", {**BODY, "n": 3}).status_code == 200
        said = (400, "A request may ask for at most 3 texts here, but got 4.", None)
        assert served.error("/v1/completions", {**BODY, "n": 4}) == said


def test_too_many_texts_are_refused_before_any_prompt_is_read(serving: Serving, monkeypatch: pytest.MonkeyPatch):
    with serving("lstm", slots=2, queue=1) as served:
        monkeypatch.setattr(served.writer("lstm").model, "tokenizer", None)
        said = (400, "A request may ask for at most 3 texts here, but got 4,000.", None)
        assert served.error("/v1/completions", {**BODY, "prompt": ["a"] * 1000, "n": 4}) == said


def test_a_request_that_is_still_being_sent_when_the_server_ends_is_answered(serving: Serving):
    with serving("lstm") as served:
        request = httpx.Request("POST", f"{served.address}/v1/completions", json={**BODY, "max_tokens": 2})
        head = f"POST /v1/completions HTTP/1.1\r\nhost: {request.headers['host']}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(request.content)}\r\n\r\n"
        with socket.create_connection((request.url.host, request.url.port), timeout=20) as connection:
            connection.sendall(head.encode() + request.content[:10])
            wait_until(lambda: served.server.draining.requests == 1)
            served.server.handle_exit(15, None)
            time.sleep(0.3)  # in which an idle server has ended
            connection.sendall(request.content[10:])
            read_until(connection, b'"finish_reason":"length"')


def test_a_client_that_asks_again_gets_its_answer(serving: Serving):
    with gated(serving, slots=1, queue=0) as (served, gate), begin(served) as first:
        wait_until(lambda: served.writer("lstm").outstanding == 1)
        patient = served.openai.with_options(max_retries=5)
        with ThreadPoolExecutor(1) as pool:
            create: Any = patient.completions.create
            answer = pool.submit(create, **BODY)
            wait_until(lambda: served.figure('neuropil_requests_total{endpoint="/v1/completions",status="429"}'))
            gate.open()
            read_until(first, b"usage")
            assert answer.result().usage.completion_tokens == 40


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_may_take_so_long(serving: Serving, stream: bool):
    with gated(serving, slots=1, timeout=0.2) as (served, gate):
        writer = served.writer("lstm")
        with begin(served, stream=stream) as begun:
            wait_until(lambda: writer.outstanding == 1)
            with begin(served, stream=stream) as waiting:
                wait_until(lambda: writer.outstanding == 2)
                deadline = time.monotonic() + served.config.timeout
                gate.let(1)
                wait_until(lambda: time.monotonic() > deadline)
                gate.open()
                late, never = (read_until(each, b"timeout_error").decode() for each in (begun, waiting))
        rule = "A request may take 0.2 seconds here, and this one took longer"
        assert f"{rule}." in late
        assert f"{rule}, without leaving the queue." in never
        assert late.startswith("HTTP/1.1 200" if stream else "HTTP/1.1 504")
        wait_until(lambda: writer.outstanding == 0)


def test_a_fault_of_the_decoder_fails_one_request(serving: Serving, capsys: pytest.CaptureFixture[str]):
    with serving("lstm", slots=2) as served:
        decoder = served.writer("lstm").batching.decoder
        read = decoder.read

        def fail(slot: int, tokens: Any) -> Any:
            if len(tokens) > 20:
                raise RuntimeError("a kernel broke")
            return read(slot, tokens)

        decoder.read = fail
        expected = served.ask("/v1/completions", BODY).json()["choices"]
        with ThreadPoolExecutor(2) as pool:
            good = pool.submit(served.ask, "/v1/completions", BODY)
            bad = pool.submit(served.error, "/v1/completions", {**BODY, "prompt": "12 is " * 20})
            said = "The server failed at this request (RuntimeError); its log says where."
            assert bad.result() == (500, said, None)
            assert good.result().json()["choices"] == expected
        assert "a kernel broke" in capsys.readouterr().err
        assert served.figure('neuropil_failures_total{model="lstm"}') == 1
        assert served.ask("/healthz").json() == {"alive": True, "ready": True}


@pytest.mark.parametrize("broken", ["batching._read_pieces", "batching.add", "_deliver", "_drop_late"])
def test_a_fault_of_the_scheduler_itself_ends_what_is_under_way_and_nothing_else(
    broken: str, serving: Serving, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    with serving("lstm", slots=2, timeout=20.0) as served:
        writer = served.writer("lstm")
        owner, name = (writer.batching, broken.partition(".")[2]) if "." in broken else (writer, broken)
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, lambda *_: 1 / 0)
            said = "The server failed while it wrote this text."
            assert served.error("/v1/completions", BODY) == (500, said, None)
        assert "ZeroDivisionError" in capsys.readouterr().err
        assert served.ask("/v1/completions", BODY).status_code == 200
        assert (writer.alive, writer.waiting, writer.outstanding) == (True, 0, 0)


def test_a_long_prompt_does_not_stop_the_others(serving: Serving):
    with gated(serving, slots=2, piece=8) as (served, gate):
        writer = served.writer("lstm")
        with begin(served) as short:
            gate.let(2)
            # Else the thread might take the next request before it stands at the gate.
            wait_until(lambda: gate.holds and [text.written for text in writer.batching.writing] == [2])
            with begin(served, prompt="12 is " * 40) as long:
                wait_until(lambda: writer.commands.begin)
                gate.let(11)  # a token, then by turns a piece of eight tokens and a token of the other text
                first, second = _texts(writer, 2)
                wait_until(lambda: (first.written, second.read) == (8, 40))
                assert second.written == 0
                gate.open()
                read_until(long, b"usage")
            read_until(short, b"usage")


def _texts(writer: TextWriter, count: int) -> list[GrowingText]:
    """When the thread has so many."""
    wait_until(lambda: len(writer.writing) == count)
    return list(writer.writing)


def test_shutting_down_finishes_what_is_begun_and_refuses_what_comes(serving: Serving):
    with gated(serving, slots=1) as (served, gate):
        with begin(served, stream=True) as running:
            gate.let(2)
            read_until(running, b"data: ")
            served.server.handle_exit(15, None)
            refused = served.ask("/v1/completions", BODY)
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            assert refused.json()["error"]["message"] == "The server is shutting down."
            assert served.ask("/healthz").json() == {"alive": True, "ready": False}
            assert served.ask("/healthz/ready").status_code == 503
            gate.open()
            rest = read_until(running, b"[DONE]")
            assert b'"finish_reason":"length"' in rest
        wait_until(lambda: served.server.should_exit)


def test_what_is_not_done_when_the_time_is_over_is_told_so(serving: Serving):
    with gated(serving, slots=1, drain=0.0) as (served, gate):
        writer = served.writer("lstm")
        with begin(served, stream=True) as running:
            gate.let(2)
            read_until(running, b"data: ")
            with begin(served) as waiting:
                wait_until(lambda: writer.outstanding == 2)
                served.server.handle_exit(15, None)
                wait_until(lambda: writer.closing)
                gate.let(1)
                assert b'"The server is shutting down."' in read_until(running, b"shutting_down")
                assert read_until(waiting, b"shutting_down").startswith(b"HTTP/1.1 503")
