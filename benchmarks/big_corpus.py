"""A text larger than memory: peak memory of whole runs on texts of several sizes, which should not grow with them, and
what reading tokens from disk costs against holding them.

python -m benchmarks.big_corpus                              gpt2 on 0.02 (held in memory), 1 and 2 GB
python -m benchmarks.big_corpus --gigabytes 1 10 --words     and word2vec; 10 GB take about an hour and 30 GB of disk
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

import neuropil
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.data.corpus.files import TextDataConfig, prepare_text
from neuropil.data.corpus.windows import TextWindows
from neuropil.data.tokenizers.learned import learn_merges
from neuropil.models.gpt2 import GPT2, SIZES
from neuropil.parts.objectives import NextTokenInWindow
from neuropil.protocols import Batch
from neuropil.randomness import initialised

GIGABYTE = 10**9
VOCABULARY, CONTEXT, BATCH, STEPS = 4_000, 128, 8, 60
OPTIONS: dict[str, Any] = {
    "width": 64,
    "heads": 2,
    "layers": 2,
    "feed_forward": 128,
    "context": CONTEXT,
    "vocabulary_size": VOCABULARY,
    "batch_size": BATCH,
    "minutes": 1.0,
}
PUBLISHED = (0.02, 1.0, 10.0)
HEADER = ["system", "text", "peak memory of its run"]
ABOUT = (
    "Whole runs on made-up texts of several sizes: a small model of one minute of training, from reading to its "
    "scores. Counted is the process's own memory, without pages of mapped files. The smallest text is held in memory."
)
WORDS_MINUTES = 1.0
SECONDS_BETWEEN_LOOKS = 0.05
WORDS, PARAGRAPHS, WORDS_IN_PARAGRAPH = 8_000, 20_000, 400


class Arguments(Config):
    gigabytes: tuple[float, ...] = option((0.02, 1.0, 2.0), "sizes of the texts")
    words: bool = option(False, "word2vec too, for a minute of training")
    folder: Path | None = option(None, "folder for the texts and their tokens, which are removed afterwards")
    run: str | None = option(None, "one run in this process, of gpt2 or word2vec: what the benchmark starts")
    data: Path | None = option(None, "its text")


# --- the text ---------------------------------------------------------------------------------------------------------


def write_corpus(path: Path, gigabytes: float) -> None:
    """Paragraphs of words by Zipf's law, in random order, each with a number."""
    generator = np.random.default_rng(0)
    letters = np.array([*"etaoinshrdlucmfwypvbgk"])
    words = ["".join(generator.choice(letters, size=length)) for length in generator.integers(2, 11, WORDS)]
    chances = 1 / np.arange(1, len(words) + 1)
    chosen = generator.choice(len(words), size=(PARAGRAPHS, WORDS_IN_PARAGRAPH), p=chances / chances.sum())
    paragraphs = [" ".join(words[number] for number in row).encode() for row in chosen]
    with path.open("wb") as file:
        number = 0
        while file.tell() < gigabytes * GIGABYTE:
            for paragraph in generator.permutation(PARAGRAPHS)[:2_000].tolist():
                number += 1
                file.write(b"%d %s.\n" % (number, paragraphs[paragraph]))


# --- one run, in a process of its own ---------------------------------------------------------------------------------


def gpt2(path: Path, folder: Path) -> dict[str, float]:
    peak, began = PeakMemory(), time.monotonic()
    corpus = prepare_text(TextDataConfig(data=(path,)))
    read = time.monotonic()
    tokenizer = learn_merges(corpus.learned_texts, VOCABULARY)
    learned = time.monotonic()
    tokens = corpus.tokens(tokenizer)["train"]
    split = time.monotonic()
    speed = training_speed(TextWindows(tokens, BATCH, CONTEXT, seed=0), len(tokenizer))
    batches = TextWindows(tokens, BATCH, CONTEXT, seed=0).epoch(0)
    reading = seconds_of(islice(batches, 20 * STEPS)) / (20 * STEPS)
    prepared = peak.megabytes
    del corpus, tokens, batches
    gc.collect()
    neuropil.train("gpt2", data=path, out=folder / "run", report=False, show_progress=False, **OPTIONS)
    return {
        "seconds to read": read - began,
        "seconds to learn a vocabulary": learned - read,
        "MB of text tokenised a second": path.stat().st_size / 1e6 / (split - learned),
        "tokens trained on a second": speed,
        "microseconds to read a batch": 1e6 * reading,
        "peak MB before training": prepared,
        "peak MB of the run": peak.megabytes,
    }


def training_speed(batches: TextWindows, vocabulary: int) -> float:
    sizes = {name: OPTIONS[name] for name in ("width", "heads", "layers", "feed_forward", "context")}
    config = replace(SIZES["tiny"], **sizes, vocabulary_size=vocabulary)
    model = initialised(lambda: GPT2(config), 0)
    (phase,) = NextTokenInWindow(model).phases()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        phase.loss(batch).backward()
        optimizer.step()

    every = batches.epoch(0)
    for batch in islice(every, 5):
        step(batch)
    seconds = seconds_of(map(step, islice(every, STEPS)))
    return STEPS * BATCH * CONTEXT / seconds


def seconds_of(items: Iterable[object]) -> float:
    began = time.monotonic()
    for _ in items:
        pass
    return time.monotonic() - began


def word2vec(path: Path, folder: Path) -> dict[str, float]:
    peak, began = PeakMemory(), time.monotonic()
    run = neuropil.train(
        "word2vec", data=path, out=folder / "run", report=False, show_progress=False, minutes=WORDS_MINUTES
    )
    return {"seconds": time.monotonic() - began, "loss": run.metrics["loss"], "peak MB of the run": peak.megabytes}


class PeakMemory(threading.Thread):
    """Of this process, without the pages of mapped files, which the system takes back whenever it needs them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.megabytes = 0.0
        self.start()

    def run(self) -> None:
        while True:
            lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
            own = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
            self.megabytes = max(self.megabytes, own * 1024 / 1e6)
            time.sleep(SECONDS_BETWEEN_LOOKS)


# --- all runs ---------------------------------------------------------------------------------------------------------


def measured(system: str, path: Path, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.big_corpus", "--run", system, "--data", str(path)]
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(found.stderr)
    return json.loads(found.stdout.splitlines()[-1])


def main(words: Sequence[str] = ()) -> None:
    arguments = parse(Arguments(), words, command="big_corpus", about=(__doc__ or "").split("\n")[0])
    if arguments.run is not None and arguments.data is not None:
        with tempfile.TemporaryDirectory() as folder:
            run = {"gpt2": gpt2, "word2vec": word2vec}[arguments.run]
            print(json.dumps(run(arguments.data, Path(folder))))
        return
    systems = ["gpt2", "word2vec"] if arguments.words else ["gpt2"]
    for system, gigabytes, found in runs(systems, arguments.gigabytes, arguments.folder):
        figures = "  ".join(f"{name} {value:,.4g}" for name, value in found.items())
        print(f"{system}, {gigabytes:g} GB:  {figures}", flush=True)


def runs(
    systems: Sequence[str], sizes: Sequence[float], folder: Path | None
) -> Iterator[tuple[str, float, dict[str, float]]]:
    for gigabytes in sizes:
        for system in systems:
            with tempfile.TemporaryDirectory(dir=folder) as made:
                path = Path(made, "corpus.txt")
                write_corpus(path, gigabytes)
                yield system, gigabytes, measured(system, path, Path(made))


def rows() -> Iterator[list[str]]:
    for system, gigabytes, found in runs(["gpt2", "word2vec"], PUBLISHED, None):
        print(system, gigabytes, found, flush=True)
        yield [system, f"{gigabytes:g} GB", f"{found['peak MB of the run']:,.0f} MB"]


if __name__ == "__main__":
    main(sys.argv[1:])
