"""The conventions of the GRU as language models of Python's documentation, after as many updates on the same text, for
several seeds: bits per character of the validation part.

python -m benchmarks.gru_conventions
"""

import math
import statistics
import tempfile
from pathlib import Path
from typing import cast

import torch

from neuropil import recipes
from neuropil.models.gru import GRUConvention
from neuropil.parts.parameters import count_parameters
from neuropil.parts.recurrence import choose
from neuropil.recipes.gru import GRUOptions
from neuropil.tasks.experiment import TrainableExperiment
from neuropil.training.history import read_history

UPDATES, HIDDEN_SIZE, SEEDS = 200, 128, range(2)
CONVENTIONS = {
    "GRU of PyTorch and cuDNN": GRUConvention(gate="keep", reset="after"),
    "the same, its gate takes the new state": GRUConvention(gate="take", reset="after"),
    "GRU of the first paper and of lecture notes": GRUConvention(gate="take", reset="before"),
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


def rows() -> list[list[str]]:
    return [[name, *row(convention)] for name, convention in CONVENTIONS.items()]


def row(convention: GRUConvention) -> list[str]:
    recipe, bits = recipes.recipe("gru"), list[float]()
    options = cast(GRUOptions, recipe.options).override(
        hidden_size=HIDDEN_SIZE, updates=UPDATES, **convention.to_dict()
    )
    for seed in SEEDS:
        experiment = cast(TrainableExperiment, recipe.build(options, seed))
        with tempfile.TemporaryDirectory() as folder:
            experiment.train(Path(folder), show_progress=False)
            losses = [
                entry["loss"] for entry in read_history(Path(folder) / "metrics.jsonl") if entry["kind"] == "validation"
            ]
        bits.append(min(losses) / math.log(2))  # a token is a character
    cell = options.model.build(options.model.embedding_size, HIDDEN_SIZE)
    parameters, way = f"{count_parameters(cell):,}", choose(cell, 64, torch.device("cpu")).way
    spread = f"{min(bits):.3f} to {max(bits):.3f}"
    return [convention.gate, convention.reset, parameters, f"{statistics.mean(bits):.3f}", spread, way]


if __name__ == "__main__":
    from benchmarks.claims import table

    print("\n".join(table(HEADER, rows())))
