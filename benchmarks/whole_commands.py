"""Whole commands, from a cold process with a warm disk cache, and where a file of 10,000 rows spends its time.

    neuropil train cnn --epochs 1         the embedded digits, with baselines and report        goal: 3 s
    neuropil generate FOLDER …            GPT-2 124M, to the first token, in each precision     goal: 1.5 s
    10,000 rows                           reading, the model, writing                           goal: the model, mostly

A process that imports PyTorch and does nothing stands beside them: no command can be quicker."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

import neuropil
from neuropil.cli import collect_after_imports

ROUNDS, ROWS, LEARNED = 5, 10_000, 600
PROMPT = "Once upon a time"
TORCH = [sys.executable, "-c", "import torch"]
COMMAND = [sys.executable, "-m", "neuropil"]
WORDS = ("good", "fine", "warm", "bright", "bad", "poor", "cold", "dull")


def median_seconds(work: Callable[[int], float]) -> float:
    """The first, which writes bytecode and compiles kernels, is thrown away."""
    return statistics.median([work(number) for number in range(ROUNDS + 1)][1:])


def seconds_of(words: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, env=environment())
    return time.perf_counter() - start


def seconds_to_first_token(words: list[str]) -> float:
    """To the first letters after the prompt."""
    start, shown = time.perf_counter(), b""
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment()) as process:
        output = cast(IO[bytes], process.stdout).fileno()
        while len(shown) <= len(PROMPT) and (more := os.read(output, 4096)):
            shown += more
        seconds = time.perf_counter() - start
        process.communicate()
    if process.returncode or len(shown) <= len(PROMPT):
        raise RuntimeError(f"neuropil generate has written {shown!r}")
    return seconds


def environment() -> dict[str, str]:
    """With bytecode, as on a user's machine."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def save_gpt2(folder: Path) -> None:
    """Random weights as Hugging Face writes them, and a byte-level tokenizer of as many tokens as GPT-2's."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config())
    model.save_pretrained(folder)
    letters, end = sorted(pre_tokenizers.ByteLevel.alphabet()), "<|endoftext|>"
    merges = [(first, second) for first in letters for second in letters][: model.config.vocab_size - len(letters) - 1]
    tokens = [*letters, *map("".join, merges), end]
    made = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=made, bos_token=end, eos_token=end).save_pretrained(folder)


# --- files of many rows -----------------------------------------------------------------------------------------------


def write_table(path: Path, rows: int) -> None:
    """18 numbers, two categories and a class."""
    generator = np.random.default_rng(rows)
    numbers, categories = generator.normal(size=(rows, 18)), generator.integers(0, 4, (rows, 2))
    classes = numbers[:, 0] + categories[:, 0] > 1
    lines = [",".join([*(f"n{column}" for column in range(18)), "c0", "c1", "label"])]
    for values, pair, label in zip(numbers, categories, classes, strict=True):
        lines.append(",".join([*(f"{value:.5f}" for value in values), *("abcd"[each] for each in pair), f"is {label}"]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def sentences(rows: int) -> list[list[str]]:
    return np.random.default_rng(rows).choice(WORDS, (rows, 15)).tolist()


def write_texts(path: Path, rows: int) -> None:
    lines = [f"{' '.join(words)},{words[0] in WORDS[:4]}" for words in sentences(rows)]
    path.write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")


def write_tagged(path: Path, rows: int) -> None:
    texts = ["\n".join(f"{word}\t{'A' if word in WORDS[:4] else 'B'}" for word in words) for words in sentences(rows)]
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")


def write_series(path: Path, rows: int) -> None:
    hours = np.datetime64("2020-01-01T00") + np.arange(rows)
    values = np.sin(np.arange(rows) / 24 * 2 * np.pi) + np.random.default_rng(0).normal(size=rows) / 10
    lines = [f"{hour},{value:.4f}" for hour, value in zip(hours, values, strict=True)]
    path.write_text("\n".join(["time,value", *lines]) + "\n", encoding="utf-8")


FILES: dict[str, tuple[Callable[[Path, int], None], str, dict[str, Any]]] = {
    "mlp": (write_table, "csv", {"target": "label"}),
    "text_classifier": (write_texts, "csv", {}),
    "tagger": (write_tagged, "conll", {}),
    "forecaster": (write_series, "csv", {}),
}
"""Of a system: how its file is written, how its name ends, and the options that it needs."""


class ModelClock:
    """Seconds inside a model."""

    def __init__(self, model: Any):
        self.seconds = self.begun = 0.0
        model.register_forward_pre_hook(self._begin)
        model.register_forward_hook(self._end)

    def _begin(self, *_: Any) -> None:
        self.begun = time.perf_counter()

    def _end(self, *_: Any) -> None:
        self.seconds += time.perf_counter() - self.begun


def profile(name: str, folder: Path) -> dict[str, float]:
    """Seconds of each part of answering for a file, and of scoring one with the right answers."""
    from neuropil.cli.output import print_lines

    write, ending, options = FILES[name]
    learned, asked = (folder / f"{name}-{rows}.{ending}" for rows in (LEARNED, ROWS))
    write(learned, LEARNED)
    write(asked, ROWS)
    run = neuropil.train(name, data=learned, epochs=1, out=folder / name, report=False, show_progress=False, **options)
    predictor = run.predictor
    clock = ModelClock(predictor.model)
    plain = asked
    if name == "tagger":  # which answers for sentences without tags
        plain = folder / "sentences.txt"
        plain.write_text("\n".join(map(" ".join, sentences(ROWS))) + "\n", encoding="utf-8")
    laps = [time.perf_counter()]
    inputs, names = predictor.read([plain])
    laps.append(time.perf_counter())
    answers = predictor.predict(inputs)
    laps.append(time.perf_counter())
    with (folder / "answers").open("w") as file, redirect_stdout(file):
        print_lines("\t".join([name, *cells]) for name, cells in zip(names, answers.lines(), strict=True))
    laps.append(time.perf_counter())
    model = clock.seconds
    labelled = predictor.read_labelled([asked])
    laps.append(time.perf_counter())
    predictor.evaluate(labelled)
    laps.append(time.perf_counter())
    reading, answering, writing, reading_labelled, scoring = np.diff(laps).tolist()
    parts = {"reading": reading, "model": model, "around the model": answering - model, "writing": writing}
    again = clock.seconds - model
    return parts | {"reading labels": reading_labelled, "model again": again, "scoring": scoring - again}


def print_profile(name: str, parts: dict[str, float]) -> None:
    whole = sum(parts.values())
    shares = ", ".join(f"{part} {seconds:.3f} s ({100 * seconds / whole:.0f} %)" for part, seconds in parts.items())
    print(f"{name}, {ROWS:,} rows: {shares}")


def main() -> None:
    collect_after_imports()  # as a command does: a search for garbage in all of PyTorch takes 0.1 s
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        print(f"import torch: {median_seconds(lambda _: seconds_of(TORCH)):.2f} s")
        train = [*COMMAND, "train", "cnn", "--epochs", "1", "--out"]
        seconds = median_seconds(lambda number: seconds_of([*train, str(place / f"cnn-{number}")]))
        print(f"neuropil train cnn --epochs 1: {seconds:.2f} s")
        for name in FILES:
            print_profile(name, profile(name, place))
        model = place / "gpt2"
        save_gpt2(model)
        for precision in ("float32", "bfloat16", "int8"):
            words = [*COMMAND, "generate", str(model), PROMPT, "--length", "8", "--precision", precision]
            seconds = median_seconds(lambda _, words=words: seconds_to_first_token(words))
            print(f"neuropil generate, GPT-2 124M in {precision}: first token after {seconds:.2f} s")


if __name__ == "__main__":
    main()
