"""How good captions are: the share that is exactly that of the data, and sacrebleu's BLEU."""

import re
from collections.abc import Sequence
from typing import Any

from jaxtyping import UInt8
from torch import Tensor

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.splits import Splits

WORDS_FOR_BLEU = 2
"""Words that captions have on average, at least: BLEU counts sequences of up to four words, and where no caption has
four, up to three (sacrebleu's effective order)."""
LARGEST_MEMORY = 10_000
"""Training pictures that the nearest is looked for among, at most."""
PICTURES_AT_ONCE = 256


def score_captions(captions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """`exact_accuracy` from 0 to 1, where any of a picture's references may be met, and `bleu` from 0 to 100 over the
    whole corpus."""
    exact = sum(words(ours) in map(words, theirs) for ours, theirs in zip(captions, references, strict=True)) / len(
        references
    )
    scores = {"exact_accuracy": exact}
    count = sum(map(len, references))
    if sum(len(words(text)) for theirs in references for text in theirs) > WORDS_FOR_BLEU * count:
        from sacrebleu.metrics.bleu import BLEU

        most = max(map(len, references))
        # As many lists as the most references that a picture has; a picture with fewer has none in the last of them.
        lists: Any = [
            [theirs[place] if place < len(theirs) else None for theirs in references] for place in range(most)
        ]
        scores["bleu"] = BLEU(effective_order=True).corpus_score(list(captions), lists).score
    return scores


def words(text: str) -> list[str]:
    """A caption as it is compared: spaces count for nothing, and a sign is a word of its own."""
    return re.findall(r"\w+|[^\w\s]+", text)


def baselines(splits: Splits[CaptionedPictures]) -> dict[str, list[str]]:
    """What a captioner must beat: to repeat what was said of the most similar picture, or to say always the same."""
    test = splits.test
    said: dict[str, int] = {}
    for text in splits.train.texts:
        said[text] = said.get(text, 0) + 1
    commonest = max(said, key=lambda text: said[text])
    return {
        "the caption of the nearest training picture": nearest_captions(splits.train, test.pictures),
        "the most common caption": [commonest] * len(test),
    }


def nearest_captions(train: CaptionedPictures, pictures: UInt8[Tensor, "picture channel height width"]) -> list[str]:
    """For each picture the first caption of the training picture whose pixels differ least."""
    memory = train.pictures[:LARGEST_MEMORY].flatten(1).float()
    # ‖x − y‖² = ‖y‖² − 2 x·y + a constant of x
    lengths = memory.square().sum(1)
    found = list[str]()
    for some in pictures.split(PICTURES_AT_ONCE):
        distance = lengths - 2 * some.flatten(1).float() @ memory.T
        found.extend(train.captions[index][0] for index in map(int, distance.argmin(1)))
    return found
