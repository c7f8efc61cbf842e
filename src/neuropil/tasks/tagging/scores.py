"""How good tags are, and what a tagger must beat: the tag that a token has most often."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from itertools import chain, repeat
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.inspection.mistakes import confusion_counts
from neuropil.tasks.experiment import Result

Tags: TypeAlias = Sequence[Sequence[str]]
"""For each text as many as it has tokens."""


def score_tags(said: Tags, truth: Tags) -> dict[str, float]:
    """`token_accuracy` over all tokens, `exact_accuracy` over texts whose tags are all right, and `f1`, the mean over
    the tags that occur in the truth."""
    tags = sorted(set(chain.from_iterable(truth)))
    counts = count_tags(said, truth, tags)
    right = counts.diagonal().sum().item()
    exact = sum(list(ours) == list(theirs) for ours, theirs in zip(said, truth, strict=True))
    return {
        "token_accuracy": right / max(int(counts.sum()), 1),
        "exact_accuracy": exact / max(len(truth), 1),
        "f1": f1_of(counts)[: len(tags)].mean().item(),
    }


def count_tags(said: Tags, truth: Tags, tags: Sequence[str]) -> Int64[Tensor, "actual said"]:
    """How often each tag was taken for which; tags that are none of `tags` are counted together at the end, where there
    are any."""
    numbers = {tag: number for number, tag in enumerate(tags)}
    ours, theirs = (
        torch.from_numpy(np.fromiter(map(numbers.get, chain.from_iterable(each), repeat(len(tags))), np.int64))
        for each in (said, truth)
    )
    strange = int(bool(len(ours)) and bool((torch.cat([ours, theirs]) == len(tags)).any()))
    return confusion_counts(ours, theirs, len(tags) + strange)


def f1_of(counts: Int64[Tensor, "actual said"]) -> Float[Tensor, " tag"]:
    """F1 = 2 · hits / (said + actual)."""
    together = counts.sum(0) + counts.sum(1)
    return 2 * counts.diagonal().double() / together.clamp(min=1)


def baselines(train: TaggedTexts, test: TaggedTexts) -> list[Result]:
    """The most frequent tag of each token in training, with its neighbours and alone; of what was not seen, of all
    tokens."""
    near, alone = _guesses(train, test, _with_neighbours), _guesses(train, test, _itself)
    everywhere = Counter(chain.from_iterable(train.tags)).most_common(1)[0][0]
    by_token = [[tag or everywhere for tag in tags] for tags in alone]
    by_neighbours = [
        [first or second for first, second in zip(*tags, strict=True)] for tags in zip(near, by_token, strict=True)
    ]
    what = "character" if train.kind == "characters" else "word"
    return [
        Result(f"most frequent tag of a {what} and its neighbours", score_tags(by_neighbours, test.tags)),
        Result(f"most frequent tag of a {what}", score_tags(by_token, test.tags)),
    ]


def _guesses(
    train: TaggedTexts, test: TaggedTexts, keys_of: Callable[[Sequence[str]], list[Hashable]]
) -> list[list[str | None]]:
    counts: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for tokens, tags in zip(train.tokens, train.tags, strict=True):
        for key, tag in zip(keys_of(tokens), tags, strict=True):
            counts[key][tag] += 1
    best = {key: min(counter, key=lambda tag, counter=counter: (-counter[tag], tag)) for key, counter in counts.items()}
    return [[best.get(key) for key in keys_of(tokens)] for tokens in test.tokens]


def _itself(tokens: Sequence[str]) -> list[Hashable]:
    return list(tokens)


def _with_neighbours(tokens: Sequence[str]) -> list[Hashable]:
    return list(zip(["", *tokens][:-1], tokens, [*tokens, ""][1:], strict=True))
