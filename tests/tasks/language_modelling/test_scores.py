"""Counting models, against counting by hand."""

import gzip
import lzma
import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from neuropil.tasks.language_modelling.scores import PACKERS, n_gram_losses, packed_nats


def witten_bell(train: list[int], test: list[int], vocabulary: int, order: int) -> list[float]:
    """The recursion as it is written, with dictionaries."""
    followers: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for n in range(order):
        for place in range(n, len(train)):
            followers[(n, *train[place - n : place])][train[place]] += 1

    def probability(history: list[int], token: int, n: int) -> float:
        if n < 0:
            return 1 / vocabulary
        counts = followers.get((n, *history[len(history) - n :]), Counter())
        lower = probability(history, token, n - 1)
        distinct, total = len(counts), sum(counts.values())
        return (counts[token] + distinct * lower) / (total + distinct) if distinct else lower

    whole = train + test
    return [
        -math.log(probability(whole[: len(train) + place], test[place], order - 1)) for place in range(1, len(test))
    ]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_n_grams_are_the_recursion_written_with_dictionaries(order: int):
    random = np.random.default_rng(0)
    train, test = random.integers(0, 5, 300), random.integers(0, 6, 80)  # the last token was never seen
    losses = n_gram_losses(train, test, 6, order)
    assert len(losses) == order
    np.testing.assert_allclose(losses[-1], witten_bell(train.tolist(), test.tolist(), 6, order), rtol=1e-9)


def test_the_probabilities_of_all_tokens_sum_to_one():
    train, before = np.array([0, 1, 2, 0, 1, 3, 0, 1]), np.array([0, 1])
    shares = [math.exp(-n_gram_losses(train, np.array([*before, token]), 5, 3)[-1][-1]) for token in range(5)]
    assert sum(shares) == pytest.approx(1)


def test_a_longer_memory_predicts_a_text_that_repeats():
    text = np.array([0, 1, 0, 2] * 100)
    one, _, three = (losses.mean() for losses in n_gram_losses(text, text, 3, 3))
    assert one > 1
    assert three < 0.1


def test_packing_programs_are_measured_on_the_test_text_alone():
    train, test = "the quick brown fox " * 50, "the quick brown fox jumps"
    xz, gz = PACKERS
    assert packed_nats(gz, train, test) / math.log(2) / 8 == len(gzip.compress(test.encode())) - len(gzip.compress(b""))
    assert packed_nats(xz, train, test) / math.log(2) / 8 == len(lzma.compress((train + test).encode())) - len(
        lzma.compress(train.encode())
    )
