import pytest
import torch

from neuropil import recipes
from neuropil.parts.standardize import Standardize
from neuropil.tasks.classification.experiment import ClassificationExperiment


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
