"""Why batch normalisation helps: what is trained and measured, and the test scores at the best learning rates."""

from pathlib import Path

import pytest
import torch

from neuropil.data.examples.files import DataConfig
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.inspection.report.page import Table
from neuropil.parts.objectives import Classification
from neuropil.recipes.batch_norm import BatchNormOptions, RateTrial, best_rate, build, unequal_scales
from neuropil.tasks.study import Study, prepare_classes


@pytest.fixture(scope="module")
def digit_parts() -> Splits:
    return prepare_classes(DataConfig(), seed=0)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = build(BatchNormOptions(width=16, epochs=2, rates=(0.003, 0.3)), seed=0)
    study.train(tmp_path_factory.mktemp("batch_norm"), show_progress=False)
    return study


def scales_table(study: Study) -> Table:
    (section,) = [section for section in study.findings.sections if section.title == "Why batch norm: unequal scales"]
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    return table


def test_the_rows_of_features_are_the_examples_times_one_factor_each(digit_parts: Splits):
    scaled, (least, most) = unequal_scales(digit_parts, seed=0)
    assert 0.1 <= least < 0.15
    assert 7 < most <= 10
    ratio = scaled.train.inputs / digit_parts.train.inputs.flatten(1)
    assert torch.allclose(ratio.nanmedian(0).values.nan_to_num(1.0).min(), torch.tensor(least / 255), rtol=0.05)
    assert torch.equal(scaled.test.targets, digit_parts.test.targets)


def test_the_learning_rate_is_that_of_the_lowest_validation_loss_at_the_end():
    learner = Classification(torch.nn.Identity())
    losses = {0.1: [0.2, 0.9], 0.3: [2.0, 0.5], 1.0: []}
    assert best_rate({rate: RateTrial(each, learner) for rate, each in losses.items()}) == 0.3


def test_results_are_those_of_the_three_networks_beside_a_linear_one(study: Study):
    results = study.evaluate()
    names = ["batch norm of the inputs too", "no batch norm", "batch norm of hidden layers", "logistic regression"]
    assert [result.name for result in results] == names
    # At the smaller learning rate alone, all three networks are at chance after two epochs.
    assert results[0].metrics["accuracy"] > 0.7
    assert all(len(row) == 3 for row in scales_table(study).rows)


def test_no_learning_rate_at_all_is_refused():
    with pytest.raises(InputError) as refusal:
        BatchNormOptions(rates=())
    assert str(refusal.value) == "batch normalisation is compared at one learning rate or more, but got none."


@pytest.mark.slow
def test_with_its_defaults_batch_norm_learns_at_more_learning_rates(tmp_path: Path):
    study = build(BatchNormOptions(), seed=0)
    study.train(tmp_path, show_progress=False)
    rows = {row[0]: [float(str(loss)) for loss in row[1:] if loss != "–"] for row in scales_table(study).rows}
    lowest = min(min(losses) for losses in rows.values())
    usable = {name: sum(loss <= 2 * lowest for loss in losses) for name, losses in rows.items()}
    assert usable["batch norm of the inputs too"] > usable["no batch norm"]
