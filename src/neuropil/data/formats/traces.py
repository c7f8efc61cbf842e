"""Inputs over time from a table of the user's: a column for each neuron, and if there is one called `time`, when (ms)
each row begins.

    time,a,b
    0,1.5,0
    20,1.5,2        from 20 ms on b has an input of 2

A row holds until the next; without a column of times there is a row for every step.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.data.formats.columns import read_numbers
from neuropil.data.formats.delimited import DelimitedFile, is_delimited
from neuropil.errors import InputError

TIME = "time"


@dataclass(frozen=True)
class Traces:
    """`times` (ms) of the rows, or None for a row a step."""

    names: tuple[str, ...]
    values: Float[Tensor, "row neuron"]
    times: Float[Tensor, " row"] | None

    def at_steps(self, num_steps: int, dt: float) -> Float[Tensor, "step neuron"]:
        """The inputs of each step; the last row holds to the end."""
        if self.times is None:
            rows = torch.arange(num_steps).clamp(max=len(self.values) - 1)
        else:
            # a step that begins with a row begins with that row, whatever the rounding of k · dt
            times = torch.arange(num_steps, dtype=torch.double) * dt + 1e-9 * dt
            rows = torch.searchsorted(self.times, times, right=True) - 1
        return self.values[rows]


def read_traces(path: Path) -> Traces:
    if not path.is_file():
        raise InputError("inputs over time must be in a file that exists", got=f"{str(path)!r}")
    if not is_delimited(path):
        raise InputError("inputs over time must be in a table of text", got=f"{path.name!r}", fix="save it as CSV")
    file = DelimitedFile(path)
    names = tuple(name for name in file.header if name.lower() != TIME)
    if not names:
        raise InputError(f"{path.name} must have a column for each neuron", got=f"only {file.header[0]!r}")
    columns: dict[str, list[float]] = {name: [] for name in file.header}
    for block in file.blocks():
        for name, cells in block.items():
            columns[name] += read_numbers(cells).tolist()
    values = torch.tensor([columns[name] for name in names], dtype=torch.double).T
    timed = [torch.tensor(columns[name], dtype=torch.double) for name in file.header if name.lower() == TIME]
    times = timed[0] if timed else None
    if times is not None:
        _require_order(path, times)
    return Traces(names, values, times)


def _require_order(path: Path, times: Float[Tensor, " row"]) -> None:
    if times[0] != 0:
        raise InputError(f"the first row of {path.name} must be of time 0", got=f"{times[0].item():g} ms")
    falls = (times.diff() <= 0).nonzero().flatten()
    if len(falls):
        first = int(falls[0])
        got = f"{times[first + 1].item():g} after {times[first].item():g} ms"
        raise InputError(f"the times of {path.name} must grow from row to row", got=got, fix="sort the rows")
