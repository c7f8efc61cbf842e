"""The memory that `neuropil plan` states beside what PyTorch's allocator gave out, for small models like GPT-2 on one
device. Goal: within 2 %."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from benchmarks import sharding
from neuropil.memory import written
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.parts.objectives import NextTokenInWindow
from neuropil.protocols import OptimizerName
from neuropil.runs.plan.memory import Way, transformer_memory
from neuropil.runs.plan.shapes import TransformerShape
from neuropil.training.optimizers import build_optimizer

os.environ.setdefault("KINETO_LOG_LEVEL", "5")
HEADER = ["width", "layers", "vocabulary", "context", "batch", "dropout", "precision", "optimiser", "recompute"]
HEADER += ["measured", "predicted", "error"]
ABOUT = (
    "Bytes that PyTorch's CPU allocator has given out at once in the second update of small models like GPT-2 (its "
    "profiler counts every allocation), beside what the formula of `neuropil plan` states."
)

PARALLEL_HEADER = ["way, processes", "recompute", "kept", "predicted", "error", "peak", "predicted", "error"]
PARALLEL_ABOUT = (
    f"One of several processes that train a model like GPT-2 of width {sharding.CASES[0].width} with "
    f"{sharding.CASES[0].layers} layers: what it keeps between updates, counted from its tensors, and the most of its "
    "resident memory in the second update above what it had before (`python -m benchmarks.sharding`), beside what the "
    "formula states."
)


@dataclass(frozen=True)
class Case:
    width: int
    layers: int
    heads: int
    vocabulary: int
    context: int
    batch: int
    dropout: float = 0.0
    precision: str = "float32"
    optimizer: OptimizerName = "adamw"
    recompute: bool = False

    @property
    def config(self) -> GPT2Config:
        return GPT2Config(
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            context=self.context,
            vocabulary_size=self.vocabulary,
            dropout=self.dropout,
            attention_dropout=0.0,
        )

    @property
    def predicted(self) -> float:
        half = self.precision == "bfloat16"
        model = TransformerShape.of(self.config, mask_bytes=4)  # of a CPU
        return transformer_memory(
            model, Way(recompute=self.recompute), self.batch, half=half, optimizer=self.optimizer
        ).total


CASES = (
    Case(128, 4, 4, 2_000, 128, 8),
    Case(128, 6, 4, 1_000, 256, 16),
    Case(256, 4, 4, 20_000, 128, 4),
    Case(256, 8, 8, 4_000, 256, 4, dropout=0.1),
    Case(384, 6, 6, 8_000, 128, 2),
    Case(512, 8, 8, 50_257, 128, 1),
    Case(256, 6, 4, 4_000, 256, 8, optimizer="sgd"),
    Case(256, 6, 4, 4_000, 256, 8, optimizer="momentum"),
    Case(256, 6, 4, 4_000, 256, 8, optimizer="muon"),
    Case(256, 6, 4, 4_000, 256, 8, precision="bfloat16"),
    Case(384, 6, 6, 8_000, 128, 2, precision="bfloat16"),
    Case(128, 12, 4, 1_000, 256, 16, recompute=True),
    Case(256, 8, 4, 4_000, 256, 8, recompute=True, dropout=0.1),
    Case(256, 8, 4, 4_000, 256, 8, recompute=True, precision="bfloat16"),
)


def measured(case: Case) -> int:
    model = GPT2(case.config).train()
    for block in model.blocks if case.recompute else ():
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    learner, weights = NextTokenInWindow(model), dict(model.named_parameters())
    rates: dict[str, Any] = {"learning_rate": 1e-3, "weight_decay": 0.1, "momentum": 0.9}
    optimizer = build_optimizer(case.optimizer, weights, **rates, embeddings=[model.tokens.weight])
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    shape = (case.batch, case.context)
    batch = {name: torch.randint(case.vocabulary, shape) for name in ("input", "target")}

    def update() -> None:
        """As the loop makes it: the gradients of the update before are there until the loss is known."""
        with torch.autocast("cpu", torch.bfloat16, enabled=case.precision == "bfloat16"):
            loss = learner.loss(batch)
        loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    known = [*model.parameters(), *batch.values()]
    return allocated_peak(update, sum(tensor.nbytes for tensor in known))


def allocated_peak(update: Callable[[], None], before: int) -> int:
    """The most bytes that the allocator has given out at once in two updates, with those that were there `before`."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        update()
        update()
    events: Any = profiler.profiler
    memory = [event for event in events.kineto_results.events() if event.name() == "[memory]"]
    current = peak = before
    for event in sorted(memory, key=lambda event: event.start_ns()):
        current += event.nbytes()
        peak = max(peak, current)
    return peak


def rows() -> Iterator[list[str]]:
    for case in CASES:
        peak, predicted = measured(case), case.predicted
        sizes = (case.width, case.layers, case.vocabulary, case.context, case.batch, case.dropout)
        own = [*map(str, sizes), case.precision, case.optimizer, "yes" if case.recompute else "no"]
        yield [*own, written(peak), written(predicted), f"{100 * (predicted / peak - 1):+.1f} %"]


def parallel_rows() -> Iterator[list[str]]:
    """Of several processes: what each keeps between updates, and the most that it has resident in one."""
    for case in sharding.CASES:
        found = sharding.measure(case)
        way = Way("fsdp" if case.fsdp else "ddp" if case.data > 1 else "none", case.data, case.tensor, case.recompute)
        sizes: dict[str, Any] = {
            "width": case.width,
            "heads": case.heads,
            "layers": case.layers,
            "context": case.context,
        }
        config = GPT2Config(**sizes, vocabulary_size=case.vocabulary_size, dropout=0.0, attention_dropout=0.0)
        batch = case.batch_size // case.data
        shape = TransformerShape.of(config)
        predicted = transformer_memory(shape, way, batch, half=False, optimizer="adamw")
        state = 2 * predicted.weights + predicted.optimizer  # as many gradients as weights
        yield [
            case.name,
            "yes" if case.recompute else "no",
            *(written(found.state), written(state), f"{100 * (state / found.state - 1):+.1f} %"),
            *(written(found.peak), written(predicted.total), f"{100 * (predicted.total / found.peak - 1):+.1f} %"),
        ]


def main() -> None:
    for about, header, found in ((ABOUT, HEADER, rows()), (PARALLEL_ABOUT, PARALLEL_HEADER, parallel_rows())):
        print(about)
        for row in [header, *found]:
            print("\t".join(row), flush=True)


if __name__ == "__main__":
    main()
