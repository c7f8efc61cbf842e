"""Gates of a recurrent cell over the tokens that it read."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.inspection.gates import GATES_BETWEEN_0_AND_1
from neuropil.inspection.pictures.style import WIDTH, Array, house_style, new_figure, numbers
from neuropil.inspection.report.alignment import shown

if TYPE_CHECKING:
    import matplotlib.figure

MOST_LABELS = 110
"""Tokens that have room below a picture."""


@house_style
def gate_maps(
    gates: Mapping[str, Float[Array, "time unit"]], tokens: Sequence[str], rows: Mapping[str, Sequence[tuple[int, str]]]
) -> "matplotlib.figure.Figure":
    """A map for each gate: a row for each chosen unit, with a name such as the property that it is tied to, and a column for each token.

    Gates are white where they are closed and dark where they are open; candidates and states are blue below zero and red above.
    """
    if not gates or any(not rows.get(name) for name in gates):
        raise InputError("a picture of gates needs a gate and units to show", got=f"{len(gates)} gates")
    count = len(tokens)
    heights = [len(rows[name]) for name in gates]
    figure = new_figure(WIDTH, 0.135 * sum(heights) + 0.36 * len(gates) + 0.4)
    panels = figure.subplots(len(gates), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, values) in zip(panels, gates.items(), strict=True):
        chosen = numbers(values)[:, [unit for unit, _ in rows[name]]].T
        opens = name in GATES_BETWEEN_0_AND_1
        strongest = 1.0 if opens else max(1.0, float(np.abs(chosen).max()))
        drawn = axes.imshow(
            chosen,
            cmap="Blues" if opens else "RdBu_r",
            vmin=0 if opens else -strongest,
            vmax=strongest,
            aspect="auto",
            interpolation="none",
        )
        axes.set_title(
            f"{name} gate" if opens else {"h": "state h", "c": "memory c"}.get(name, name), fontsize=9, pad=3
        )
        axes.set_yticks(range(len(rows[name])), [f"{label}  {unit}".strip() for unit, label in rows[name]], fontsize=6)
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.grid(visible=False)
        bar = figure.colorbar(
            drawn, ax=axes, fraction=0.02, pad=0.01, ticks=[0, 1] if opens else [-strongest, 0, strongest]
        )
        bar.ax.set_yticklabels(["0", "1"] if opens else [f"{-strongest:.2g}", "0", f"{strongest:.2g}"], fontsize=6)
        bar.outline.set_visible(False)
    if count <= MOST_LABELS:
        panels[-1].set_xticks(
            range(count), [shown(token) for token in tokens], fontsize=max(4.5, min(8.0, 560 / count))
        )
    else:
        panels[-1].set_xlabel("token")
    return figure
