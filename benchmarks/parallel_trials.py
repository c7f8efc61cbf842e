"""A search with one worker, which uses all cores, beside the same with as many workers as there are cores: how long it
takes, and what it finds. Goal: at least 1.5 times as fast on two cores, with as good a result."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import neuropil

TRIALS, SEEDS = 20, range(3)
SYSTEMS: dict[str, dict[str, Any]] = {"mlp": {"epochs": 60}, "cnn": {"epochs": 18}}
HEADER = ["system", "workers", "seconds", "times as fast", "best validation loss", "default options"]
ABOUT = (
    f"`neuropil tune NAME --trials {TRIALS} --workers N` on the embedded digits: means over {len(SEEDS)} seeds, both "
    "in turns. One worker uses all cores, of several each has its share."
)


def search(name: str, workers: int, seed: int, folder: Path) -> tuple[float, float, float]:
    """Seconds, and the validation loss of the best trial and of the default options."""
    began = time.monotonic()
    quiet = {"show_progress": False, "report": False}
    found = neuropil.tune(
        name, trials=TRIALS, workers=workers, seed=seed, out=folder / f"{workers}-{seed}", **quiet, **SYSTEMS[name]
    )
    best = next(trial for trial in found.rows if trial.number == found.settings["best"])
    return time.monotonic() - began, best.value or 0.0, found.rows[0].value or 0.0


def rows() -> Iterator[list[str]]:
    several = max(2, torch.get_num_threads())
    for name in SYSTEMS:
        measured: dict[int, list[tuple[float, float, float]]] = {1: [], several: []}
        with tempfile.TemporaryDirectory() as folder:
            for seed in SEEDS:
                for workers in measured if seed % 2 else reversed(measured):
                    measured[workers].append(search(name, workers, seed, Path(folder)))
        alone = statistics.mean(seconds for seconds, *_ in measured[1])
        for workers, found in measured.items():
            seconds, best, default = (statistics.mean(values) for values in zip(*found, strict=True))
            yield [name, str(workers), f"{seconds:.0f}", f"{alone / seconds:.2f}", f"{best:.4f}", f"{default:.4f}"]


def main() -> None:
    print(ABOUT)
    for row in [HEADER, *rows()]:
        print("\t".join(row))


if __name__ == "__main__":
    main()
