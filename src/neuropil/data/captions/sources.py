"""Pictures and their captions in three parts: the embedded scenes, or the user's own.

A picture is in one part with all of its captions, so that nothing in the test part was seen in training.
"""

from pathlib import Path

import torch

from neuropil.config import Config, option
from neuropil.data.captions.dataset import CaptionSplits
from neuropil.data.captions.embedded import MOST_RASTER, make_scenes
from neuropil.data.captions.files import read_captions
from neuropil.data.pairs.sources import MOST_HELD_OUT, TEST, TRAIN, VALIDATION, assign_parts, held_out_of
from neuropil.errors import InputError


class CaptionDataConfig(Config):
    data: Path | None = option(
        None,
        "your own captions: a CSV or TSV with the file of a picture and a caption in each row; without it, scenes of digits",
    )
    scenes: int = option(23_000, "scenes of digits to make where no data is given", low=20)
    raster: int = option(
        1,
        f"digits of these scenes stand at multiples of so many pixels, at most {MOST_RASTER}",
        low=1,
        high=MOST_RASTER,
    )
    picture_column: str | None = option(None, "the column that names the pictures")
    caption_column: str | None = option(None, "the column that says what is on them")
    pictures: Path | None = option(
        None, "the folder that the names of the pictures are relative to; without it, that of the table"
    )
    validation: float = option(
        0.05, f"share held out for early stopping, at most {MOST_HELD_OUT:,} captions", low=0, high=0.5
    )
    test: float = option(
        0.1, f"share held out for the final score, at most {MOST_HELD_OUT:,} captions", low=0.01, high=0.9
    )


def prepare_captions(config: CaptionDataConfig, seed: int) -> CaptionSplits:
    """The same for the same seed; each part is in the order of the data."""
    if config.data is None:
        return _embedded(config, seed)
    pictures, notes = read_captions(
        config.data, picture_column=config.picture_column, caption_column=config.caption_column, folder=config.pictures
    )
    if len(pictures) < 2:
        rule = f"{config.data.name} must name at least 2 pictures, one to learn from and one to score"
        raise InputError(rule, got=f"{len(pictures)}")
    part = assign_parts(
        torch.tensor([len(captions) for captions in pictures.captions]), config.validation, config.test, seed
    )
    train, validation, test = (pictures.take((part == name).nonzero().flatten()) for name in (TRAIN, VALIDATION, TEST))
    return CaptionSplits(train, validation, test, notes)


def _embedded(config: CaptionDataConfig, seed: int) -> CaptionSplits:
    for name in ("picture_column", "caption_column", "pictures"):
        if getattr(config, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{option} belongs to captions of your own",
                got="the embedded scenes",
                fix="leave it out or give --data",
            )
    num_validation, num_test = held_out_of(config.scenes, config.validation), held_out_of(config.scenes, config.test)
    return make_scenes(config.scenes - num_validation - num_test, num_validation, num_test, seed, raster=config.raster)
