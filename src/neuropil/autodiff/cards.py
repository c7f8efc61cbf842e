"""What one node of the graph looks like: small arrays as numbers, large ones as mean ± spread and a tiny heat-map."""

import base64
import struct
import zlib
from dataclasses import dataclass, replace
from html import escape

import numpy as np
from jaxtyping import Float, UInt8

from neuropil.autodiff.engine import Array, Op, Var
from neuropil.autodiff.expression import Box

CHARACTER = 6.7  # the width of a monospaced character of 11 pixels, rounded up
NAME_CHARACTER = 7.5  # the same for a bold name of 12 pixels
LONGEST_NAME = 36
LINE = 16.0
PADDING = 9.0
THUMBNAIL = (16, 32)  # most rows and columns of a heat-map
CAPSULE = 26.0  # the height of an op
STEM = 12.0  # from an op to its output

SYMBOLS = {
    "add": "+", "sub": "−", "neg": "−", "mul": "×", "div": "÷", "power": "xᵖ", "matmul": "@", "sum": "Σ",
    "sigmoid": "σ", "abs": "|x|", "transpose": "xᵀ", "index": "x[i]", "conv2d": "conv",
}  # fmt: skip

SHADES = 8  # of each colour of a heat-map
COLOURS = {
    "value": ((33, 102, 172), (178, 24, 43)),
    "gradient": ((118, 42, 131), (27, 120, 55)),
}  # negative, positive; zero is white


@dataclass(frozen=True)
class Card:
    width: float
    height: float
    svg: str


@dataclass(frozen=True)
class CardRow:
    """One line of a card (or several, for a small matrix): what it shows, in words or with a picture."""

    label: str
    kind: str
    text: list[str]
    picture: str = ""
    picture_size: tuple[float, float] = (0.0, 0.0)

    @property
    def width(self) -> float:
        picture = self.picture_size[0] + 8 if self.picture_size[0] else 0
        return self.indent + CHARACTER * max(map(len, self.text)) + picture

    @property
    def indent(self) -> float:
        return CHARACTER * (len(self.label) + 1) if self.label else 0.0

    @property
    def height(self) -> float:
        return max(LINE * len(self.text), self.picture_size[1] + 3)


def var_card(var: Var, gradient: CardRow | None, state: str) -> Card:
    """A rounded box with name, shape, value and gradient, below the op that made it. `state` is a CSS class."""
    rows = [array_row(var.val, " "), gradient] if gradient else [array_row(var.val)]
    shape = " × ".join(map(str, var.shape))
    name = shortened(var.name or "")
    title = NAME_CHARACTER * len(name) + CHARACTER * (len(shape) + 2 * bool(name and shape))
    width = max(16.0, title, *(row.width for row in rows)) + 2 * PADDING
    width = max(width, _capsule_width(var.creator)) if var.creator else width
    head = LINE if title else 0.0
    box_height = head + sum(row.height for row in rows) + PADDING
    kind = "constant" if var.constant and var.creator is None else "leaf" if var.creator is None else "made"
    parts = [f'<rect class="box" width="{width:.1f}" height="{box_height:.1f}" rx="7"/>']
    if name:
        parts.append(f'<text class="name" x="{PADDING}" y="16">{escape(name)}</text>')
    if shape:
        parts.append(f'<text class="shape" x="{width - PADDING:.1f}" y="16" text-anchor="end">{shape}</text>')
    y = head + PADDING / 2
    for row in rows:
        parts.append(_row_svg(row, width, y))
        y += row.height
    if var.creator is None:
        return Card(width, box_height, f'<g class="{kind} {state}">{"".join(parts)}</g>')
    capsule = op_capsule(var.creator, width / 2)
    below = CAPSULE + STEM
    body = f'{capsule}<g transform="translate(0 {below:g})">{"".join(parts)}</g>'
    return Card(width, box_height + below, f'<g class="{kind} {state}">{body}</g>')


def op_capsule(op: Op, middle: float) -> str:
    """A circle, drawn out where the name is long, and the stem to the output."""
    symbol, width = _symbol(op), _capsule_width(op)
    about = escape((op.rule.__doc__ or "").partition("\n")[0])
    return (
        f'<g class="op"><title>{escape(op.name)}: {about}</title>'
        f'<rect x="{middle - width / 2:.1f}" width="{width:.1f}" height="{CAPSULE:g}" rx="{CAPSULE / 2:g}"/>'
        f'<text x="{middle:.1f}" y="17" text-anchor="middle">{escape(symbol)}</text></g>'
        f'<path class="link" d="M{middle:.1f} {CAPSULE:g}v{STEM:g}m-3 -5l3 5l3 -5"/>'
    )


def _symbol(op: Op) -> str:
    return SYMBOLS.get(op.name, op.name.replace("_", " "))


def _capsule_width(op: Op) -> float:
    return max(CAPSULE, CHARACTER * len(_symbol(op)) + 16 if len(_symbol(op)) > 2 else 0.0)


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def box_card(box: Box, state: str) -> Card:
    """A closed group: its name, how much is inside, how many numbers of that are learned."""
    inside, name = list(box.vars()), shortened(box.name)
    num_nodes = len(inside) + sum(var.creator is not None for var in inside)
    num_learned = sum(var.val.size for var in inside if var.creator is None and not var.constant)
    lines = [f"{num_nodes:,} nodes"] + ([f"{num_learned:,} parameters"] if num_learned else [])
    width = max(NAME_CHARACTER * (len(name) + 2), *(CHARACTER * len(line) for line in lines), 70.0) + 2 * PADDING
    height = LINE * (1 + len(lines)) + PADDING
    places = [(16 + LINE * (i + 1), line) for i, line in enumerate(lines)]
    text = "".join(f'<text class="shape" x="{PADDING}" y="{y:g}">{line}</text>' for y, line in places)
    svg = (
        f'<g class="{state}"><rect class="under" x="4" y="4" width="{width:.1f}" height="{height:g}" rx="7"/>'
        f'<rect class="box" width="{width:.1f}" height="{height:g}" rx="7"/>'
        f'<text class="name" x="{PADDING}" y="16">▸ {escape(name)}</text>{text}</g>'
    )
    return Card(width, height, svg)


def gradient_row(array: Array) -> CardRow:
    return array_row(array, "∂", "gradient")


def step_row(gradient: Array | None, shape: tuple[int, ...]) -> CardRow:
    """A gradient during `backward`, known or not; it takes the same room at each step, so that the pictures fit."""
    row = array_row(np.zeros(shape) if gradient is None else gradient, "∂", "gradient", room=10)
    if gradient is not None:
        return row
    return replace(row, kind="unknown", text=["·".ljust(len(line)) for line in row.text], picture="")


def array_row(array: Array, label: str = "", kind: str = "value", room: int = 0) -> CardRow:
    """Numbers take at least `room` characters each."""
    if not np.isfinite(array).all():
        return CardRow(label, "broken", [f"{(~np.isfinite(array)).sum():,} not finite"])
    if array.size == 0:
        return CardRow(label, kind, ["empty"])
    if array.ndim <= 2 and array.shape[:-1] <= (4,) and array.shape[-1:] <= (5,):
        cells = [[_number(value) for value in line] for line in np.atleast_2d(array)]
        widest = max(len(cell) for line in cells for cell in line) if array.ndim == 2 else 0
        text = [" ".join(cell.rjust(widest) for cell in line).ljust(room * len(line)) for line in cells]
        return CardRow(label, kind, text)
    pixels = heat_map(array)
    height = 6.0 if len(pixels) == 1 else 22.0
    width = float(np.clip(height * pixels.shape[1] / pixels.shape[0], 22, 44))
    mean, spread = array.mean(), array.std()
    mean = mean if np.abs(mean) > 1e-9 * spread else 0 * mean  # what rounding left of a sum to zero is no news
    text = f"{_number(mean, 2)} ± {_number(spread, 2)}".ljust(2 * room)
    return CardRow(label, kind, [text], png(pixels, COLOURS[kind]), (width, height))


def _row_svg(row: CardRow, width: float, y: float) -> str:
    text = ""
    baseline = y + (row.height - LINE * len(row.text)) / 2 + 12
    if row.label.strip():
        text += f'<text class="{row.kind}" x="{PADDING}" y="{baseline:.1f}">{row.label}</text>'
    for i, line in enumerate(row.text):
        place = f'x="{PADDING + row.indent:.1f}" y="{baseline + LINE * i:.1f}"'
        text += f'<text class="{row.kind}" {place} xml:space="preserve">{line}</text>'
    if row.picture:
        w, h = row.picture_size
        place = f'x="{width - PADDING - w:.1f}" y="{y + (row.height - h) / 2:.1f}" width="{w:.1f}" height="{h:g}"'
        text += f'<image href="{row.picture}" {place} preserveAspectRatio="none"/>'
    return text


def _number(value: Float[np.ndarray, ""] | np.floating, digits: int = 3) -> str:
    return f"{float(value) + 0.0:.{digits}g}"  # + 0 turns -0 into 0


def heat_map(array: Array) -> UInt8[np.ndarray, "rows columns"]:
    """At most `THUMBNAIL` pixels: zero is the shade `SHADES`, the largest magnitude is 0 or 2 `SHADES` by its sign."""
    matrix = np.atleast_1d(array.squeeze())
    matrix = matrix.reshape(-1, matrix.shape[-1]) if matrix.ndim > 1 else matrix[None]
    for axis, most in enumerate(THUMBNAIL):
        length = matrix.shape[axis]
        if length > most:
            edges = np.arange(most) * length // most
            matrix = np.add.reduceat(matrix, edges, axis) / np.expand_dims(np.diff(edges, append=length), 1 - axis)
    return np.rint(SHADES * (1 + matrix / (np.abs(matrix).max() or 1))).astype(np.uint8)


def png(shades: UInt8[np.ndarray, "rows columns"], colours: tuple[tuple[int, int, int], tuple[int, int, int]]) -> str:
    """A PNG file as a data URL: signature, header, palette, one compressed block with filter 0 before each row, end."""
    strength = np.abs(np.arange(-SHADES, SHADES + 1))[:, None] / SHADES
    palette = 255 + strength * (np.repeat(colours, (SHADES, SHADES + 1), 0) - 255)
    rows, columns = shades.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in shades), 9)
    parts = (b"IHDR", header), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", data), (b"IEND", b"")
    file = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)
    return f"data:image/png;base64,{base64.b64encode(file).decode()}"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
