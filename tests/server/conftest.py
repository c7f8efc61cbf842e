"""Tiny runs that are trained once, and a server of all of them."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from model_server import Served, Serving, serving_thread
from neuropil.runs.start import train

ATTENTIVE = {"width": 16, "heads": 2, "layers": 2, "context": 64, "updates": 60, "vocabulary_size": 300}
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("texts.txt", ATTENTIVE),
    "bert": ("texts.txt", ATTENTIVE),
    "lstm": ("texts.txt", {"hidden_size": 16, "embedding_size": 8, "updates": 5, "batch_size": 8, "steps": 32}),
    "text_classifier": ("labels.csv", {"hidden_size": 8, "embedding_size": 8, "epochs": 1, "bigrams": 64}),
    "transformer": ("pairs.csv", {"width": 16, "heads": 2, "layers": 1, "epochs": 1, "tokens": "characters"}),
    "forecaster": ("series.csv", {"updates": 5, "members": 1, "hidden_size": 8, "horizon": 4, "target": "sold"}),
}


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Of a tiny run of a system, trained the first time that a test asks for it."""
    folder = tmp_path_factory.mktemp("served")
    numbers = random.Random(0)  # noqa: S311
    lines = [f"{n} is {'odd' if n % 2 else 'even'}, see {n + 1}. é€" for n in range(200)]
    labels = [f"so {n} is {kind} now,{kind}" for n in range(20) for kind in ("odd", "even")]
    pairs = [f"say {n},{str(n)[::-1]} said" for n in range(100, 150)]
    series = [f"{n % 7 + numbers.random():.3f}" for n in range(200)]
    (folder / "texts.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "labels.csv").write_text("\n".join(["text,label", *labels]), encoding="utf-8")
    (folder / "pairs.csv").write_text("\n".join(["source,target", *pairs]), encoding="utf-8")
    (folder / "series.csv").write_text("\n".join(["sold", *series]), encoding="utf-8")

    def get(name: str) -> Path:
        if not (folder / name / "model.safetensors").exists():
            data, options = OPTIONS[name]
            train(name, data=folder / data, out=folder / name, show_progress=False, report=False, **options)
        return folder / name

    return get


@pytest.fixture(scope="session")
def serving(run_folder: Callable[[str], Path]) -> Serving:
    """A server of its own for a test: `with serving("gpt2", slots=2) as served`."""

    def start(*names: str, **options: Any) -> AbstractContextManager[Served]:
        return serving_thread([str(run_folder(name)) for name in names], **options)

    return start


@pytest.fixture(scope="module")
def served(serving: Serving) -> Iterator[Served]:
    """One with a model for each endpoint, for the tests of a file: what keeps it from ending is theirs then."""
    with serving(*OPTIONS, max_tokens=100) as found:
        yield found
