"""A spiking classifier's epoch beside snnTorch's and Norse's: the same layers, time constant, steps, surrogate, reset,
first weights, batches, input spikes and updates of Adam, taking turns. Goal: at least 3 times the pictures a second of
each, at equal accuracy.

    python -m benchmarks.spiking_peers [--mnist FOLDER] [--networks currents poisson ...] [--seeds 1] [--epochs 1]

Each library has a process of its own, and each peer an environment of its own in the user's cache, made when it is
missing. Before training, logits and gradients of the same weights are compared."""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.spiking_worker import ours
from benchmarks.timing import alternate, ratio
from benchmarks.workers import Worker, interpreter
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.data.examples.files import ClassificationDataConfig, prepare
from neuropil.runs.environment import environment

PEERS = {"snnTorch": "snntorch==1.0.0", "Norse": "norse==1.1.0"}
DECAY, SLOPE, STEPS = 0.905, 2.0, 25
HIDDEN = {
    "currents": ("current", (512, 512)),
    "one-layer": ("current", (1000,)),  # exactly the same network in all three, of the size of snnTorch's tutorial
    "poisson": ("poisson", (512, 512)),
}


class Library(Worker):
    """A process, with the processor seconds of all its training so far."""

    def __init__(self, name: str, python: str = sys.executable):
        super().__init__("benchmarks.spiking_worker", name, python)
        self.processor_seconds = 0.0

    def train(self, updates: int) -> None:
        self.processor_seconds += self.tell("train", updates=updates)


class Arguments(Config):
    mnist: Path | None = option(None, "a folder of MNIST's four IDX files; without it, the embedded digits")
    networks: tuple[str, ...] = option(tuple(HIDDEN), "input coding and layers: currents, one-layer, poisson")
    seeds: int = option(1, "trainings of each, from other first weights", low=1)
    epochs: int = option(1, "epochs of each training", low=1)
    rounds: int = option(5, "timed rounds of each training", low=2)
    updates: int | None = option(None, "updates of each training in place of whole epochs")
    processor_time: bool = option(False, "one thread and the processor's clock, for a machine that others use")


def main(words: Sequence[str] = ()) -> None:
    arguments = parse(Arguments(), words, command="spiking_peers", about="A spiking classifier beside its peers.")
    if arguments.processor_time:
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
    print(f"{environment()['processor']}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        workers = {"neuropil": Library("neuropil")}
        workers |= {
            name: Library(name, interpreter(name, ["torch==2.13.0", "numpy", package]))
            for name, package in PEERS.items()
        }
        try:
            for name in arguments.networks:
                compare(name, arguments, workers, Path(folder))
        finally:
            for worker in workers.values():
                worker.close()


def compare(name: str, arguments: Arguments, workers: dict[str, Library], folder: Path) -> None:
    coding, hidden = HIDDEN[name]
    splits = prepare(ClassificationDataConfig(data=arguments.mnist), seed=0)
    train, test = (part.inputs.float().flatten(1) for part in (splits.train, splits.test))
    low, high, mean, std = train.min(), train.max(), train.mean(), train.std()
    parts = [(x - mean) / std if coding == "current" else ((x - low) / (high - low)).clamp(0, 1) for x in (train, test)]
    np.savez(folder / "data", parts[0], splits.train.targets, parts[1], splits.test.targets)
    batch = 128 if len(train) > 10_000 else 64
    total = arguments.updates or arguments.epochs * (len(train) // batch)
    each = total // (arguments.rounds + 1)
    sizes, classes = [train.shape[1], *hidden], splits.train.schema.num_outputs
    network = {"sizes": sizes, "classes": classes, "decay": DECAY, "slope": SLOPE, "steps": STEPS, "coding": coding}
    seconds: dict[str, list[float]] = {library: [] for library in workers}
    accuracies: dict[str, list[float]] = {library: [] for library in workers}
    print(f"\n{name}: {'-'.join(map(str, [*sizes, classes]))}, batches of {batch}")
    for seed in range(arguments.seeds):
        torch.manual_seed(seed)
        first: Any = {key: value.numpy() for key, value in ours(**network).state_dict().items()}
        np.savez(folder / "weights", **first)
        for worker in workers.values():
            where = {"data": str(folder / "data.npz"), "weights": str(folder / "weights.npz")}
            worker.tell("start", **where, network=network, batch=batch)
        if not seed:
            require_agreement({library: worker.tell("logits", count=64) for library, worker in workers.items()})
        work = {library: (lambda worker=worker: worker.train(updates=each)) for library, worker in workers.items()}
        spent = partial(processor_seconds, workers.values())
        clock = spent if arguments.processor_time else time.perf_counter
        for library, values in alternate(work, arguments.rounds, clock).items():
            seconds[library] += values
        for library, worker in workers.items():
            accuracies[library].append(worker.tell("accuracy"))
    for library, values in seconds.items():
        found = ", ".join(f"{100 * each:.2f} %" for each in accuracies[library])
        speed = each * batch / statistics.median(values)
        updates = each * (arguments.rounds + 1)
        print(f"{library}: {speed:.0f} pictures/s, test accuracy after {updates} updates {found}")
    for peer in PEERS:
        print(f"{peer} / neuropil: {ratio(seconds[peer], seconds['neuropil'])}")


def processor_seconds(workers: Iterable[Library]) -> float:
    """Of all training so far."""
    return sum(worker.processor_seconds for worker in workers)


def require_agreement(answers: dict[str, Any]) -> None:
    """Of logits and norms of gradients. In single precision a voltage can lie on the other side of the threshold, so
    that single logits may differ."""
    expected = np.array(answers["neuropil"]["logits"])
    for peer in PEERS:
        found, norms = np.array(answers[peer]["logits"]), np.array(answers[peer]["norms"])
        close = np.isclose(found, expected, rtol=1e-4, atol=1e-4).all(1).mean()
        apart = np.abs(norms / np.array(answers["neuropil"]["norms"]) - 1).max()
        print(
            f"{peer}: equal logits for {100 * close:.0f} % of pictures, norms of gradients within {100 * apart:.2g} %"
        )
        if close < 0.9 or apart > 0.02:
            raise SystemExit(f"{peer} computes another network.")


if __name__ == "__main__":
    main(sys.argv[1:])
