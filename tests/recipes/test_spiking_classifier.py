"""The spiking classifier as a user meets it: pictures or rows in, classes out, and a report of what its neurons did."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import neuropil
from neuropil.data.examples.embedded import load_digits
from neuropil.errors import InputError
from neuropil.inspection.report.page import Picture
from neuropil.inspection.report.spiking_classifier import measure
from neuropil.models.spiking.classifier import SpikingClassifier, SpikingClassifierConfig
from neuropil.recipes.spiking_classifier import RECIPE, SpikingClassifierOptions, build
from neuropil.runs.pages.gradients import write_gradients
from neuropil.runs.run import Run
from neuropil.training.history import read_history

SMALL: dict[str, Any] = {"hidden_sizes": (32, 16), "steps": 15, "epochs": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return neuropil.train(
        "spiking_classifier", out=tmp_path_factory.mktemp("spiking") / "run", report=False, show_progress=False, **SMALL
    )


def test_it_comes_back_and_stands_beside_logistic_regression(run: Run):
    pictures = load_digits().inputs[:5]
    assert torch.equal(neuropil.load(run.folder).predict(pictures).scores, run.predict(pictures).scores)
    assert [result.name for result in run.results] == [
        "spiking_classifier",
        "logistic regression",
        "always the most frequent class",
    ]
    assert run.evaluate() == run.metrics


def test_it_scores_and_answers_files(run: Run, tmp_path: Path):
    digits = load_digits()
    np.savez(tmp_path / "d.npz", images=digits.inputs[:40, 0].numpy(), labels=digits.targets[:40].numpy())
    with pytest.warns(UserWarning, match="^29 of 40 examples were in the training part of this run.$"):
        assert {"loss", "accuracy"} <= set(run.evaluate(tmp_path / "d.npz"))
    assert len(run.predict(tmp_path / "d.npz")) == 40


def test_its_gradients_can_be_looked_at(run: Run):
    path, sentences = write_gradients(run)
    assert path.exists()
    assert sentences


@pytest.mark.parametrize(
    ("coding", "readout"), [("current", "membrane"), ("poisson", "membrane"), ("latency", "spikes")]
)
def test_the_report_shows_spikes_voltages_rates_and_time(coding: str, readout: str, tmp_path: Path):
    experiment = build(
        SpikingClassifierOptions().override(coding=coding, readout=readout, **SMALL | {"epochs": 1}), seed=0
    )
    experiment.train(tmp_path, show_progress=False)
    sections = {
        section.title: section.blocks for section in experiment.sections(read_history(tmp_path / "metrics.jsonl"))
    }
    pictures = [
        block.alt
        for title in ("One input through the layers", "Firing rates", "Accuracy over time")
        for block in sections[title]
        if isinstance(block, Picture)
    ]
    assert pictures == [
        "spikes of one input on their way through the layers, and what is read of them",
        "voltages of some neurons of each layer over time",
        "firing rates of each layer for inputs of each class",
        "accuracy against the time for which the network is read",
    ]


def test_what_is_measured_is_what_the_model_does():
    digits = load_digits().take(torch.arange(300))
    torch.manual_seed(0)
    model = SpikingClassifier(SpikingClassifierConfig(hidden_sizes=(30,), steps=12, readout="spikes"))
    model.encode.fit(digits.inputs)
    measured, activity = measure(model, digits), model.activity(digits.inputs)
    torch.testing.assert_close(
        measured.accuracy[-1], (model.eval()(digits.inputs).argmax(-1) == digits.targets).float().mean()
    )
    threes = activity.hidden[0].spikes[:, digits.targets == 3]
    torch.testing.assert_close(measured.rates["layer 1"][3], threes.sum(0).mean(0) / 0.024)
    assert set(measured.rates) == {"layer 1", "output"}


# --- data of the user's -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "coding",
    ["current", pytest.param("poisson", marks=pytest.mark.slow), pytest.param("latency", marks=pytest.mark.slow)],
)
def test_rows_of_a_table_are_told_apart(coding: str, tmp_path: Path):
    generator = np.random.default_rng(0)
    rows = [
        f"{x:.3f},{y:.3f},{'in' if x * x + y * y < 1 else 'out'}" for x, y in generator.uniform(-1.5, 1.5, (600, 2))
    ]
    (tmp_path / "circle.csv").write_text("x,y,where\n" + "\n".join(rows))
    options: dict[str, Any] = {"hidden_sizes": (32,), "epochs": 3, "batch_size": 32, "coding": coding}
    run = neuropil.train(
        "spiking_classifier",
        data=tmp_path / "circle.csv",
        target="where",
        out=tmp_path / "run",
        show_progress=False,
        **options,
    )
    assert run.metrics["accuracy"] > 0.6
    assert run.report.exists()


def test_numbers_are_left_to_the_mlp(tmp_path: Path):
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(f"{i},{i * 0.37:.3f}" for i in range(50)))
    with pytest.raises(InputError) as error:
        build(SpikingClassifierOptions().override(data=tmp_path / "t.csv", target="b", **SMALL), seed=0)
    assert str(error.value) == (
        "the spiking classifier learns classes, but got 50 rows of 1 feature (t.csv): train the mlp on it."
    )


def test_data_of_the_users_get_a_larger_network():
    own, embedded = RECIPE.defaults(own_data=True), RECIPE.defaults(own_data=False)
    assert isinstance(own, SpikingClassifierOptions)
    assert isinstance(embedded, SpikingClassifierOptions)
    assert sum(own.model.hidden_sizes) > sum(embedded.model.hidden_sizes)


@pytest.mark.slow
def test_it_reads_digits(tmp_path: Path):
    run = neuropil.train("spiking_classifier", out=tmp_path / "run", show_progress=False)
    assert run.metrics["accuracy"] >= 0.98
