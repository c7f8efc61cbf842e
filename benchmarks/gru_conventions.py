"""The conventions of the GRU as language models of Python's documentation, after as many updates on the same text, for
several seeds: bits per character of the validation part.

python -m benchmarks.gru_conventions
"""

import math
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import cast

import torch

from neuropil.models.gru import GRUConvention
from neuropil.models.recurrent import RecurrentNetwork
from neuropil.parts.parameters import count_parameters
from neuropil.parts.recurrence import choose
from neuropil.runs.run import Run

UPDATES, HIDDEN_SIZE, SEEDS = 400, 128, range(3)
CONVENTIONS = {
    "GRU of PyTorch and cuDNN": GRUConvention(gate="keep", reset="after"),
    "the same, its gate takes the new state": GRUConvention(gate="take", reset="after"),
    "GRU of the first paper, and of lecture notes": GRUConvention(gate="take", reset="before"),
    "one gate, no reset": GRUConvention(gate="take", reset="none"),
    "minimal gated unit, one gate for both": GRUConvention(gate="take", reset="shared"),
}
HEADER = (
    "unit",
    "`--gate`",
    "`--reset`",
    "parameters of the cell",
    "bits per character",
    "lowest to highest",
    "run as",
)

Trained = Callable[..., AbstractContextManager[Run]]


def rows(trained: Trained) -> list[list[str]]:
    return [[name, *row(convention, trained)] for name, convention in CONVENTIONS.items()]


def row(convention: GRUConvention, trained: Trained) -> list[str]:
    bits: list[float] = []
    for seed in SEEDS:
        options = {"hidden_size": HIDDEN_SIZE, "updates": UPDATES, "report": False, **convention.to_dict()}
        with trained("gru", seed=seed, **options) as run:
            losses = [entry["loss"] for entry in run.rows if entry["kind"] == "validation"]
            bits.append(min(losses) / math.log(2))  # a token is a character
            cell = cast(RecurrentNetwork, run.model).reader.cells[0]
    parameters, way = f"{count_parameters(cell):,}", choose(cell, 64, torch.device("cpu")).way
    spread = f"{min(bits):.3f} to {max(bits):.3f}"
    return [convention.gate, convention.reset, parameters, f"{statistics.mean(bits):.3f}", spread, way]


if __name__ == "__main__":
    from benchmarks.claims import table, trained

    print("\n".join(table(HEADER, rows(trained))))
