"""What a report shows of a model that matches pictures with captions: similarities, what is found, where it looks, what
it learned from."""

from collections.abc import Mapping, Sequence

from jaxtyping import Bool, Float
from torch import Tensor

from neuropil.data.augmentation import Augment
from neuropil.data.captions.batches import Matches
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.splits import Splits
from neuropil.inspection.pictures.images import rollout_overlays, similarity_matrix
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Text, Thumbnail
from neuropil.inspection.rollout import patch_maps
from neuropil.models.clip import CLIP, SHARPEST
from neuropil.tasks import report
from neuropil.tasks.report import spread
from neuropil.tasks.retrieval.scores import right_pairs

IN_MATRIX, SHOWN, LOOKED_AT = 12, 6, 9

Similarities = Sequence[Float[Tensor, "picture caption"]]


def similarity_section(test: CaptionedPictures, matches: Matches, similarities: Similarities, model: CLIP) -> Section:
    shown = different(right_pairs(matches)[0][1], IN_MATRIX)
    images = [pixels(test.pictures[int(matches.picture_of[index])]) for index in shown]
    figure = similarity_matrix(similarities[0][shown][:, shown], images, [test.texts[index] for index in shown])
    temperature = float(model.scale.detach().clamp(max=SHARPEST).exp())
    words = (
        "The cosine similarity u·v of each picture with each caption, for pairs of the test part; the right ones are "
        f"framed. The learned inverse temperature e^s is {temperature:.1f}."
    )
    return Section("Similarity", [Text(words), Picture.of(figure, alt="similarities of pictures and captions")])


def retrieval_section(test: CaptionedPictures, matches: Matches, similarities: Similarities) -> Section:
    """Some retrievals by caption, right and wrong; accuracy by group where there are groups."""
    good, wrong, blocks = list[Thumbnail](), list[Thumbnail](), list[Block]()
    by_group: dict[str, list[tuple[bool, bool]]] = {}
    for (begin, right), similarity in zip(right_pairs(matches), similarities, strict=True):
        found_captions, found_pictures = similarity.argmax(1).tolist(), similarity.argmax(0).tolist()
        for place, picture in enumerate(found_pictures):
            asked, number = test.texts[begin + place], int(matches.picture_of[begin + picture])
            if right[picture, place]:
                good.append(Thumbnail(pixels(test.pictures[number]), asked))
            else:
                its_own = f"its caption: {test.texts[begin + picture]}"
                wrong.append(Thumbnail(pixels(test.pictures[number]), asked, its_own))
            if test.groups:
                both = bool(right[place, found_captions[place]]), bool(right[picture, place])
                by_group.setdefault(test.groups[int(matches.picture_of[begin + place])], []).append(both)
    if good:
        pool = min(len(matches), len(similarities[0]))
        words = f"For {len(good):,} of {len(matches):,} captions a right picture is found among {pool:,}. Some of them:"
        blocks += [Text(words), Gallery([good[index] for index in spread(range(len(good)), SHOWN)])]
    if wrong:
        some = [wrong[index] for index in spread(range(len(wrong)), SHOWN)]
        blocks += [Text("Some captions for which another picture is found:"), Gallery(some)]
    if by_group:
        rows = [
            [name, len(each), *(f"{100 * sum(way) / len(each):.1f} %" for way in zip(*each, strict=True))]
            for name, each in sorted(by_group.items())
        ]
        blocks.append(Table(["", "pairs", "caption found for the picture", "picture found for the caption"], rows))
    return Section("Retrieval", blocks)


def rollout_section(test: CaptionedPictures, model: CLIP) -> Section:
    shown = list(spread(range(len(test)), LOOKED_AT))
    looks = patch_maps(model.eval(), test.pictures[shown].to(model.scale.device))
    images, titles = [pixels(test.pictures[index]) for index in shown], [test.captions[index][0] for index in shown]
    figure = rollout_overlays(images, looks.rollout, titles, columns=3)
    words = "Attention roll-out: the brighter a patch, the more of it can have reached the embedding of the picture."
    return Section("Attention", [Text(words), Picture.of(figure, alt="pictures with their attention roll-out")])


def data_section(
    splits: Splits[CaptionedPictures],
    matches: Mapping[str, Matches],
    tokens: int,
    augment: Augment,
    notes: Sequence[str],
) -> Section:
    rows = [[part, len(getattr(splits, part)), len(each)] for part, each in matches.items()]
    source = f"{splits.train.source}; {tokens:,} tokens (byte-level BPE, as CLIP's)"
    return report.data_section(source, ["part", "pictures", "captions"], rows, notes, augment=augment)


def different(right: Bool[Tensor, "picture caption"], most: int) -> list[int]:
    """The first pairs of a pool of which no caption is right for another's picture."""
    chosen: list[int] = []
    for index in range(len(right)):
        if len(chosen) < most and not right[index, chosen].any():
            chosen.append(index)
    return chosen
