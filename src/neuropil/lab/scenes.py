"""Captioned pictures of a run's test part, for the views that choose one of them."""

from typing import Any, cast
from weakref import WeakKeyDictionary

import torch

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.errors import InputError
from neuropil.lab.pictures import MOST_PIXELS, rows_of
from neuropil.runs.attack import splits_of
from neuropil.runs.run import Run

_scenes: WeakKeyDictionary[Run, CaptionedPictures] = WeakKeyDictionary()


def scenes(run: Run, most: int) -> CaptionedPictures:
    """The first of them; the data is read once for as long as the run is open."""
    if run not in _scenes:
        test = cast(CaptionedPictures, splits_of(run).test)
        if test.shape[1] * test.shape[2] > MOST_PIXELS:
            got = f"{run.folder.name}, of large pictures"
            raise InputError("this view opens a run on pictures of up to 128×128", got=got)
        _scenes[run] = test
    return _scenes[run].take(torch.arange(min(most, len(_scenes[run]))))


def offered_scenes(pictures: CaptionedPictures) -> list[dict[str, Any]]:
    return [
        {"name": captions[0], "picture": rows_of(picture)}
        for picture, captions in zip(pictures.pictures, pictures.captions, strict=True)
    ]
