import torch

from inspection.products.traceable import build
from neuropil.inspection.products import trace
from neuropil.models.mlp import MLP


def test_the_stages_are_those_of_the_equations():
    model, given = build("deep mlp")
    stages = trace(model, given).stages
    assert list(stages) == [
        "input",
        "standardize",
        "hidden.0",
        "norms.0",
        "hidden.0.softplus",
        "hidden.1",
        "norms.1",
        "hidden.1.softplus",
        "hidden.1.sum",
        "output",
        "probabilities",
    ]
    assert isinstance(model, MLP)
    model.eval()
    h = torch.nn.functional.softplus(model.norms[0](model.hidden[0](model.standardize(given[0]).flatten(1))))
    torch.testing.assert_close(stages["hidden.0.softplus"].values, h[0])


def test_numbers_in_the_units_of_the_targets_come_last():
    model, given = build("rescaled mlp")
    stages = trace(model, given, "identity").stages
    assert list(stages)[-2:] == ["output", "outputs"]
    assert stages["outputs"].values.mean() > 50 > stages["output"].values.abs().max()
