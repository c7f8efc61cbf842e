"""What views on pictures share: which picture is asked about, a held-out example or a drawing, and how it travels."""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.examples.drawings import InkFrame
from neuropil.errors import InputError
from neuropil.runs.attack import splits_of
from neuropil.runs.run import Run

PAD = 28
"""Rows and columns of a drawing."""
DEEPEST = 15
"""The darkest ink, a hexadecimal digit."""
OFFERED, KEPT = 30, 300
"""Held-out examples to choose from, and those that a map shows."""
MOST_PIXELS = 128 * 128


class PictureRequest(Config):
    drawing: str = option("", f"a hexadecimal digit of ink for each of {PAD}×{PAD} places; empty for an example")
    example: int = option(0, "number of the held-out example", low=0, high=KEPT - 1)

    def validate(self) -> None:
        if self.drawing and (len(self.drawing) != PAD * PAD or set(self.drawing) - set("0123456789abcdef")):
            rule = f"a drawing must be {PAD * PAD} hexadecimal digits"
            raise InputError(rule, got=f"{len(self.drawing)} characters")


@dataclass(frozen=True)
class HeldOut:
    """Some of a run's test pictures, and where they have their ink."""

    examples: Examples
    frame: InkFrame

    @property
    def names(self) -> list[str]:
        classes = self.examples.schema.classes
        count = len(self.examples)
        return [classes[number] for number in self.examples.targets.tolist()] if classes else [""] * count


_held_out: WeakKeyDictionary[Run, HeldOut] = WeakKeyDictionary()


def held_out(run: Run) -> HeldOut:
    """Read once for as long as the run is open; sorted by class among those that are offered."""
    if run not in _held_out:
        require_pictures(run, run.predictor.schema)
        test: Examples = splits_of(run).test
        few = test.take(torch.arange(min(KEPT, len(test))))
        offered = min(OFFERED, len(few))
        order = few.targets[:offered].argsort(stable=True) if few.schema.classes else torch.arange(offered)
        few = few.take(torch.cat([order, torch.arange(offered, len(few))]))
        _held_out[run] = HeldOut(few, InkFrame.fit(few.inputs))
    return _held_out[run]


def require_pictures(run: Run, schema: Schema) -> None:
    if schema.kind != "image" or schema.shape[1] * schema.shape[2] > MOST_PIXELS:
        got = f"{run.folder.name}, of {'large pictures' if schema.kind == 'image' else 'a table'}"
        raise InputError("this view opens a run on pictures of up to 128×128", got=got, fix="train it on the digits")


def require_classifier(run: Run) -> None:
    schema: Schema = run.predictor.schema
    require_pictures(run, schema)
    if not schema.classes:
        targets = "several labels" if schema.labels else "numbers"
        got = f"{run.folder.name}, whose targets are {targets}"
        raise InputError("this view opens a run whose pictures have one class each", got=got)


def chosen_picture(run: Run, request: PictureRequest) -> Tensor:
    """The drawing as the data set would have it, or the example: [1 channel height width]."""
    held = held_out(run)
    if request.drawing:
        ink = torch.tensor([int(digit, 16) for digit in request.drawing]).float().view(PAD, PAD) / DEEPEST
        return held.frame.place(ink)
    number = min(request.example, len(held.examples) - 1)
    return held.examples.inputs[number : number + 1]


def rows_of(picture: Tensor) -> list[Any]:
    """Rows of shades from 0 to 255, or of [red, green, blue]."""
    shades = picture.detach().cpu().float().round().clamp(0, 255).int()
    return shades[0].tolist() if len(shades) == 1 else shades[:3].permute(1, 2, 0).tolist()


def offered(run: Run) -> dict[str, Any]:
    """What a chooser of pictures needs."""
    held = held_out(run)
    count = min(OFFERED, len(held.examples))
    return {
        "pad": PAD,
        "height": held.frame.shape[1],
        "width": held.frame.shape[2],
        "examples": [
            {"name": name, "picture": rows_of(picture)}
            for name, picture in zip(held.names[:count], held.examples.inputs[:count], strict=True)
        ],
    }


def rounded(values: Tensor, digits: int = 5) -> Any:
    """Plain numbers, nested as the tensor is."""
    return _rounded(values.detach().cpu().double().tolist(), digits)


def _rounded(value: Any, digits: int) -> Any:
    return [_rounded(each, digits) for each in value] if isinstance(value, list) else round(value, digits)
