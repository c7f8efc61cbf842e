"""Examples that a model made: pictures, or rows of numbers, to look at, to keep and to go on with."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.data.examples.dataset import Schema, restored
from neuropil.errors import InputError
from neuropil.files import replacing
from neuropil.inspection.report.images import pixels

LEAST_SIDE, GAP = 64, 2
"""Pixels of one picture in a grid: smaller ones are enlarged by whole factors."""
MOST_PIXELS = 100_000_000
MOST_IN_A_GRID = MOST_PIXELS // (LEAST_SIDE + GAP) ** 2
"""Small square pictures; of larger ones fewer fit."""
MOST_IN_A_ROW = {".webp": 16_383, ".jpg": 65_500, ".jpeg": 65_500}
PICTURES, ARRAYS = (".png", ".jpg", ".jpeg", ".webp"), (".npz", ".npy")


@dataclass(frozen=True)
class GeneratedExamples:
    values: UInt8[Tensor, "example channel height width"] | Float[Tensor, "example feature"]
    """As the training data has them."""
    schema: Schema
    names: Sequence[str] = ()
    """Of each, such as its class; or none."""
    originals: UInt8[Tensor, "example channel height width"] | Float[Tensor, "example feature"] | None = None
    """What each was made from, and stands to the right of in a grid."""
    columns: int | None = None
    """Of the grid; by default about as many as rows."""

    @classmethod
    def of(cls, values: Tensor, schema: Schema, *, originals: Tensor | None = None, **others: Any) -> Self:
        """From what a model makes, and what it was given."""
        given = None if originals is None else restored(originals, schema).clone()  # not the caller's memory
        return cls(restored(values, schema), schema, originals=given, **others)

    def __len__(self) -> int:
        return len(self.values)

    def lines(self) -> list[list[str]]:
        rows = self.values.flatten(1).tolist()
        return [[f"{value:.6g}" for value in row] for row in rows]

    def records(self) -> list[dict[str, Any]]:
        values = self.values.tolist()
        if not self.names:
            return [{"values": each} for each in values]
        return [{"name": name, "values": each} for name, each in zip(self.names, values, strict=True)]

    def grid(self) -> UInt8[np.ndarray, "height width 3"]:
        """All pictures side by side on white."""
        if self.schema.kind != "image":
            rule, fix = "a grid is drawn of pictures", "give --out a name that ends in .npz"
            raise InputError(rule, got=f"rows of {self.schema.shape[0]} numbers", fix=fix)
        images, alike = self.values, 1
        if self.originals is not None:
            images, alike = torch.stack([self.originals, self.values], 1).flatten(0, 1), 2
        _, height, width = self.schema.shape
        factor = max(1, math.ceil(LEAST_SIDE / max(height, width)))
        columns = min(self.columns or alike * math.ceil(math.sqrt(len(images)) / alike), len(images))
        rows = math.ceil(len(images) / columns)
        tall, wide = factor * height + GAP, factor * width + GAP
        require_room(rows * tall, columns * wide)
        grid = np.full((rows * tall + GAP, columns * wide + GAP, 3), 255, dtype=np.uint8)
        for index, image in enumerate(images):
            array = pixels(image)
            colours = array[..., :3] if array.ndim == 3 else array[..., None].repeat(3, -1)
            top, left = GAP + index // columns * tall, GAP + index % columns * wide
            large = colours.repeat(factor, 0).repeat(factor, 1)
            grid[top : top + factor * height, left : left + factor * width] = large
        return grid

    def save(self, path: str | Path) -> Path:
        """Pictures as one grid (.png, .jpg, .webp), or the values as arrays (.npz, .npy)."""
        path = Path(path)
        require_savable(path)
        with replacing(path) as part, part.open("wb") as file:
            if path.suffix.lower() == ".npy":
                np.save(file, self.values.numpy())
            elif path.suffix.lower() == ".npz":
                arrays = {"x": self.values.numpy(), **({"y": np.array(self.names)} if self.names else {})}
                np.savez_compressed(file, allow_pickle=False, **arrays)
            else:
                file.write(self._encoded(path.suffix.lower()))
        return path

    def _repr_png_(self) -> bytes | None:
        """In a notebook."""
        return self._encoded(".png") if self.schema.kind == "image" else None

    def _encoded(self, suffix: str) -> bytes:
        from PIL import Image

        encoded = io.BytesIO()
        grid = self.grid()
        height, width, _ = grid.shape
        require_room(height, width, MOST_IN_A_ROW.get(suffix))
        Image.fromarray(grid).save(encoded, {".png": "PNG", ".webp": "WEBP"}.get(suffix, "JPEG"))
        return encoded.getvalue()


def require_savable(path: Path) -> None:
    if path.suffix.lower() not in (*PICTURES, *ARRAYS):
        rule = "generated examples are written to .png, .jpg, .webp, .npz or .npy"
        raise InputError(rule, got=f"{path.name!r}", fix=f"name it {path.stem or 'grid'}.png, or .npz for arrays")


def require_room(height: int, width: int, longest: int | None = None) -> None:
    fix = "write the examples to .npz"
    if height * width > MOST_PIXELS:
        raise InputError(f"a grid has at most {MOST_PIXELS:,} pixels", got=f"{height:,}×{width:,}", fix=fix)
    if longest is not None and max(height, width) > longest:
        rule = f"a picture of this format has at most {longest:,} pixels in a row"
        raise InputError(rule, got=f"{height:,}×{width:,}", fix="name it .png")


def as_data(values: Float[Tensor, "example *shape"], schema: Schema) -> Tensor:
    """What a model answers, as it was given the data: bytes, where they are pictures."""
    return values.round().clamp(0, 255).to(torch.uint8).cpu() if schema.kind == "image" else values.cpu()
