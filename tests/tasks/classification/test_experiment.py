from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

import neuropil
from neuropil import recipes
from neuropil.adversarial.defences import DefendedLearner
from neuropil.data.formats.memory import in_memory
from neuropil.errors import InputError
from neuropil.parts.standardize import Standardize
from neuropil.recipes import mlp
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.training.evaluation import evaluate
from real_data import diabetes, digits


@pytest.mark.parametrize("name", ["mlp", "cnn", "vit", "predictive_coding"])
def test_standardisation_is_fitted_to_the_training_part_alone(name: str):
    recipe = recipes.recipe(name)
    experiment = recipe.build(recipe.options, 0)
    assert isinstance(experiment, ClassificationExperiment)
    (own,) = [module for name, module in experiment.model.named_modules() if name.endswith("standardize")]
    assert isinstance(own, Standardize)
    splits = experiment.splits
    trained, tested = (Standardize(own.shape).fit(part.inputs) for part in (splits.train, splits.test))
    assert torch.equal(own.mean, trained.mean)
    assert torch.equal(own.std, trained.std)
    assert not torch.equal(own.mean, tested.mean)


def test_a_defence_sees_the_range_of_the_training_part_alone():
    """Rows that are held out lie far beyond it, and are attacked all the same."""
    rows = torch.rand(60, 3, generator=torch.Generator().manual_seed(0)).double().numpy()
    labels = np.where(rows[:, 0] > 0.5, "high", "low")
    parts = {"train": (rows, labels), "validation": (100 - rows, labels), "test": (-100 + rows, labels)}
    options = mlp.OWN_DATA.override(
        data=in_memory(parts, parts=True), hidden_sizes=(4,), defence="adversarial", eps=0.2
    )
    experiment = mlp.build(options, 0)
    learner, train = experiment.learner, experiment.splits.train.inputs
    assert isinstance(learner, DefendedLearner)
    low, high = (torch.as_tensor(end) for end in (learner.threat.low, learner.threat.high))
    assert torch.equal(low, train.amin(0))
    assert torch.equal(high, train.amax(0))
    assert evaluate(learner, experiment.batches("validation"))["robust_accuracy"] >= 0
    assert experiment.robustness is not None
    assert experiment.robustness.risks(experiment.model)["robust_risk"] >= 0


# --- weights --------------------------------------------------------------------------------------------------------

IMAGES, LABELS = (part[:300] for part in digits())
ROWS = IMAGES.reshape(300, 64) / 255


def experiment_of(data: Any, **options: Any) -> ClassificationExperiment:
    recipe = recipes.recipe("mlp")
    given = {"hidden_sizes": (16,), "dropout": 0.0, "epochs": 2, "keep": "last", **options}
    found = recipe.build(recipe.defaults(own_data=True).override(data=in_memory(data, parts=True), **given), 0)
    assert isinstance(found, ClassificationExperiment)
    return found


def trained(experiment: ClassificationExperiment, folder: Path) -> dict[str, torch.Tensor]:
    folder.mkdir()
    experiment.train(folder, show_progress=False)
    return dict(experiment.model.state_dict())


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_weight_of_zero_is_leaving_the_example_out_in_a_whole_run(tmp_path: Path, task: str):
    x, y = (ROWS, LABELS) if task == "classification" else diabetes()[1:]
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    weighted = experiment_of((x, y, weights), task=task)
    without = experiment_of((x[weights > 0], y[weights > 0]), task=task)
    assert torch.equal(weighted.splits.train.inputs, without.splits.train.inputs)
    pair = trained(weighted, tmp_path / "weighted"), trained(without, tmp_path / "without")
    torch.testing.assert_close(*pair, rtol=1e-3, atol=1e-5)
    left_out = (weights == 0).sum()
    assert f"{left_out} of {len(y)} examples have a weight of 0 and are left out (first: arrays in memory[0])." in (
        weighted.notes
    )


def test_weights_change_what_is_learned_and_which_weights_are_kept_but_not_how_the_test_part_is_scored():
    weights = np.where(LABELS < 5, 4.0, 0.5)
    experiment = experiment_of((ROWS, LABELS, weights))
    train, validation, test = (next(experiment.batches(part).epoch(0)) for part in ("train", "validation", "test"))
    for batch in (train, validation):
        names = torch.tensor([int(experiment.schema.classes[int(target)]) for target in batch["target"]])
        assert torch.equal(batch["weight"], torch.where(names < 5, 4.0, 0.5))
    assert "weight" not in test
    loss = experiment.learner.phases()[0].loss(train).item()
    logits = experiment.model(train["input"]).detach()
    losses = torch.nn.functional.cross_entropy(logits, train["target"], reduction="none")
    assert loss == pytest.approx(float((losses * train["weight"]).sum() / train["weight"].sum()), rel=1e-5)
    count = len(experiment.splits.train)
    assert f"{count} examples count as" in " ".join(experiment.notes)


def test_balanced_class_weights_are_those_of_scikit_learn_and_multiply_weights_of_examples():
    some = np.concatenate([np.flatnonzero(LABELS == 0), np.flatnonzero(LABELS == 1)[:10], np.flatnonzero(LABELS == 2)])
    x, y = ROWS[some], LABELS[some]
    plain = experiment_of((x, y), class_weights="balanced").splits
    expected = compute_class_weight("balanced", classes=np.arange(3), y=plain.train.targets.numpy())
    assert plain.train.weights is not None
    assert plain.train.weights.numpy() == pytest.approx(expected[plain.train.targets.numpy()])
    both = experiment_of((x, y, np.full(len(y), 3.0)), class_weights="balanced").splits
    torch.testing.assert_close(both.train.weights, 3 * plain.train.weights)
    assert plain.test.weights is None


def test_class_weights_are_for_classes():
    x, y = diabetes()[1:]
    with pytest.raises(InputError) as error:
        neuropil.train("mlp", data=(x, y), class_weights=["balanced"], show_progress=False)
    assert str(error.value) == "--class-weights has no effect on a regression: leave it out."


def test_trades_has_no_weights():
    with pytest.raises(InputError) as error:
        neuropil.train("mlp", data=(ROWS, LABELS, np.ones(300)), defence="trades", show_progress=False)
    rule = "the loss of TRADES counts every example the same, but got weights: take --defence adversarial."
    assert str(error.value) == rule


def test_predictive_coding_learns_from_weighted_examples_as_from_copies():
    recipe = recipes.recipe("predictive_coding")
    options = recipe.defaults(own_data=True).override(data=in_memory((ROWS, LABELS)), hidden_sizes=(12,))
    experiment = recipe.build(options, 0)
    assert isinstance(experiment, ClassificationExperiment)
    batch = next(experiment.batches("validation").epoch(0))
    counts = torch.arange(len(batch["target"])) % 4  # not 1 on average
    copies = {name: values.repeat_interleave(counts, 0) for name, values in batch.items()}
    gradients = []
    for each in ({**batch, "weight": counts.float()}, copies):
        loss = experiment.learner.phases()[0].loss(each)
        gradients.append([loss, *torch.autograd.grad(loss, list(experiment.model.parameters()))])
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


def test_a_class_without_weight_is_no_class():
    names = np.where(LABELS < 3, "a", np.where(LABELS < 6, "b", "c"))
    for left_out, classes in (("b", ("a", "c")), ("c", ("a", "b"))):
        splits = experiment_of((ROWS, names, np.where(names == left_out, 0.0, 1.0))).splits
        assert splits.train.schema.classes == classes


# --- several labels -------------------------------------------------------------------------------------------------


def digit_labels() -> np.ndarray:
    """Even, above four, and of closed loops."""
    return np.stack([LABELS % 2 == 0, LABELS > 4, np.isin(LABELS, (0, 6, 8, 9))], 1).astype(int)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_several_labels_are_learned_scored_and_predicted(tmp_path: Path, name: str):
    frame = pd.DataFrame(digit_labels(), columns=["even", "large", "loops"])
    data = (IMAGES, frame) if name == "cnn" else (ROWS, frame)
    run = neuropil.train(
        name, data=data, epochs=6, learning_rate=3e-3, out=tmp_path / "run", show_progress=False, report=name == "cnn"
    )
    metrics, rows = run.metrics, [row for row in run.rows if row["kind"] == "result"]
    assert [row["name"] for row in rows[1:]] == [
        "one-vs-rest logistic regression",
        "always the labels of most examples",
    ]
    assert metrics["micro_f1"] > rows[2]["micro_f1"] + 0.1
    assert {"exact_match", "hamming_loss", "macro_f1", "auc", "loss"} < metrics.keys()
    found = neuropil.load(tmp_path / "run").predict(data[0][:5])
    assert found.names == ("even", "large", "loops")
    for record, line, labels in zip(found.records(), found.lines(), found.labels, strict=True):
        above = {each for each, score in record["probabilities"].items() if score > 0.5}
        assert set(record["labels"]) == set(labels) == above
        ranked = sorted(labels, key=lambda each: -record["probabilities"][each])
        assert [cell.split()[0] for cell in line] == (ranked or ["none"])
    scores = run.evaluate(data, notify=lambda _: None)
    assert scores["exact_match"] > 0.4
    if name == "cnn":
        assert "All labels are right for" in run.report.read_text()


def test_what_does_not_suit_several_labels_is_refused():
    data = (ROWS, digit_labels())
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("mlp", {"class_weights": "balanced"}, "--class-weights has no effect on several labels: leave it out."),
        ("mlp", {"defence": "adversarial"}, "an attack changes which class is predicted"),
        ("predictive_coding", {}, "predictive coding learns one answer for each example"),
        ("spiking_classifier", {}, "the spiking classifier learns classes"),
    ]
    for name, options, message in cases:
        with pytest.raises(InputError) as error:
            neuropil.train(name, data=data, show_progress=False, **options)
        assert str(error.value).startswith(message)
