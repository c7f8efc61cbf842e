"""A lab that runs in a thread of the tests, over runs that are trained once, and a real browser that opens it."""

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn

from lab_browser import opened_page
from neuropil.http.access import Access
from neuropil.http.listening import bind
from neuropil.lab.app import create_app
from neuropil.runs.run import Run, load
from neuropil.runs.start import train

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run"]

RECURRENT = {"hidden_size": 24, "embedding_size": 8, "updates": 60, "batch_size": 8, "steps": 32}
ATTENTIVE = {"width": 32, "heads": 2, "layers": 2, "context": 64, "updates": 40}
TEXT_OPTIONS = {
    "lstm": RECURRENT,
    "mingru": RECURRENT | {"layers": 2},
    "gpt2": ATTENTIVE | {"vocabulary_size": 300},
    "bert": ATTENTIVE | {"vocabulary_size": 300},
    "text_classifier": {"hidden_size": 16, "embedding_size": 8, "epochs": 2, "bigrams": 64},
    "bert_classifier": ATTENTIVE | {"vocabulary_size": 100, "epochs": 2},
    "word2vec": {"width": 12, "epochs": 2, "min_count": 2, "threads": 1, "test": 0.2},
    "tagger": {"hidden_size": 16, "embedding_size": 8, "epochs": 4},
}
PAIR_OPTIONS = {
    "transformer": {"width": 16, "heads": 2, "layers": 2, "epochs": 4, "tokens": "characters"},
    "seq2seq": {"embedding_size": 8, "hidden_size": 16, "epochs": 4, "tokens": "characters"},
}


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
    """A tiny run of a system, trained the first time that a test asks for it: `trained_run("cnn", epochs=1)`. One with
    other options than the rest of the tests have is `called` otherwise."""

    def get(name: str, called: str = "", **options: Any) -> Run:
        folder = lab_runs / (called or name)
        if not (folder / "report.html").exists() and not (folder / "model.safetensors").exists():
            train(name, out=folder, show_progress=False, report=False, **options)
        return load(folder)

    return get


@pytest.fixture(scope="session")
def text_run(lab_runs: Path) -> Callable[[str], Run]:
    """A run of a system of texts, on a few hundred sentences: `text_run("gpt2")` is in `texts_gpt2`."""
    sentences = [f'{number} is "{"odd" if number % 2 else "even"}" (see {number + 1}).' for number in range(400)]
    labelled = [f"so {number} is {kind} now,{kind}\n" for number in range(50) for kind in ("odd", "even")]
    digits = [f"{n // 100} and {n // 10 % 10} and {n % 10} is {'odd' if n % 2 else 'even'}" for n in range(400)]
    kinds = {
        "word2vec": "\n".join(digits),
        "text_classifier": "text,label\n" + "".join(labelled),
        "bert_classifier": "text,label\n" + "".join(labelled),
        "tagger": "".join("The DET\ncat NOUN\nsat VERB\n\nA DET\ndog NOUN\n\n" for _ in range(40)),
    }

    def get(name: str) -> Run:
        path = lab_runs.parent / (f"{name}.csv" if name.endswith("classifier") else f"{name}.txt")
        folder = lab_runs / f"texts_{name}"
        if not (folder / "model.safetensors").exists():
            path.write_text(kinds.get(name, "\n".join(sentences)), encoding="utf-8")
            train(name, data=path, out=folder, show_progress=False, report=False, **TEXT_OPTIONS[name])
        return load(folder)

    return get


@pytest.fixture(scope="session")
def pair_run(trained_run: Callable[..., Run], lab_runs: Path) -> Callable[[str], Run]:
    """A run of a system that translates, on numbers that are to be read backwards: `pair_run("transformer")`."""
    pairs = [f"say {number},{str(number)[::-1]} said\n" for number in range(100, 300)]

    def get(name: str) -> Run:
        path = lab_runs.parent / "pairs.csv"
        path.write_text("source,target\n" + "".join(pairs), encoding="utf-8")
        return trained_run(name, data=path, **PAIR_OPTIONS[name])

    return get


@pytest.fixture(scope="session")
def lab(lab_runs: Path) -> Iterator[Lab]:
    lab_runs.mkdir(exist_ok=True)
    listening = bind("127.0.0.1", 0, first=0, what="the lab")
    server = uvicorn.Server(uvicorn.Config(create_app(lab_runs, Access("127.0.0.1")), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Lab(f"http://127.0.0.1:{listening.getsockname()[1]}", lab_runs)
    server.should_exit = True
    thread.join(timeout=5)


@pytest.fixture(scope="session")
def browser_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of one browser for all tests."""
    if BROWSER is None:
        pytest.skip("the tests of the page are left out: there is no chromium on this machine")
    profile = tmp_path_factory.mktemp("profile")
    words = [BROWSER, "--headless", "--remote-debugging-port=0", f"--user-data-dir={profile}", *FLAGS, "about:blank"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"ws://(\S+?)/", line):
            break
    else:
        raise AssertionError("chromium did not say where it listens")
    drain = threading.Thread(target=process.stderr.read, daemon=True)
    drain.start()
    yield f"http://{found[1]}"
    process.kill()
    process.wait()
    drain.join()
    process.stderr.close()


@pytest.fixture(scope="module")
def browser(browser_address: str) -> Iterator[Any]:
    """Connected to for one module at a time: as long as Playwright is there, a thread has its event loop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.connect_over_cdp(browser_address)


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of its own for a test, which fails where a script does or where anything asks another machine."""
    with opened_page(browser) as (opened, faults):
        yield opened
    assert faults == []
