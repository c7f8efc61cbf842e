"""Whatever is asked, the answer is one sentence and protected as every other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from neuropil.http.access import Access
from neuropil.lab.app import create_app
from neuropil.lab.security import PAGE_POLICY

JSON = {"content-type": "application/json"}


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    app = create_app(tmp_path, Access("127.0.0.1"))
    return TestClient(app, base_url="http://127.0.0.1:8321", raise_server_exceptions=False)


@pytest.mark.parametrize("path", ["/api/views/lif/simulate", "/api/forms/mlp", "/api/plans/mlp", "/api/jobs/mlp"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "a question must be a JSON object, but got list."),
        (b"null", "a question must be a JSON object, but got NoneType."),
        (b"{", "a question must be JSON, and its texts Unicode, but got something else."),
        (b"\xff", "a question must be JSON, and its texts Unicode, but got something else."),
        (b'{"a":' * 100_000, "a question must be JSON, and its texts Unicode, but got something else."),
        (b'{"a": ' + b"1" * 5000 + b"}", "a question must be JSON, and its texts Unicode, but got something else."),
        (b'{"text": "\\ud800"}', "a question must be JSON, and its texts Unicode, but got something else."),
    ],
)
def test_what_is_no_question_is_refused(client: TestClient, path: str, body: bytes, said: str):
    answer = client.post(path, content=body, headers=JSON)
    assert (answer.status_code, answer.json()) == (400, {"error": said})


def test_a_question_that_goes_on_for_ever_is_not_read(client: TestClient):
    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"1" * 100_000

    answer = client.post("/api/views/lif/simulate", content=pieces(), headers=JSON)
    assert (answer.status_code, answer.json()) == (400, {"error": "a question must come whole."})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"self": 1}', "an option must be one that `neuropil show` lists, but got 'self': choose from "),
        ('{"current": 1' + "0" * 400 + "}", "current must be at most 5, but got 1000"),
        ('{"current": NaN}', "current must be at least -1, but got nan."),
    ],
)
def test_a_value_that_does_not_fit_is_refused(client: TestClient, body: str, said: str):
    answer = client.post("/api/views/lif/simulate", content=body, headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(said)


@pytest.mark.parametrize("name", ["a%00b", "x" * 300])
def test_a_name_that_no_file_can_have_is_refused(client: TestClient, tmp_path: Path, name: str):
    shown = repr("a\0b" if "%" in name else name[:100])
    said = {"error": f"a run must be a folder in {tmp_path}, but got {shown}."}
    for answer in (client.get(f"/report/{name}"), client.post(f"/api/views/layers/open?run={name}", json={})):
        assert (answer.status_code, answer.json()) == (400, said)
    source = client.get(f"/source/{name}")
    said = {"error": f"a source file must be one of neuropil's, but got {shown}."}
    assert (source.status_code, source.json()) == (400, said)


def test_what_is_not_there_is_said_in_a_sentence(client: TestClient):
    nothing = client.get("/nothing")
    assert (nothing.status_code, nothing.json()) == (404, {"error": "The lab has nothing there: Not Found."})
    several = client.get("/api/compare")
    said = {"error": "This cannot be asked: query.run: Field required."}
    assert (several.status_code, several.json()) == (400, said)


def test_a_file_that_cannot_be_written_is_said_in_a_sentence(client: TestClient, tmp_path: Path):
    (tmp_path / ".lab").write_text("a file where a folder must be", encoding="utf-8")
    answer = client.post("/api/uploads")
    said = "The files of the runs must be there to read and write, but got [Errno 20] Not a directory: "
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(said)


def test_an_answer_is_protected_also_where_the_lab_itself_fails(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    def fail(_: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("neuropil.lab.app.find_view", fail)
    answer = client.post("/api/views/lif/open", json={})
    said = "The lab failed (ZeroDivisionError): the terminal that it was started in says where."
    assert (answer.status_code, answer.json()) == (500, {"error": said})
    assert answer.headers["content-security-policy"] == PAGE_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
