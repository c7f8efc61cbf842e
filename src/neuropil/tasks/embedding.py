"""Vectors of texts from the command line: how alike the texts are, or a file for other programs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from torch import Tensor

from neuropil.errors import InputError
from neuropil.files import replacing

MOST_SHOWN = 12
"""Texts of which a table shows every pair."""
WIDEST = 60
"""Characters of a text in the table."""


def require_texts(texts: Sequence[str]) -> None:
    if not texts:
        raise InputError("there must be texts to embed", got="none")


def similarities(texts: Sequence[str], vectors: Float[Tensor, "text width"]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: the cosine of each text with each."""
    if len(texts) > MOST_SHOWN:
        raise InputError(
            f"how alike texts are is shown for up to {MOST_SHOWN}",
            got=f"{len(texts):,}",
            fix="write the vectors with --out vectors.npy",
        )
    cosines = (vectors @ vectors.mT).tolist()
    rows = [
        [str(number), *(f"{cosine:.3f}" for cosine in row), shortened(text)]
        for number, (text, row) in enumerate(zip(texts, cosines, strict=True), 1)
    ]
    return ["", *(str(number) for number in range(1, len(texts) + 1)), "text"], rows


def shortened(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def write_vectors(path: Path, vectors: Float[Tensor, "text width"]) -> None:
    if path.suffix != ".npy":
        raise InputError("vectors are written to a .npy file", got=f"{path.name!r}")
    with replacing(path) as part, part.open("wb") as file:
        np.save(file, vectors.numpy(), allow_pickle=False)
