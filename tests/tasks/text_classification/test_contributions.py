from collections.abc import Sequence
from dataclasses import dataclass

import torch

from neuropil.tasks.predictor import Predictions
from neuropil.tasks.text_classification.contributions import contributions


@dataclass(frozen=True)
class CountsGood:
    """p(good) grows with the words "good" in a text."""

    def classify(self, texts: Sequence[str]) -> Predictions:
        good = torch.tensor([min(text.count("good") / 4, 1.0) for text in texts])
        return Predictions(torch.stack([good, 1 - good], 1), ("good", "bad"))


def test_a_word_adds_what_is_gone_without_it():
    found = contributions(CountsGood(), "so good, so good!")
    words = [found.text[begin:end] for begin, end in found.places]
    assert words == ["so", "good", ",", "so", "good", "!"]
    assert found.whole.tolist() == [0.5, 0.5]
    assert found.of_words[:, 0].tolist() == [0, 0.25, 0, 0, 0.25, 0]
    assert found.of_words[:, 1].tolist() == [0, -0.25, 0, 0, -0.25, 0]


def test_a_text_without_words_has_no_contributions():
    found = contributions(CountsGood(), " ")
    assert found.places == []
    assert found.without.shape == (0, 2)
