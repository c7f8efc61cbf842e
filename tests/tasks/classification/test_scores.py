from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    hamming_loss,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.splits import Splits
from neuropil.tasks.classification.scores import (
    baselines,
    class_scores,
    final_scores,
    label_scores,
    least_squares,
    value_scores,
)


def unequal(classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities with many ties, and targets of which each class has twice as many as the next."""
    generator = np.random.default_rng(seed)
    targets = np.repeat(np.arange(classes), [6 * 2 ** (classes - c) for c in range(classes)])
    logits = generator.normal(size=(len(targets), classes)).round(1)
    logits[np.arange(len(targets)), targets] += 1
    return torch.from_numpy(logits).softmax(-1), torch.from_numpy(targets)


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 5), st.integers(0, 1_000))
def test_scores_of_unequal_classes_are_those_of_scikit_learn(classes: int, seed: int):
    probabilities, targets = unequal(classes, seed)
    found, guesses = class_scores(probabilities, targets), probabilities.argmax(-1)
    area = roc_auc_score(targets, probabilities[:, 1] if classes == 2 else probabilities, multi_class="ovr")
    assert found == pytest.approx(
        {
            "accuracy": (guesses == targets).double().mean().item(),
            "balanced_accuracy": balanced_accuracy_score(targets, guesses),
            "auc": area,
            "macro_f1": f1_score(targets, guesses, average="macro"),
        }
    )


def test_a_class_that_is_absent_counts_only_where_it_is_guessed():
    probabilities, targets = unequal(3)
    kept = targets != 1
    found, guesses = class_scores(probabilities[kept], targets[kept]), probabilities[kept].argmax(-1)
    assert (guesses == 1).any()
    assert found["macro_f1"] == pytest.approx(f1_score(targets[kept], guesses, average="macro"))
    recalls = [(guesses[targets[kept] == name] == name).double().mean().item() for name in (0, 2)]
    assert found["balanced_accuracy"] == pytest.approx(sum(recalls) / 2)


def test_equal_classes_have_accuracy_alone():
    probabilities = torch.rand(40, 4)
    assert set(class_scores(probabilities, torch.arange(4).repeat(10))) == {"accuracy"}
    assert set(class_scores(probabilities, torch.zeros(40, dtype=torch.int64))) == {"accuracy"}


def test_scores_of_values_are_those_of_scikit_learn():
    generator = np.random.default_rng(0)
    actual, predicted = generator.normal(5, 2, (50, 1)), generator.normal(5, 2, (50, 1))
    assert value_scores(torch.from_numpy(predicted), torch.from_numpy(actual)) == pytest.approx(
        {
            "squared_error": mean_squared_error(actual, predicted),
            "absolute_error": mean_absolute_error(actual, predicted),
            "r2": r2_score(actual, predicted),
        }
    )


def test_values_that_are_all_the_same_have_no_share_of_their_variance():
    assert set(value_scores(torch.rand(5, 1), torch.ones(5, 1))) == {"squared_error", "absolute_error"}


def test_predicted_values_are_compared_in_the_units_of_the_targets():
    schema = Schema(kind="table", shape=(1,), classes=(), target_offset=1e9)
    examples = Examples(torch.rand(4, 1), torch.tensor([[1.0], [2.0], [3.0], [4.0]]), schema, "a table")
    predicted = 1e9 + torch.tensor([[1.5], [2.0], [3.0], [4.0]], dtype=torch.double)
    assert final_scores(predicted, examples) == pytest.approx(
        {"squared_error": 1 / 16, "absolute_error": 1 / 8, "r2": 0.95}
    )


def test_baselines_are_scored_as_the_model_is():
    probabilities, targets = unequal(3)
    schema = Schema(kind="table", shape=(3,), classes=("a", "b", "c"))
    examples = Examples(probabilities.float(), targets, schema, "a table")
    logistic, frequent = baselines(Splits(examples, examples, examples))
    assert set(logistic.metrics) == {"accuracy", "balanced_accuracy", "auc", "macro_f1"}
    assert logistic.metrics["auc"] > 0.7
    assert frequent.metrics == pytest.approx(
        {"accuracy": 4 / 7, "balanced_accuracy": 1 / 3, "auc": 0.5, "macro_f1": 2 * 48 / (48 + 84) / 3}
    )


# --- several labels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_scores_of_labels_are_those_of_scikit_learn(seed: int):
    torch.manual_seed(seed)
    probabilities, targets = torch.rand(40, 5).double(), torch.rand(40, 5) < torch.tensor([0.1, 0.3, 0.5, 0.9, 0.5])
    found, predicted = label_scores(probabilities, targets), (probabilities > 0.5).numpy()
    actual = targets.numpy()
    assert found == pytest.approx(
        {
            "micro_f1": f1_score(actual, predicted, average="micro"),
            "macro_f1": f1_score(actual, predicted, average="macro"),
            "exact_match": accuracy_score(actual, predicted),
            "hamming_loss": hamming_loss(actual, predicted),
            "auc": roc_auc_score(actual, probabilities.numpy(), average="macro"),
        }
    )


def test_labels_that_nobody_has_or_everybody_have_no_area():
    targets = torch.tensor([[False, True, True], [False, True, False]])
    found = label_scores(torch.tensor([[0.2, 0.9, 0.7], [0.1, 0.8, 0.6]]), targets)
    assert found == pytest.approx(
        {"micro_f1": 6 / 7, "macro_f1": (1 + 2 / 3) / 2, "exact_match": 0.5, "hamming_loss": 1 / 6, "auc": 1.0}
    )
    nothing = label_scores(torch.zeros(2, 1), torch.zeros(2, 1, dtype=torch.bool))
    assert nothing == {"micro_f1": 0.0, "macro_f1": 0.0, "exact_match": 1.0, "hamming_loss": 0.0}


def test_baselines_do_not_depend_on_the_size_of_all_weights_together():
    random = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=random)
    targets = (x[:, 0] > 0.6).long()
    schema = Schema(kind="table", shape=(3,), classes=("a", "b"))
    parts = [
        Examples(x, targets, schema, "rows", weights)
        for weights in (torch.ones(200), torch.full((200,), 5e-4), torch.full((200,), 2e3))
    ]
    plain, *others = (
        baselines(Splits(part, part.take(torch.arange(0)), Examples(x, targets, schema, "rows"))) for part in parts
    )
    for other in others:
        assert other[0].metrics == pytest.approx(plain[0].metrics, rel=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_least_squares_predicts_as_scikit_learn_does_also_where_columns_repeat(weighted: bool):
    x, y = cast(tuple[np.ndarray, np.ndarray], load_diabetes(return_X_y=True))
    x = np.concatenate([x, x[:, :2]], 1)
    weights = np.random.default_rng(0).uniform(0.1, 2, len(x)) if weighted else None
    theirs = LinearRegression().fit(x[:300], y[:300], None if weights is None else weights[:300])
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)[:, None]
    ours = least_squares(inputs[:300], targets[:300], None if weights is None else weights[:300])
    torch.testing.assert_close(ours(inputs)[:, 0], torch.from_numpy(theirs.predict(x)), rtol=1e-6, atol=1e-6)
