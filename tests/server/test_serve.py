"""The command as a process of its own."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from model_server import serving_thread
from neuropil.cli import main
from neuropil.server import serve


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


def test_a_connection_that_says_nothing_is_closed(run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serve, "SECONDS_TO_SEND", 0.2)
    with serving_thread([str(run_folder("lstm"))]) as served:
        host, port = served.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as silent:
            silent.sendall(b"GET /healthz HTTP/1.1\r\n")
            assert silent.recv(1) == b""
        assert served.ask("/healthz").status_code == 200  # one that has asked may be idle for longer
        time.sleep(0.4)
        assert served.ask("/healthz").status_code == 200


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
