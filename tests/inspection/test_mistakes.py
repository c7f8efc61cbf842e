import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from neuropil.errors import InputError
from neuropil.inspection.mistakes import confused_pairs, confusion_counts, per_class_table, worst_mistakes


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 12), st.integers(0, 60), st.integers(0, 1000))
def test_confusion_counts_are_those_of_scikit_learn(num_classes: int, examples: int, seed: int):
    predicted, actual = np.random.default_rng(seed).integers(0, num_classes, (2, examples))
    counts = confusion_counts(torch.from_numpy(predicted), torch.from_numpy(actual), num_classes)
    if examples:
        np.testing.assert_array_equal(counts, confusion_matrix(actual, predicted, labels=range(num_classes)))
    assert counts.shape == (num_classes, num_classes)
    assert counts.sum() == examples


def test_a_class_number_out_of_range_is_refused():
    with pytest.raises(InputError) as error:
        confusion_counts(torch.tensor([0, 3]), torch.tensor([0, 1]), 3)
    assert str(error.value) == "class numbers must lie from 0 to 2, but got numbers from 0 to 3."


def test_the_worst_mistakes_are_wrong_and_the_surest_come_first():
    probabilities = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.05, 0.95], [0.6, 0.4]])
    targets = torch.tensor([0, 0, 0, 0, 1])
    assert worst_mistakes(probabilities, targets, 3).tolist() == [3, 1, 2]
    assert worst_mistakes(probabilities, targets, 10).tolist() == [3, 1, 2, 4]
    assert worst_mistakes(probabilities, probabilities.argmax(1), 10).tolist() == []


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 8), st.integers(20, 80), st.integers(0, 1000))
def test_the_table_of_classes_has_the_scores_of_scikit_learn(num_classes: int, examples: int, seed: int):
    random = np.random.default_rng(seed)
    actual = np.concatenate([np.arange(num_classes), random.integers(0, num_classes, examples)])
    predicted = np.concatenate([np.arange(num_classes), random.integers(0, num_classes, examples)])
    counts = confusion_counts(torch.from_numpy(predicted), torch.from_numpy(actual), num_classes)
    table = per_class_table(counts, [f"class {index}" for index in range(num_classes)])
    precision, recall, f1, support = precision_recall_fscore_support(actual, predicted)
    for index, (name, number, *scores, _) in enumerate(table.rows):
        assert (name, number) == (f"class {index}", np.asarray(support)[index])
        assert scores == [f"{100 * np.asarray(score)[index]:.1f} %" for score in (recall, precision, f1)]


def test_a_class_that_never_occurs_or_is_never_predicted_has_no_score():
    table = per_class_table(torch.tensor([[3, 1, 0], [0, 0, 0], [2, 0, 0]]), ["a", "b", "c"])
    assert table.rows == [
        ["a", 4, "75.0 %", "60.0 %", "66.7 %", "b (1×)"],
        ["b", 0, "–", "0.0 %", "0.0 %", "–"],
        ["c", 2, "0.0 %", "–", "0.0 %", "a (2×)"],
    ]


def test_the_commonest_confusions_come_first_and_right_answers_are_none():
    counts = torch.tensor([[9, 1, 0], [0, 5, 5], [2, 0, 8]])
    assert confused_pairs(counts, ["a", "b", "c"], 2).rows == [["b", "c", 5, "50.0 %"], ["c", "a", 2, "20.0 %"]]
    assert len(confused_pairs(counts, ["a", "b", "c"], 9).rows) == 3
