"""What a model makes of a few examples, as plain data for a page: pictures, texts, rows side by side, or curves."""

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Num, UInt8
from torch import Tensor

from neuropil.data.examples.dataset import Examples, Schema, restored
from neuropil.training.previews import Preview

SHOWN = 12
"""Examples of a preview."""
LARGEST_SIDE = 48
"""Pixels: larger pictures are made smaller."""
MOST_COLUMNS, MOST_CHARACTERS, MOST_POINTS = 6, 300, 200
"""Of a table, of one text, and of one curve."""


def pictures(
    images: UInt8[Tensor, "picture channel height width"],
    *,
    captions: Sequence[str] = (),
    originals: UInt8[Tensor, "picture channel height width"] | None = None,
    right: Sequence[bool] = (),
) -> Preview:
    """Each with its caption, where there are any: whether that is `right`, or what it was made from."""
    small = shrunk(images)
    _, channels, height, width = small.shape
    found = {"kind": "pictures", "count": len(small), "height": height, "width": width, "channels": channels}
    found |= {"pixels": encoded(small), "captions": [cut(each) for each in captions], "right": list(right)}
    return found | {"originals": None if originals is None else encoded(shrunk(originals))}


def texts(parts: Sequence[tuple[str, str]]) -> Preview:
    """A prompt, and what was written after it."""
    return {"kind": "texts", "texts": [{"prompt": prompt, "text": text} for prompt, text in parts]}


def pairs(columns: Sequence[str], rows: Sequence[Sequence[str | float]]) -> Preview:
    """Side by side: what went in, what came out and, in the last column, what should have, where that is known."""
    return {"kind": "pairs", "columns": list(columns), "rows": [[_cell(value) for value in row] for row in rows]}


def curves(found: Iterable[Mapping[str, Any]]) -> Preview:
    """Each with a `name`, the `history` before it, the `forecast` and the `truth`, and the band from `low` to `high`
    where it has one."""
    return {"kind": "curves", "curves": [dict(each) for each in found]}


def examples(made: Tensor, schema: Schema, *, originals: Tensor | None = None, names: Sequence[str] = ()) -> Preview:
    """Made by a model, as the data has them: pictures, or rows of a table."""
    if schema.kind == "image":
        return pictures(made, captions=names, originals=originals)
    columns = feature_names(schema)[:MOST_COLUMNS]
    rows = restored(made, schema)[:, :MOST_COLUMNS].tolist()
    if originals is None:
        return pairs(columns, rows)
    given = restored(originals, schema)[:, :MOST_COLUMNS].tolist()
    both = [
        [cell for each in zip(own, other, strict=True) for cell in each] for own, other in zip(rows, given, strict=True)
    ]
    return pairs([word for name in columns for word in (name, f"{name} (given)")], both)


def spread(data: Examples, most: int = SHOWN) -> Examples:
    """A few examples: the first of each class, then the second, and so on."""
    if not data.schema.classes:
        return data.take(torch.arange(min(most, len(data))))
    order = sorted(range(len(data)), key=_ranks(data.targets.tolist()).__getitem__)
    return data.take(torch.tensor(order[:most], dtype=torch.int64))


def _ranks(targets: Sequence[int]) -> list[int]:
    """Which of its class each is."""
    seen: dict[int, int] = {}
    found = []
    for target in targets:
        found.append(seen.get(target, 0))
        seen[target] = found[-1] + 1
    return found


def feature_names(schema: Schema) -> list[str]:
    names = [name for column in schema.columns for name in column.value_features]
    return names or [f"feature {index}" for index in range(math.prod(schema.shape))]


def shrunk(
    images: UInt8[Tensor, "picture channel height width"],
) -> UInt8[Tensor, "picture colour small_height small_width"]:
    """Of grey or colour; further channels are not shown."""
    images = images[:, :3] if images.shape[1] >= 3 else images[:, :1]
    factor = max(1, math.ceil(max(images.shape[2:]) / LARGEST_SIDE))
    if factor == 1:
        return images
    small = torch.nn.functional.avg_pool2d(images.float(), factor, ceil_mode=True)
    return small.round().to(torch.uint8)


def encoded(images: UInt8[Tensor, "picture channel height width"]) -> str:
    """Bytes of all pictures, row by row with the channels last, as base64."""
    return base64.b64encode(images.cpu().permute(0, 2, 3, 1).contiguous().numpy().tobytes()).decode()


def numbers(values: Num[Tensor, " point"]) -> list[float | None]:
    """Rounded; none where there is no value."""
    return [_number(value) for value in values.tolist()]


def cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def _cell(value: str | float) -> str | float | None:
    if isinstance(value, str):
        return cut(value)
    return _number(value)


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
