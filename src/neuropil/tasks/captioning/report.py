"""What a report shows of a captioner: how it learned, what it says, where it looks, what is inside it, what it learned from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from einops import rearrange
from jaxtyping import UInt8

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.inspection.pictures.images import caption_overlays
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Text, Thumbnail
from neuropil.tasks.captioning.scores import words
from neuropil.tasks.classification.report import learning_section, model_section
from neuropil.tasks.translation.report import spread
from neuropil.training.history import Row

if TYPE_CHECKING:
    from neuropil.tasks.captioning.experiment import Captioning

SHOWN, LOOKED_AT = 12, 6
MOST_DRAWN = 22
"""Words of a caption whose looks are drawn: two lines of them."""


def sections(experiment: "Captioning", history: Sequence[Row]) -> list[Section]:
    found = [learning_section(history, experiment.training), saying_section(experiment)]
    if experiment.model_config.attention:
        found.append(looking_section(experiment))
    return [*found, model_section(experiment.model.parameter_table(), experiment.model), data_section(experiment)]


def saying_section(experiment: "Captioning") -> Section:
    """By group where the data has groups, then some captions, the right ones first."""
    test, said = experiment.splits.test, experiment.captions
    right = [is_right(said[index], test.captions[index]) for index in range(len(test))]
    blocks: list[Block] = []
    if test.groups:
        blocks.append(group_table(test.groups, right))
    good = [index for index in range(len(test)) if right[index]]
    if good:
        blocks.append(
            Text(f"{len(good):,} of {len(test):,} captions are, word for word, those of the data; some of them:")
        )
        blocks.append(Gallery([Thumbnail(pixels(test, index), said[index]) for index in spread(good, SHOWN)]))
    wrong = [index for index in range(len(test)) if not right[index]]
    if wrong:
        shown = [
            Thumbnail(pixels(test, index), said[index], f"in the data: {test.captions[index][0]}")
            for index in spread(wrong, SHOWN)
        ]
        blocks += [Text("Some that differ:"), Gallery(shown)]
    return Section("What it says", blocks)


def group_table(groups: Sequence[str], right: Sequence[bool]) -> Table:
    rows = []
    for group in sorted(set(groups), key=groups.index):
        of_group = [good for good, name in zip(right, groups, strict=True) if name == group]
        rows.append([group, len(of_group), f"{100 * sum(of_group) / len(of_group):.1f} %"])
    return Table(["", "pictures", "exactly right"], rows)


def looking_section(experiment: "Captioning") -> Section:
    test, said = experiment.splits.test, experiment.captions
    longest = sorted((index for index in range(len(test)) if said[index]), key=lambda index: -len(words(said[index])))
    chosen = spread(longest, LOOKED_AT)
    if not chosen:
        return Section("Where it looks", [Text("No caption has a word.")])
    looks = experiment.writer.looks(test.pictures[chosen], [said[index] for index in chosen])
    figure = caption_overlays(
        [pixels(test, index) for index in chosen],
        [each[:MOST_DRAWN] for _, each in looks],
        [named[:MOST_DRAWN] for named, _ in looks],
    )
    rows, columns = experiment.model_config.grid
    text = (
        f"The picture is a grid of {rows} × {columns} places. For each word the captioner weighs them anew; the brighter a place is lit, "
        "the more of it goes into that word. The last look, ◁, is for the decision to end."
    )
    caption = "Weights show where information may flow from; they do not say by themselves why a word was chosen."
    return Section(
        "Where it looks",
        [Text(text), Picture.of(figure, alt="pictures, lit where the captioner looked for each word", caption=caption)],
    )


def data_section(experiment: "Captioning") -> Section:
    splits = experiment.splits
    rows = [
        [part, len(getattr(splits, part)), len(getattr(splits, part).texts)] for part in ("train", "validation", "test")
    ]
    tokens = f"{len(experiment.tokenizer):,} tokens ({experiment.tokenizer.kind})"
    changes = ", ".join(f"{name} {value:g}" for name, value in experiment.augment.to_dict().items() if value)
    turned = [Text(f"Training pictures are changed at random, anew in each epoch: {changes}.")] if changes else []
    return Section(
        "Data",
        [
            Text(f"{splits.train.source}; {tokens}."),
            Table(["part", "pictures", "captions"], rows),
            *turned,
            *map(Text, experiment.notes),
        ],
    )


def is_right(caption: str, references: Sequence[str]) -> bool:
    return words(caption) in map(words, references)


def pixels(
    data: CaptionedPictures, index: int
) -> UInt8[np.ndarray, "height width"] | UInt8[np.ndarray, "height width 3"]:
    """One picture as a report shows it: grey, or colour with the channels last."""
    image = rearrange(data.pictures[index], "channel height width -> height width channel").numpy()
    return image[..., 0] if image.shape[-1] == 1 else image
