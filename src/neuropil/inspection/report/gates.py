"""Sections on the gates of a recurrent model: what each unit did while a text was read, and what it is tied to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.inspection.gates import GATES_BETWEEN_0_AND_1, Passage, Tie, ranked_units, record_gates
from neuropil.inspection.pictures.texts import gate_maps
from neuropil.inspection.report.coloured_text import coloured_text
from neuropil.inspection.report.page import Block, Html, Picture, Section, Table, Text

MOST_FOR_TIES = 4_000
"""Tokens that ties are found in."""
DRAWN_TOKENS, DRAWN_UNITS = 90, 14
COLOURED_TIES = 6
WORTH_NAMING = 0.2
"""Correlation in the held-out half from which on a unit is called tied."""


@runtime_checkable
class Readable(Protocol):
    """A trained model that can be watched while it reads a text."""

    @property
    def model(self) -> nn.Module: ...

    def passage(self, text: str) -> Passage: ...


@dataclass(frozen=True)
class CellActivity:
    """The gates of one cell over a text."""

    name: str
    tokens: Sequence[str]
    gates: Mapping[str, Float[Tensor, "time unit"]]


def watch(readable: Readable, text: str) -> list[CellActivity]:
    passage = readable.passage(text)
    with torch.no_grad(), record_gates(readable.model) as tape:
        passage.run()
    return [
        CellActivity(name, passage.labels(name), {gate: values[0].cpu() for gate, values in gates.items()})
        for name, gates in tape.items()
    ]


def gate_sections(activity: CellActivity, tied: Sequence[Tie], studied: int) -> list[Section]:
    ties_section = Section(f"{activity.name}: what units are tied to", tie_blocks(activity, tied, studied))
    return [Section(activity.name, [gate_picture(activity, tied)]), ties_section]


def gate_picture(activity: CellActivity, tied: Sequence[Tie]) -> Picture:
    """The units that are tied to something first, each under its strongest tie, then those that move most."""
    tokens = activity.tokens[:DRAWN_TOKENS]
    gates = {gate: values[:DRAWN_TOKENS] for gate, values in activity.gates.items()}
    rows = {gate: _rows(gate, values, tied) for gate, values in gates.items()}
    caption = "Units by number, after what they are tied to. Open gates are dark; states below zero are blue."
    return Picture.of(gate_maps(gates, tokens, rows), "gates of a recurrent cell over the tokens of a text", caption)


def tie_blocks(activity: CellActivity, tied: Sequence[Tie], studied: int) -> list[Block]:
    strong = strongest(tied)
    words = (
        f"Correlations between a unit and properties of the token that it reads, over {studied:,} tokens: the tie is "
        "found in the first half and checked in the second. A correlation is no proof that the unit is there for this."
    )
    rows = [[tie.property, tie.gate, tie.unit, f"{tie.found:+.2f}", f"{tie.held_out:+.2f}"] for tie in strong]
    blocks: list[Block] = [Text(words), Table(["property", "gate", "unit", "r where found", "r where checked"], rows)]
    for tie in [tie for tie in strong if abs(tie.held_out) >= WORTH_NAMING][:COLOURED_TIES]:
        values = activity.gates[tie.gate][:, tie.unit]
        limit = 1.0 if tie.gate != "c" else max(1.0, float(values.abs().max()))
        low = 0.0 if tie.gate in GATES_BETWEEN_0_AND_1 else -limit
        blocks.append(Text(f"Unit {tie.unit}, `{tie.gate}`, tied to “{tie.property}”:"))
        blocks.append(Html(coloured_text(activity.tokens, values, low=low, high=limit)))
    return blocks


def strongest(tied: Sequence[Tie]) -> list[Tie]:
    """The best tie of each property, the strongest first."""
    best: dict[str, Tie] = {}
    for tie in tied:
        best.setdefault(tie.property, tie)
    return list(best.values())


def sentence(name: str, tied: Sequence[Tie]) -> str:
    named = [tie for tie in strongest(tied) if tie.held_out * tie.found > 0 and abs(tie.held_out) >= WORTH_NAMING][:3]
    if not named:
        return f"{name}: no unit is tied to what can be seen in the text."
    said = "; ".join(f"{tie.property}: unit {tie.unit} ({tie.gate}, r = {tie.held_out:+.2f})" for tie in named)
    return f"{name}: {said}."


def _rows(gate: str, values: Float[Tensor, "time unit"], tied: Sequence[Tie]) -> list[tuple[int, str]]:
    named: dict[int, str] = {}
    for tie in tied:
        if tie.gate == gate and abs(tie.held_out) >= WORTH_NAMING and tie.held_out * tie.found > 0:
            named.setdefault(tie.unit, tie.property)
    rows = list(named.items())[:DRAWN_UNITS]
    rows += [(unit, "") for unit in ranked_units(values).tolist() if unit not in named][: DRAWN_UNITS - len(rows)]
    return rows
