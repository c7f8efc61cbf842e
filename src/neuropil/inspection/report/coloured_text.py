"""A text whose tokens are coloured by a number each: how surprising it was, or what a unit did when it was read."""

from collections.abc import Sequence
from html import escape

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.inspection.pictures.style import Array, numbers

RED, BLUE = "216, 87, 10", "22, 103, 183"


def coloured_text(
    tokens: Sequence[str], values: Float[Array, " token"], *, low: float = 0.0, high: float = 1.0, unit: str = ""
) -> str:
    """Markup: the farther a value lies above `low`, the redder; where `low` is below zero, negative values are blue.
    The value of a token is its tooltip."""
    shares = numbers(values).astype(float)
    if len(tokens) != len(shares):
        raise InputError("a coloured text needs a number for each token", got=f"{len(shares)} for {len(tokens)} tokens")
    if low < 0:
        strengths = np.where(shares < 0, shares / -low * -1, shares / high)
    else:
        strengths = (shares - low) / (high - low)
    spans = "".join(
        f'<span style="background:rgba({RED if value >= 0 or low >= 0 else BLUE},{min(abs(strength), 1):.2f})" '
        f'title="{value:.2f}{unit}">{_shown(token)}</span>'
        for token, value, strength in zip(tokens, shares.tolist(), np.clip(strengths, -1, 1).tolist(), strict=True)
    )
    font = "font-family:ui-monospace,monospace;font-size:.82rem;line-height:1.55"
    return f'<div dir="auto" style="{font};white-space:pre-wrap;overflow-wrap:anywhere">{spans}</div>'


def _shown(token: str) -> str:
    """A line end can be seen, and is one."""
    return escape(token).replace("\n", "⏎\n")
