"""Every activation with its slope, and what it does in practice."""

from pathlib import Path

import pytest
import torch

import neuropil
from neuropil.errors import InputError
from neuropil.inspection.report.page import Table
from neuropil.parts.activations import ACTIVATIONS
from neuropil.recipes.activations import ActivationsOptions, build
from neuropil.tasks.study import Study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = build(ActivationsOptions(hidden_sizes=(8,), epochs=1, repeats=1), seed=0)
    study.train(tmp_path_factory.mktemp("activations"), show_progress=False)
    return study


def tables(study: Study) -> dict[str, Table]:
    """By the title of their section, the last of each."""
    return {
        section.title: block
        for section in study.findings.sections
        for block in section.blocks
        if isinstance(block, Table)
    }


def test_ranges_and_slopes_are_those_of_the_textbook(study: Study):
    rows = {row[0]: row[1:] for row in tables(study)["Each activation and its slope"].rows}
    assert set(rows) == set(ACTIVATIONS)
    assert rows["logistic"] == ["0.000", "1.000", "0.250", "0.0177", "9.5e-07"]
    assert rows["tanh"] == ["−1.000", "1.000", "1.000", "0.0013", "1"]
    assert rows["arctan"] == ["−1.571", "1.571", "1.000", "0.0588", "1"]
    assert rows["relu"] == ["0.000", "∞", "1.000", "1.0000", "1"]
    assert rows["identity"] == ["−∞", "∞", "1.000", "1.0000", "1"]
    z = torch.linspace(-4, 4, 100_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(torch.nn.functional.gelu(z).sum(), z)
    assert rows["gelu"][:3] == [f"{torch.nn.functional.gelu(z).min():.3f}".replace("-", "−"), "∞", f"{slope.max():.3f}"]


def test_the_slopes_of_softmax_take_from_others_what_they_give(study: Study):
    rows = tables(study)["Softmax and argmax"].rows
    slopes = torch.tensor([[float(cell) for cell in row[1:]] for row in rows])
    assert torch.equal(slopes, slopes.T)
    assert (slopes.diagonal() >= 0).all()
    assert ((slopes - slopes.diag().diag()) <= 0).all()


def test_every_activation_is_trained_and_stands_beside_a_linear_model(study: Study):
    names = [result.name for result in study.evaluate()]
    assert names[:2] == ["relu units", "logistic regression"]
    assert {f"{name} units" for name in ACTIVATIONS} <= set(names)


def test_a_network_without_hidden_layers_has_no_activation_to_study():
    with pytest.raises(InputError) as error:
        ActivationsOptions(hidden_sizes=())
    assert (
        str(error.value)
        == "activations sit in hidden layers, but got hidden_sizes without any: give --hidden-sizes at least one layer."
    )


@pytest.mark.slow
def test_with_its_defaults_an_activation_beats_a_linear_model_and_the_slope_matters(tmp_path: Path):
    run = neuropil.train("activations", out=tmp_path / "run", show_progress=False)
    accuracy = {result.name: result.metrics["accuracy"] for result in run.results}
    assert accuracy["relu units"] > accuracy["logistic regression"] > accuracy["logistic units"]
    assert accuracy["relu units"] > accuracy["identity units"] + 0.005
    assert accuracy["threshold units"] > 0.94, "the surrogate slope is enough to learn by"
