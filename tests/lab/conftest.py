"""A lab that runs in a thread of the tests, over runs that are trained once, and a real browser that opens it."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn

from neuropil.lab.app import create_app
from neuropil.lab.security import Access
from neuropil.lab.serve import bind
from neuropil.runs.run import Run, load
from neuropil.runs.start import train

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run"]
WAIT = 10_000
"""Milliseconds: far more than an answer takes, so that only a fault runs into it."""


@dataclass(frozen=True)
class Lab:
    """Where the server of the tests is, and its runs."""

    address: str
    runs: Path

    def link(self, path: str, **query: str) -> str:
        words = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        return f"{self.address}/#{path}{'?' if words else ''}{words}"


@pytest.fixture(scope="session")
def lab_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab") / "runs"


@pytest.fixture(scope="session")
def trained_run(lab_runs: Path) -> Callable[..., Run]:
    """A tiny run of a system, trained the first time that a test asks for it: `trained_run("cnn", epochs=1)`."""

    def get(name: str, **options: Any) -> Run:
        folder = lab_runs / name
        if not (folder / "report.html").exists() and not (folder / "model.safetensors").exists():
            train(name, out=folder, show_progress=False, report=False, **options)
        return load(folder)

    return get


@pytest.fixture(scope="session")
def lab(lab_runs: Path) -> Iterator[Lab]:
    lab_runs.mkdir(exist_ok=True)
    listening = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(create_app(lab_runs, Access("127.0.0.1")), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Lab(f"http://127.0.0.1:{listening.getsockname()[1]}", lab_runs)
    server.should_exit = True
    thread.join(timeout=5)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("the tests of the page are left out: there is no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of its own for a test, which fails where a script does or where anything asks another machine."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(WAIT)
    opened, faults, strangers = context.new_page(), [], []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: strangers.append(request.url) if _leaves(request.url) else None)
    yield opened
    context.close()
    assert (faults, strangers) == ([], [])


def _leaves(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "data:", "blob:", "about:"))
