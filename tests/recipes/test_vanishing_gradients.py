"""Gradients through depth and time, against the factors that mathematics gives."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import neuropil
from neuropil.data.examples.embedded import load_digits
from neuropil.inspection.gradients import profile_gradients, profile_time
from neuropil.inspection.report.page import Table
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.recipes.vanishing_gradients import (
    OPEN,
    VanishingGradientsOptions,
    build,
    compare_by_hand,
    in_time,
    open_lstm,
    rotating_rnn,
    set_biases,
)
from neuropil.tasks.study import Study, new_mlp

DEPTH = 8


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = build(VanishingGradientsOptions(depth=DEPTH, width=48, epochs=1, stretch=3.0), seed=0)
    study.train(tmp_path_factory.mktemp("vanishing"), show_progress=False)
    return study


def kept(study: Study) -> dict[str, float]:
    return {
        result.name: result.metrics["gradient_kept"] for result in study.evaluate() if "gradient_kept" in result.metrics
    }


def test_logistic_layers_leave_a_little_less_than_a_quarter_each(study: Study):
    assert 0.25**DEPTH / 10 < kept(study)["logistic"] < 0.25**DEPTH * 2


@pytest.mark.parametrize("remedy", ["tanh", "ReLU", "logistic, batch norm", "logistic, residual"])
def test_every_remedy_brings_the_gradient_through(study: Study, remedy: str):
    assert 0.05 < kept(study)[remedy] < 20


def test_stretched_weights_make_it_explode_and_only_clipping_survives_that(study: Study):
    assert kept(study)["ReLU, large weights"] > 100
    (fates,) = [block for block in study.findings.sections[2].blocks if isinstance(block, Table)]
    assert {row[0]: row[4] for row in fates.rows if "ReLU, large" in str(row[0]) or "clipped" in str(row[0])} == {
        "ReLU, large weights": "diverged",
        "the same, clipped": "finished",
    }


def test_the_diagnosis_says_what_it_sees(study: Study):
    (table,) = [block for block in study.findings.sections[1].blocks if isinstance(block, Table)]
    sentences = {str(row[0]): str(row[1]) for row in table.rows}
    assert "(vanishing)" in sentences["logistic"]
    assert "(exploding)" in sentences["ReLU, large weights"]
    assert not any(
        "ishing" in sentences[name] or "exploding" in sentences[name] for name in ("tanh", "logistic, batch norm")
    )


@pytest.mark.parametrize("options", [{"activation": "logistic"}, {"activation": "relu", "residual": True}])
def test_back_propagation_by_hand_is_that_of_autograd(options: dict[str, Any]):
    digits = load_digits()
    model = new_mlp(digits, 0, hidden_sizes=(12, 12), dropout=0.0, **options)
    layers = compare_by_hand(model, {"input": digits.inputs[:50], "target": digits.targets[:50]})
    assert [layer.name for layer in layers] == ["hidden.0", "hidden.1", "output"]
    assert [layer.shape for layer in layers] == [(12, 64), (12, 12), (10, 12)]
    assert all(layer.difference < 1e-12 < layer.norm for layer in layers)


def test_the_report_has_the_layers_from_the_output_to_the_input(study: Study):
    (section,) = [each for each in study.findings.sections if each.title == "Back-propagation by hand"]
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    names = [row[0] for row in table.rows]
    assert (names[0], names[-1], len(names)) == ("output", "hidden.0", DEPTH + 1)
    errors = [float(row[2]) for row in table.rows]
    assert errors[-1] < 0.25 ** (DEPTH - 1) * errors[0]


def table_of(study: Study, title: str) -> Table:
    (section,) = [section for section in study.findings.sections if section.title == title]
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    return table


def test_the_signal_is_squashed_as_the_gradient_is_and_carried_by_the_same_remedies(study: Study):
    sentences = {str(row[0]): str(row[1]) for row in table_of(study, "The signal at each layer").rows}
    assert "(squashed)" in sentences["logistic"]
    assert "(blown up)" in sentences["ReLU, large weights"]
    for remedy in ("tanh", "ReLU", "logistic, batch norm", "logistic, residual"):
        assert "neither squashed nor blown up" in sentences[remedy]


def test_large_weights_explode_where_biases_centre_the_sums_and_vanish_where_they_saturate(study: Study):
    rows = {int(row[0]): row[1:] for row in table_of(study, "Logistic units with large weights").rows}
    centred, _, _, _, high, saturated = rows[64]
    assert float(str(centred)) > 10
    assert float(str(high)) < 1e-6
    assert saturated == "100 %"
    assert float(str(rows[1][0])) < 1e-3


def test_a_chain_of_centred_logistic_units_passes_a_quarter_of_each_weight():
    """z = 0 in every unit, where the slope is 1/4: the gradient is multiplied by w/4 at each layer."""
    torch.manual_seed(0)
    model = MLP(MLPConfig(hidden_sizes=(1,) * 5, activation="logistic", dropout=0.0, shape=(3,), outputs=2)).double()
    weights = [6.0, -9.0, 5.0, 12.0]
    with torch.no_grad():
        for layer, w in zip(list(model.hidden)[1:], weights, strict=True):
            layer.get_parameter("weight").fill_(w)
    x = torch.randn(1, 3, dtype=torch.double)
    set_biases(model, "centred", 1.0, x)
    norms = [norm for _, norm in profile_gradients(model, lambda: model(x).sum()).flow()]
    last_hidden = norms[-2]
    assert norms[0] / last_hidden == pytest.approx(math.prod(abs(w) / 4 for w in weights))


@pytest.mark.parametrize("w", [0.8, 1.0, 1.2])
def test_a_rotating_rnn_multiplies_the_gradient_by_w_at_each_step(w: float):
    inputs = in_time(load_digits(), 30)
    norms = torch.tensor(profile_time(rotating_rnn(w, inputs.shape[2], seed=0), inputs).norms)
    torch.testing.assert_close(norms / norms[0], w ** torch.arange(30.0), rtol=0.03, atol=0)


def test_an_open_lstm_keeps_what_its_forget_gate_lets_through():
    inputs = in_time(load_digits(), 30)
    norms = torch.tensor(profile_time(open_lstm(inputs.shape[2], seed=0), inputs).norms)
    torch.testing.assert_close(norms / norms[0], torch.tensor(OPEN).sigmoid() ** torch.arange(30.0), rtol=0.01, atol=0)


def test_sequences_are_the_examples_in_their_order():
    digits = load_digits()
    inputs = in_time(digits, 50)
    assert inputs.shape == (len(digits) // 50, 50, 64)
    pixels = digits.inputs.flatten(1).float()
    torch.testing.assert_close(inputs[1, 3] * pixels.std() + pixels.mean(), pixels[53], atol=1e-3, rtol=0)
    assert in_time(digits.take(torch.arange(7)), 50).shape == (1, 7, 64)


@pytest.mark.slow
def test_with_its_defaults_the_deep_logistic_net_learns_nothing_and_the_remedies_do(tmp_path: Path):
    run = neuropil.train("vanishing_gradients", out=tmp_path / "run", show_progress=False)
    accuracy = {result.name: result.metrics["accuracy"] for result in run.results}
    assert accuracy["logistic"] < 0.2
    assert all(accuracy[name] > 0.9 for name in ("tanh", "ReLU", "logistic, batch norm", "logistic, residual"))
    assert accuracy["the same, clipped"] > accuracy["ReLU, large weights"] + 0.3
