import numpy as np
import pytest
import torch

from neuropil import recipes
from neuropil.adversarial.defences import DefendedLearner
from neuropil.data.formats.memory import in_memory
from neuropil.parts.standardize import Standardize
from neuropil.recipes import mlp
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.training.evaluation import evaluate


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
