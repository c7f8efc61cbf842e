from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.tasks.tagging.scores import baselines, count_tags, score_tags

tags = st.sampled_from(["A", "B", "C", "D"])
texts = st.lists(st.lists(st.tuples(tags, tags), min_size=1, max_size=6), min_size=1, max_size=10)


@settings(deadline=None, max_examples=80)
@given(texts)
def test_scores_are_scikit_learns(rows: list[list[tuple[str, str]]]):
    said, truth = ([[pair[place] for pair in row] for row in rows] for place in (0, 1))
    flat_said, flat_truth = (list(chain.from_iterable(each)) for each in (said, truth))
    scores = score_tags(said, truth)
    assert scores["token_accuracy"] == pytest.approx(accuracy_score(flat_truth, flat_said))
    occurring = sorted(set(flat_truth))
    none: Any = 0
    expected = f1_score(flat_truth, flat_said, labels=occurring, average="macro", zero_division=none)
    assert scores["f1"] == pytest.approx(expected)
    assert scores["exact_accuracy"] == sum(a == b for a, b in zip(said, truth, strict=True)) / len(rows)


def test_tags_that_are_not_known_are_counted_together():
    assert count_tags([["A", "B"]], [["A", "Z"]], ["A", "B"]).tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert count_tags([["A"]], [["A"]], ["A", "B"]).shape == (2, 2)


def test_neighbours_tell_what_a_word_alone_does_not():
    train = TaggedTexts(
        [["they", "fish"], ["the", "fish", "swims"], ["the", "fish"]],
        [["P", "V"], ["D", "N", "V"], ["D", "N"]],
        (),
        "words",
        "",
    )
    test = TaggedTexts([["they", "fish"], ["a", "fish"]], [["P", "V"], ["D", "N"]], (), "words", "")
    near, alone = baselines(train, test)
    assert near.name == "most frequent tag of a word and its neighbours"
    assert (
        near.metrics["token_accuracy"] == 3 / 4
    )  # "a" has the tag that is most frequent at large, and "fish" after it its own
    assert alone.metrics["token_accuracy"] == 2 / 4
