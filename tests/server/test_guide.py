"""What the page on serving shows is what happens."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from model_server import Served
from neuropil.server.config import ServerConfig
from neuropil.server.models import PATHS

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "serving.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_example_for_the_client_of_openai_runs(served: Served, capsys: pytest.CaptureFixture[str]):
    (code,) = blocks("py")
    names: dict[str, Any] = {}
    exec(code.replace(ADDRESS, served.address), names)  # noqa: S102 (the page is ours)
    names["client"].close()  # else its socket is found open whenever the memory is tidied up
    assert "completion_tokens=20" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_the_examples_for_curl_are_answered(served: Served):
    (lines,) = blocks("sh")
    commands = [shlex.split(line.replace(ADDRESS, served.address)) for line in lines.splitlines()]
    for command in commands:
        done = subprocess.run([*command, "--silent"], capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        # A series of twelve values may be too short for a model, which says so.
        assert "error" not in answer or "forecast" in command[1]


def test_an_error_looks_as_it_is_shown(served: Served):
    (shown,) = blocks("json")
    assert served.ask("/v1/completions", {"model": "gpt2", "prompt": "a", "top_p": 1.5}).json() == json.loads(shown)


def test_every_option_and_every_endpoint_is_explained():
    options = [f"`--{each.name.replace('_', '-')}`" for each in ServerConfig().options()]
    assert [each for each in options if each not in PAGE] == []
    assert [path for path in PATHS.values() if f"`POST {path}`" not in PAGE] == []
    assert [
        each.name
        for each in ServerConfig().options()
        if (found := re.search(rf"^\| `--{each.name.replace('_', '-')}` (\d+) ", PAGE, re.MULTILINE))
        and float(found[1]) != each.default
    ] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd on this machine")
def test_systemd_understands_the_service(tmp_path: Path):
    (unit,) = blocks("ini")
    program = tmp_path / "neuropil"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    path = tmp_path / "neuropil.service"
    path.write_text(unit.replace("/opt/neuropil/bin/neuropil", str(program)), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if "neuropil" in line]
    assert (done.returncode, said) == (0, [])
