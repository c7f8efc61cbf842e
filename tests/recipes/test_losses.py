"""Losses against the logit, at large logits, and penalties on the weights."""

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import neuropil
from neuropil.inspection.report.page import Table
from neuropil.parts.losses import frobenius_penalty, l1_penalty
from neuropil.recipes.losses import (
    LossesOptions,
    Penalised,
    PenalisedLoss,
    bernoulli_cross_entropy,
    build,
    squared_error,
)
from neuropil.tasks.study import Study, new_mlp


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = build(LossesOptions(hidden_sizes=(16,), epochs=15), seed=0)
    study.train(tmp_path_factory.mktemp("losses"), show_progress=False)
    return study


def tables(study: Study, title: str) -> list[Table]:
    return [
        block
        for section in study.findings.sections
        if section.title == title
        for block in section.blocks
        if isinstance(block, Table)
    ]


def number(cell: object) -> float:
    return float(str(cell).replace("−", "-").replace("∞", "inf").replace(",", ""))


def test_losses_of_classes_equal_those_of_torch():
    logits, target = torch.randn(20, 7), torch.randint(0, 7, (20,))
    ones = F.one_hot(target, 7).float()
    squares = F.mse_loss(torch.sigmoid(logits), ones, reduction="none").sum(-1) / 2
    torch.testing.assert_close(squared_error(logits, target), squares)
    crosses = F.binary_cross_entropy_with_logits(logits, ones, reduction="none").sum(-1)
    torch.testing.assert_close(bernoulli_cross_entropy(logits, target), crosses)


def test_slopes_by_the_logit_are_the_analytic_ones(study: Study):
    (table,) = tables(study, "The gradient of each loss by the logit")
    for column, cell in enumerate(table.header[1:], start=1):
        z = number(cell.removeprefix("z = "))
        y = 1 / (1 + math.exp(-z))
        one_of_ten = math.exp(z) / (math.exp(z) + 9)
        expected = [(y - 1) * y * (1 - y), y - 1, one_of_ten - 1]
        assert [number(row[column]) for row in table.rows] == pytest.approx(expected, abs=6e-5)


def test_from_logits_is_right_where_the_formula_as_written_breaks(study: Study):
    for table in tables(study, "Why losses take logits"):
        _, as_written, of_softmax, from_logits, exact = zip(*table.rows, strict=True)
        assert from_logits == exact
        assert "nan" in as_written
        assert any(math.isinf(number(cell)) for cell in of_softmax)


def test_the_l1_penalty_leaves_weights_at_zero_and_the_frobenius_penalty_does_not(study: Study):
    shares = {
        result.name: result.metrics["near_zero_share"]
        for result in study.evaluate()
        if "near_zero_share" in result.metrics
    }
    l1 = [share for name, share in shares.items() if "L1" in name]
    frobenius = [share for name, share in shares.items() if "Frobenius" in name]
    assert l1 == sorted(l1), "the stronger, the more"
    assert l1[1] > 4 * frobenius[1]


@pytest.mark.parametrize(("penalty", "norm"), [(l1_penalty, 1), (frobenius_penalty, 2)])
def test_what_is_minimised_is_the_loss_and_the_penalty_on_weights_but_not_on_biases(penalty, norm: int):
    from neuropil.data.examples.embedded import load_digits

    train = load_digits()
    model = new_mlp(train, 0, hidden_sizes=(4,), dropout=0.0)
    batch = {"input": train.inputs[:8], "target": train.targets[:8]}
    weights = torch.cat([model.hidden[0].get_parameter("weight").flatten(), model.output.weight.flatten()])
    expected = F.cross_entropy(model(batch["input"]), batch["target"]) + 0.3 * (weights.abs() ** norm / norm).sum()
    objective = PenalisedLoss(lambda z, t: F.cross_entropy(z, t, reduction="none"), penalty, 0.3)
    torch.testing.assert_close(Penalised(model, objective).loss(batch), expected)


@pytest.mark.slow
def test_with_its_defaults_most_weights_go_and_the_accuracy_stays(tmp_path: Path):
    run = neuropil.train("losses", out=tmp_path / "run", show_progress=False)
    results = {result.name: result.metrics for result in run.results}
    assert results["categorical cross-entropy"]["accuracy"] > results["logistic regression"]["accuracy"]
    sparse = results["with L1 penalty, λ = 0.001"]
    assert sparse["near_zero_share"] > 0.6
    assert sparse["accuracy"] > results["logistic regression"]["accuracy"]
