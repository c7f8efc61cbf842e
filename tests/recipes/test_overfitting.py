"""Overfitting, what regularisation does against it, and how that is measured."""

from pathlib import Path

import numpy as np
import pytest
import torch

import neuropil
from neuropil.data.examples.embedded import load_digits
from neuropil.data.examples.files import DataConfig
from neuropil.errors import InputError
from neuropil.parts.objectives import Classification
from neuropil.recipes.overfitting import (
    BothParts,
    MeasuredOnBoth,
    NoisyExamples,
    OverfittingOptions,
    RegularizedTrial,
    _curves_section,
    _table_section,
    build,
    mislabel,
    regularizations,
)
from neuropil.tasks.study import Study, new_mlp, prepare_parts, score
from neuropil.training.evaluation import evaluate
from real_data import diabetes


def table_of_numbers(folder: Path) -> Path:
    names, features, target = diabetes()
    rows = np.column_stack([features, target])
    path = folder / "diabetes.csv"
    np.savetxt(path, rows, delimiter=",", header=",".join([*names, "progress"]), comments="")
    return path


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = build(
        OverfittingOptions(hidden_sizes=(128,), updates=100, examples=60, batch_size=20, learning_rate=4e-3), seed=0
    )
    study.train(tmp_path_factory.mktemp("overfitting"), show_progress=False)
    return study


def test_one_evaluation_measures_both_parts_as_two_would():
    splits = prepare_parts(DataConfig(), 0)
    learner = Classification(new_mlp(splits.train, 0, hidden_sizes=(8,), dropout=0.5))
    both = evaluate(MeasuredOnBoth(learner), BothParts(splits.train, splits.validation))
    validation, train = score(learner, splits.validation), score(learner, splits.train)
    assert both == pytest.approx(validation | {f"train_{name}": value for name, value in train.items()}, rel=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_share_that_is_asked_for_gets_another_label_and_nothing_else_changes(share: float):
    digits = load_digits()
    labelled = mislabel(digits, share, 0, "train")
    assert labelled.wrong.sum() == round(share * len(digits))
    assert torch.equal(labelled.examples.targets != digits.targets, labelled.wrong)
    assert labelled.examples.targets.max() < 10
    assert torch.equal(labelled.examples.inputs, digits.inputs)


def test_without_regularisation_every_example_is_memorised_wrong_labels_too(study: Study):
    rows = {row[0]: row[1:] for row in study.findings.sections[1].blocks[1].rows}  # type: ignore[union-attr]
    train_loss, validation_loss, gap, _, learned = rows["no regularisation"]
    assert float(str(train_loss)) < 0.1 < float(str(validation_loss))
    assert float(str(gap)) == pytest.approx(float(str(validation_loss)) - float(str(train_loss)), abs=0.002)
    assert learned == "100 %"
    assert float(str(rows["all together"][4]).removesuffix(" %")) < 50


def test_early_stopping_keeps_the_weights_of_the_lowest_validation_loss(study: Study):
    gaps = {result.name: result.metrics["gap"] for result in study.evaluate() if "gap" in result.metrics}
    assert gaps["early stopping"] < gaps["no regularisation"]
    assert gaps["all together"] < gaps["no regularisation"] / 4


def test_the_regularised_network_comes_first_and_the_baseline_second(study: Study):
    names = [result.name for result in study.evaluate()]
    assert names[:2] == ["all together", "no regularisation"]
    assert names[-1] == "logistic regression, 60 examples"


def test_tables_cannot_be_augmented_and_are_not():
    assert list(regularizations(OverfittingOptions(), "table")) == [
        "no regularisation",
        "early stopping",
        "weight decay",
        "dropout",
        "more data",
        "all but more data",
        "all together",
    ]
    assert all(method.augment is None for method in regularizations(OverfittingOptions(), "table").values())


@pytest.mark.slow
def test_own_numbers_can_be_memorised_too(tmp_path: Path):
    options = {
        "data": table_of_numbers(tmp_path),
        "target": "progress",
        "examples": 40,
        "hidden_sizes": (64,),
        "updates": 100,
        "learning_rate": 0.01,
    }
    run = neuropil.train("overfitting", out=tmp_path / "run", show_progress=False, **options)
    results = {result.name: result.metrics for result in run.results}
    assert results["no regularisation"]["gap"] > results["early stopping"]["gap"]
    assert "absolute_error" in results["linear regression, 40 examples"]


def test_numbers_have_no_wrong_classes(tmp_path: Path):
    options = OverfittingOptions(data=DataConfig(data=table_of_numbers(tmp_path), target="progress"), wrong_labels=0.2)
    with pytest.raises(InputError) as error:
        build(options, seed=0)
    assert (
        str(error.value)
        == "wrong_labels needs data with classes, but got 442 rows of 10 features (diabetes.csv): leave it out."
    )


def test_more_examples_than_there_are_cannot_be_few():
    with pytest.raises(InputError) as error:
        build(OverfittingOptions(examples=5000), seed=0)
    assert str(error.value) == "examples must be at most the 1,007 of the training part, but got 5,000."


@pytest.mark.slow
def test_with_its_defaults_every_method_narrows_the_gap_and_all_together_win(tmp_path: Path):
    run = neuropil.train("overfitting", out=tmp_path / "run", show_progress=False)
    regularised = {result.name: result.metrics for result in run.results if "gap" in result.metrics}
    baseline = regularised.pop("no regularisation")
    assert all(metrics["gap"] < baseline["gap"] for metrics in regularised.values())
    assert regularised["all together"]["accuracy"] > baseline["accuracy"] + 0.05


def trial(train_loss: float, losses: list[float], accuracy: float) -> RegularizedTrial:
    rows = [
        {"kind": "validation", "step": step, "loss": loss, "train_loss": 1.0, "epoch": step}
        for step, loss in enumerate(losses, start=1)
    ]
    model = new_mlp(load_digits(), 0, hidden_sizes=(2,))
    return RegularizedTrial(rows, train_loss, losses[-1], {"accuracy": accuracy}, None, model)


@pytest.mark.parametrize(
    ("baseline", "other", "curve", "table"),
    [
        (
            trial(0.1, [2.0, 1.0, 1.5], 0.8),
            trial(0.5, [2.0, 0.9], 0.9),
            "its validation loss falls to 1, then rises to 1.5. The gap between the two is 1.4 at the end: it "
            "overfits.",
            "1 of 1 have a better test accuracy than the baseline, dropout the best.",
        ),
        (
            trial(2.0, [1.0, 1.5, 1.2], 0.8),
            trial(0.5, [2.0, 0.9], 0.7),
            "its validation loss never falls below the first, 1, then rises to 1.2. The gap between the two is -0.8 at "
            "the end: it does not overfit.",
            "None has a better test accuracy than the baseline.",
        ),
    ],
)
def test_the_words_are_made_from_the_numbers(
    baseline: RegularizedTrial, other: RegularizedTrial, curve: str, table: str
):
    trials = {"no regularisation": baseline, "dropout": other}
    few = NoisyExamples(load_digits().take(torch.arange(4)), torch.zeros(4, dtype=torch.bool))
    words = [section.blocks[0].text for section in (_curves_section(trials, few), _table_section(trials))]  # type: ignore[union-attr]
    assert curve in words[0]
    assert table in words[1]
