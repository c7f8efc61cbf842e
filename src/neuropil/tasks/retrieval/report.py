"""What a report shows of a model that matches pictures with captions: how it learned, what it finds, where it looks, what it saw."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, UInt8
from torch import Tensor

from neuropil.inspection.pictures.images import rollout_overlays, similarity_matrix
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Text, Thumbnail
from neuropil.inspection.rollout import patch_maps
from neuropil.models.clip import SHARPEST
from neuropil.tasks.captioning.report import pixels
from neuropil.tasks.classification.report import learning_section, model_section
from neuropil.tasks.retrieval.scores import right_pairs
from neuropil.tasks.translation.report import spread
from neuropil.training.history import Row

if TYPE_CHECKING:
    from neuropil.tasks.retrieval.experiment import PictureMatching

IN_MATRIX, SHOWN, LOOKED_AT = 12, 6, 9
PARTS = ("train", "validation", "test")


def sections(experiment: "PictureMatching", history: Sequence[Row]) -> list[Section]:
    return [
        learning_section(history, experiment.training),
        matrix_section(experiment),
        finding_section(experiment),
        looking_section(experiment),
        model_section(experiment.model.parameter_table(), experiment.model),
        data_section(experiment),
    ]


def matrix_section(experiment: "PictureMatching") -> Section:
    similarity = experiment.test_similarities[0]
    _, right = right_pairs(experiment.matches["test"])[0]
    shown = different(right, IN_MATRIX)
    figure = similarity_matrix(
        similarity[shown][:, shown],
        [_pixels(experiment, index) for index in shown],
        [_text(experiment, index) for index in shown],
    )
    words = (
        "Pictures of the test part and their captions, and the similarity of each picture with each caption: the cosine u·v of their two "
        f"vectors. The right ones are framed. The factor e^s that sharpens them in training has become {sharpness(experiment):.1f}."
    )
    return Section("What fits what", [Text(words), Picture.of(figure, alt="similarities of pictures and captions")])


def finding_section(experiment: "PictureMatching") -> Section:
    """Some retrievals, right and wrong, from the caption and from the picture."""
    good, wrong, blocks = list[Thumbnail](), list[Thumbnail](), list[Block]()
    for (begin, right), similarity in zip(
        right_pairs(experiment.matches["test"]), experiment.test_similarities, strict=True
    ):
        for caption, picture in enumerate(similarity.argmax(0).tolist()):
            asked = _text(experiment, begin + caption)
            if right[picture, caption]:
                good.append(Thumbnail(_pixels(experiment, begin + picture), asked))
            else:
                said = f"said of it: {_text(experiment, begin + picture)}"
                wrong.append(Thumbnail(_pixels(experiment, begin + picture), asked, said))
    pairs = len(experiment.matches["test"])
    pool = min(pairs, len(experiment.test_similarities[0]))
    if good:
        blocks.append(
            Text(f"For {len(good):,} of {pairs:,} captions a right picture is found among {pool:,}. Some of them:")
        )
        blocks.append(Gallery(some(good)))
    if wrong:
        blocks += [Text("Some captions for which another was taken:"), Gallery(some(wrong))]
    groups = experiment.splits.test.groups
    if groups:
        blocks.append(group_table(experiment, groups))
    return Section("What it finds", blocks)


def some(thumbnails: Sequence[Thumbnail]) -> list[Thumbnail]:
    return [thumbnails[index] for index in spread(range(len(thumbnails)), SHOWN)]


def group_table(experiment: "PictureMatching", groups: Sequence[str]) -> Table:
    found: dict[str, list[tuple[bool, bool]]] = {}
    for (begin, right), similarity in zip(
        right_pairs(experiment.matches["test"]), experiment.test_similarities, strict=True
    ):
        by_picture, by_caption = similarity.argmax(1).tolist(), similarity.argmax(0).tolist()
        for place in range(len(right)):
            name = groups[int(experiment.matches["test"].picture_of[begin + place])]
            found.setdefault(name, []).append(
                (bool(right[place, by_picture[place]]), bool(right[by_caption[place], place]))
            )
    rows = [
        [name, len(each), *(f"{100 * sum(way) / len(each):.1f} %" for way in zip(*each, strict=True))]
        for name, each in sorted(found.items())
    ]
    return Table(["", "pairs", "caption found for the picture", "picture found for the caption"], rows)


def looking_section(experiment: "PictureMatching") -> Section:
    test = experiment.splits.test
    shown = spread(range(len(test)), LOOKED_AT)
    experiment.model.eval()
    looks = patch_maps(experiment.model, test.pictures[list(shown)].to(experiment.device))
    figure = rollout_overlays(
        [pixels(test, index) for index in shown], looks.rollout, [test.captions[index][0] for index in shown], columns=3
    )
    words = "By roll-out: the brighter a patch is lit, the more of it can have reached the vector that stands for the picture."
    return Section(
        "Where it looks",
        [Text(words), Picture.of(figure, alt="pictures, and beside each the same lit where it was looked at")],
    )


def data_section(experiment: "PictureMatching") -> Section:
    rows = [[part, len(getattr(experiment.splits, part)), len(experiment.matches[part])] for part in PARTS]
    changes = ", ".join(f"{name} {value:g}" for name, value in experiment.augment.to_dict().items() if value)
    turned = [Text(f"Training pictures are changed at random, anew in each epoch: {changes}.")] if changes else []
    return Section(
        "Data",
        [
            Text(
                f"{experiment.splits.train.source}; {len(experiment.tokenizer):,} tokens (byte-level BPE, as CLIP's)."
            ),
            Table(["part", "pictures", "captions"], rows),
            *turned,
            *map(Text, experiment.notes),
        ],
    )


def different(right: Bool[Tensor, "picture caption"], most: int) -> list[int]:
    """The first pairs of a pool of which no caption is right for another's picture."""
    chosen: list[int] = []
    for index in range(len(right)):
        if len(chosen) < most and not right[index, chosen].any():
            chosen.append(index)
    return chosen


def sharpness(experiment: "PictureMatching") -> float:
    return float(experiment.model.scale.detach().clamp(max=SHARPEST).exp())


def _pixels(
    experiment: "PictureMatching", index: int
) -> UInt8[np.ndarray, "height width"] | UInt8[np.ndarray, "height width 3"]:
    return pixels(experiment.splits.test, int(experiment.matches["test"].picture_of[index]))


def _text(experiment: "PictureMatching", index: int) -> str:
    return experiment.splits.test.texts[index]
