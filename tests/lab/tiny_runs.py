"""Runs of models with attention that are trained in a second, on data of a few lines, for tests that only look at
them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuropil.runs.run import Run

SMALL = {"epochs": 1, "width": 16, "layers": 2, "heads": 2}
LINES = [
    f"{who} {does} the {what}."
    for who in ("We", "They", "You")
    for does in ("read", "write", "see")
    for what in ("list", "name", "file", "word", "class", "text", "line")
]
OPTIONS: dict[str, dict[str, Any]] = {
    "gpt2": {**SMALL, "context": 64, "vocabulary_size": 300, "batch_size": 8},
    "bert": {**SMALL, "context": 64, "vocabulary_size": 120, "batch_size": 8},
    "bert_classifier": {**SMALL, "context": 64, "vocabulary_size": 120, "batch_size": 8},
    "transformer": {**SMALL, "vocabulary_size": 60, "tokens": "characters"},
    "seq2seq": {"epochs": 1, "embedding_size": 8, "hidden_size": 16, "tokens": "characters"},
    "vit": SMALL,
    "attention": {"epochs": 1, "width": 16, "layers": 2},
    "clip": {"epochs": 1, "scenes": 80},
    "captioner": {"epochs": 1, "scenes": 80, "compare": False},
}
TEXTS = {
    "gpt2": "\n".join(20 * LINES),
    "bert": "\n".join(20 * LINES),
    "bert_classifier": "\n".join(["text\tlabel", *(f"{line}\t{line.split()[1]}" for line in LINES)]),
    "transformer": "\n".join(["source\ttarget", *(f"{line}\t{line.upper()}" for line in LINES)]),
}
TEXTS["seq2seq"] = TEXTS["transformer"]


def tiny(trained_run: Callable[..., Run], folder: Path, name: str) -> Run:
    """`folder` is where the data is written; digits and scenes need none."""
    options = OPTIONS[name]
    if name in TEXTS:
        data = folder / f"{name}.{'txt' if name in ('gpt2', 'bert') else 'tsv'}"
        data.write_text(TEXTS[name], encoding="utf-8")
        several = name in ("gpt2", "bert", "transformer", "seq2seq")
        options = options | {"data": (data,) if several else data}
    return trained_run(name, **options)
