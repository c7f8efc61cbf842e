import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from model_server import Served, Serving


@pytest.fixture(scope="module")
def guarded(serving: Serving) -> Iterator[Served]:
    with serving("lstm", token="secret", max_body=2048, slots=1) as found:  # noqa: S106
        yield found


def test_without_the_token_nothing_is_answered_but_health(guarded: Served):
    said = "A request must bring the server's token, as in `Authorization: Bearer TOKEN`."
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret2"}):
        for path in ("/v1/models", "/metrics", "/nothing"):
            answer = guarded.ask(path, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert answer.json()["error"]["message"] == said
            assert answer.json()["error"]["code"] == "invalid_api_key"
    assert guarded.ask("/healthz").json() == {"alive": True, "ready": True}
    assert guarded.ask("/healthz/ready").status_code == 200
    assert [model.id for model in guarded.openai.models.list()] == ["lstm"]
    assert guarded.ask("/v1/models", headers={"authorization": "bearer secret"}).status_code == 200


def test_a_load_balancer_may_ask_for_the_head_of_its_health_alone(guarded: Served):
    for path in ("/healthz", "/healthz/ready"):
        answer = guarded.http.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


def test_a_request_may_be_so_large(guarded: Served):
    token = {"authorization": "Bearer secret"}
    said = (413, "A request may have at most 2,048 bytes.", None)
    assert guarded.error("/v1/completions", b"{" * 2049, headers=token) == said

    def pieces() -> Iterator[bytes]:
        for _ in range(3):
            yield b" " * 1000

    endless = httpx.post(f"{guarded.address}/v1/completions", content=pieces(), headers=token)
    assert (endless.status_code, endless.json()["error"]["message"]) == said[:2]


def test_a_line_for_each_request_is_written_where_it_is_asked_for(serving: Serving, capsys: pytest.CaptureFixture[str]):
    with serving("lstm", log=True) as served:
        served.ask("/healthz")
        served.ask("/v1/completions", {"prompt": "12 is", "max_tokens": 1})
        with socket.create_connection((served.http.base_url.host, served.http.base_url.port or 0)) as odd:
            odd.sendall(b"GET /%1b%0a" + b"a" * 200 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            while odd.recv(4096):
                pass
    cut = re.escape(ascii("/\x1b\n" + "a" * 97))
    asked = ["GET /healthz 200", "POST /v1/completions 200", f"GET {cut} 404"]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(asked)
    for line, words in zip(lines, asked, strict=True):
        assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 127\.0\.0\.1 {words} \d+\.\d{{3}} s", line)


def test_other_host_names_and_other_sites_are_refused(served: Served):
    assert served.error("/v1/completions", {}, headers={"host": "evil.example"}) == (
        403,
        "The server is not at 'evil.example': ask it at 127.0.0.1.",
        None,
    )
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        said = (403, "Requests from pages of other sites are refused.", None)
        assert served.error("/v1/completions", {}, headers=headers) == said
    assert served.ask("/healthz", headers={"host": "evil.example"}).status_code == 403


def test_answers_are_neither_kept_nor_guessed_at(served: Served):
    for path in ("/healthz", "/v1/models", "/nothing", "/metrics"):
        answer = served.ask(path)
        assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")
        assert "server" not in answer.headers
