"""What a model that matches pictures with captions must beat, among the same hundred pairs."""

import itertools
import re

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuropil.data.captions.batches import Matches, MatchingBatches
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.splits import Splits
from neuropil.tasks.captioning.scores import nearest_captions
from neuropil.tasks.experiment import Result

POOL = 100
"""Pairs among which the right one is looked for."""


def baselines(splits: Splits[CaptionedPictures], matches: Matches) -> list[Result]:
    """To look for the words that were said of the most similar picture of the training part, and to guess."""
    test = splits.test
    said = nearest_captions(splits.train, test.pictures)
    nearest, guessed = list[dict[str, Tensor]](), list[dict[str, Tensor]]()
    for begin, right in right_pairs(matches):
        chosen = range(begin, begin + len(right))
        nearest.append(
            picked(likeness([said[int(matches.picture_of[index])] for index in chosen], _texts(test, chosen)), right)
        )
        share = right.float().mean(1)
        guessed.append({"text_recall_at_1": share, "image_recall_at_1": share})
    return [
        Result("words in common with the caption of the nearest training picture", _mean(nearest)),
        Result("chance", _mean(guessed)),
    ]


def right_pairs(matches: Matches) -> list[tuple[int, Bool[Tensor, "picture caption"]]]:
    """For each pool the number of its first pair, and which of its captions are right for which of its pictures."""
    batches = MatchingBatches(matches, POOL, seed=0, shuffle=False)
    found, begin = [], 0
    for batch in batches.epoch(0):
        found.append((begin, batch["group"][:, None] == batch["group"]))
        begin += len(batch["group"])
    return found


def picked(
    similarity: Float[Tensor, "picture caption"], right: Bool[Tensor, "picture caption"]
) -> dict[str, Float[Tensor, " pair"]]:
    """Whether the caption that is most similar to each picture is right, and the picture that is most similar to each
    caption."""
    return {
        "text_recall_at_1": right.gather(1, similarity.argmax(1)[:, None]).flatten().float(),
        "image_recall_at_1": right.gather(0, similarity.argmax(0)[None]).flatten().float(),
    }


def likeness(texts: list[str], others: list[str]) -> Float[Tensor, "text other"]:
    """Pieces of one and two words that two texts share, as a share of all that either has."""
    ours, theirs = ([_pieces(text) for text in each] for each in (texts, others))
    return torch.tensor([[len(one & other) / (len(one | other) or 1) for other in theirs] for one in ours])


def _pieces(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    return {*((word,) for word in words), *itertools.pairwise(words)}


def _texts(data: CaptionedPictures, chosen: range) -> list[str]:
    texts = data.texts
    return [texts[index] for index in chosen]


def _mean(pools: list[dict[str, Tensor]]) -> dict[str, float]:
    return {name: torch.cat([pool[name] for pool in pools]).double().mean().item() for name in pools[0]}
