from pathlib import Path

import pytest
from starlette.testclient import TestClient

from neuropil.http.access import Access
from neuropil.lab.app import create_app
from neuropil.lab.security import PAGE_POLICY, REPORT_POLICY

OWN = "http://127.0.0.1:8321"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return TestClient(create_app(tmp_path, Access("127.0.0.1")), base_url=OWN)


@pytest.fixture
def remote(tmp_path: Path) -> TestClient:
    app = create_app(tmp_path, Access("0.0.0.0", token="secret"))  # noqa: S104, S106
    return TestClient(app, base_url="http://lab.example:8321", follow_redirects=False)


def test_every_answer_forbids_outside_requests(client: TestClient):
    for path in ("/", "/api/systems", "/page/lab.js", "/source/models/lif.py", "/nothing"):
        assert client.get(path).headers["content-security-policy"] == PAGE_POLICY
    assert "default-src 'none'" in PAGE_POLICY
    assert "http:" not in PAGE_POLICY.replace("frame-ancestors", "|").split("|")[0]


def test_another_origin_is_refused(client: TestClient):
    for method in ("GET", "POST"):
        answer = client.request(method, "/api/systems", headers={"origin": "https://evil.example"})
        assert (answer.status_code, answer.text) == (403, "Requests from other sites are refused.")
    assert client.get("/api/systems", headers={"origin": OWN}).status_code == 200
    form = client.post("/api/views/lif/open", json={}, headers={"sec-fetch-site": "cross-site"})
    assert form.status_code == 403


def test_another_host_name_for_this_machine_is_refused(client: TestClient):
    answer = client.get("/", headers={"host": "evil.example:8321"})
    assert (answer.status_code, answer.text) == (403, "The lab is not at 'evil.example:8321': open it at 127.0.0.1.")


@pytest.mark.parametrize("wrong", [{"host": "["}, {"host": "[::1"}, {"origin": "http://["}, {"origin": "null"}])
def test_what_is_no_address_is_refused_and_the_refusal_protected(client: TestClient, wrong: dict[str, str]):
    answer = client.get("/", headers=wrong)
    assert answer.status_code == 403
    assert answer.headers["content-security-policy"] == PAGE_POLICY


def test_other_machines_need_the_token(remote: TestClient):
    refused = remote.get("/api/systems")
    assert refused.status_code == 401
    assert refused.text == "The lab asks for its token: open the link that `neuropil lab` printed."
    assert remote.get("/?token=wrong").status_code == 401
    assert remote.get("/api/systems", headers={"authorization": "Bearer secret"}).status_code == 200
    entered = remote.get("/?token=secret")
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert remote.get("/api/systems").status_code == 200  # with the cookie


@pytest.mark.parametrize(
    "file", ["../../etc/passwd", "%2e%2e/%2e%2e/pyproject.toml", "lab/page/index.html", "nothing.py"]
)
def test_only_our_own_source_is_served(client: TestClient, file: str):
    assert client.get(f"/source/{file}").status_code in (400, 404)


@pytest.mark.parametrize("name", ["..", "../..", ".trash", "a/../..", "/etc", ""])
def test_a_run_is_nowhere_but_below_the_folder_of_runs(client: TestClient, name: str):
    answer = client.post("/api/views/layers/open", params={"run": name}, json={})
    assert answer.status_code == 400


def test_a_report_is_served_in_a_sandbox(client: TestClient, tmp_path: Path):
    (tmp_path / "cnn").mkdir()
    (tmp_path / "cnn" / "report.html").write_text("<script>1</script>", encoding="utf-8")
    answer = client.get("/report/cnn")
    assert answer.headers["content-security-policy"] == REPORT_POLICY
    assert REPORT_POLICY.startswith("sandbox allow-scripts;")
    assert client.get("/report/other").status_code == 400


def test_a_question_is_short(client: TestClient):
    long = b'{"current": ' + b"1" * 2**20 + b"}"
    answer = client.post("/api/views/lif/simulate", content=long, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.text) == (413, "A question may have 1,048,576 bytes.")
