"""Predictive coding as a user meets it: one network that classifies, generates and completes, beside
back-propagation."""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import neuropil
from neuropil.data.examples.batches import ExampleBatches, RepeatedBatches
from neuropil.data.examples.embedded import load_digits
from neuropil.errors import InputError
from neuropil.inspection.report.page import Table, Text
from neuropil.inspection.report.predictive_coding import error_nodes_section
from neuropil.models.predictive_coding.network import PredictiveCoding, PredictiveCodingConfig
from neuropil.models.predictive_coding.settled_energy import SettledEnergy
from neuropil.protocols import Batch
from neuropil.recipes.predictive_coding import PredictiveCodingOptions, build
from neuropil.runs.pages.gradients import write_gradients
from neuropil.runs.run import Run
from neuropil.sampling.predictive_coding import LayerNoise
from neuropil.tasks.generation.predictive_coding import GenerativeClassifier
from neuropil.training.config import TrainingConfig
from neuropil.training.history import read_history
from neuropil.training.loop import fit
from neuropil.training.weights import read_tensors
from real_data import diabetes

SMALL: dict[str, Any] = {"hidden_sizes": (16, 16), "epochs": 1, "classifier_updates": 40}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return neuropil.train("predictive_coding", out=tmp_path_factory.mktemp("pc") / "run", show_progress=False, **SMALL)


def test_it_stands_beside_logistic_regression_and_backpropagation_on_the_same_layers(run: Run):
    own, *others = run.results
    assert own.name == "predictive_coding"
    names = {"back-propagation, the same layers", "logistic regression", "always the most frequent class"}
    assert {result.name for result in others} == names


def test_the_strongest_of_them_comes_first(run: Run):
    accuracies = [result.metrics["accuracy"] for result in run.results[1:]]
    assert accuracies == sorted(accuracies, reverse=True)


def test_it_comes_back_and_its_held_out_score_is_that_of_the_run(run: Run):
    pictures = load_digits().inputs[:5]
    assert torch.equal(neuropil.load(run.folder).predict(pictures).scores, run.predict(pictures).scores)
    assert run.evaluate() == run.metrics
    assert len(run.predict(pictures).labels) == 5


def test_its_gradients_can_be_inspected(run: Run):
    path, sentences = write_gradients(run)
    assert path.exists()
    assert sentences
    assert "up.0" in path.read_text()


def test_the_report_shows_what_it_settles_generates_and_completes(run: Run):
    drawn = re.findall(r'<svg role="img" aria-label="([^"]*)"', run.report.read_text())
    assert drawn == [
        "loss and metrics against training steps",
        "confusion matrix of the test part",
        "energy while the network settles",
        "gradient of the energy while states and error nodes settle",
        "cosine between the changes of weights of each layer",
        "a generated picture for each class",
        "covered pictures, completed, and as they were",
    ]


def test_samples_are_those_of_the_class_that_is_asked_for_and_of_the_seed(run: Run):
    samples = run.sample(300, seed=1, label="0")
    assert samples.names == ("0",) * 300
    assert torch.equal(neuropil.load(run.folder).sample(300, seed=1, label="0").values, samples.values)
    assert samples.values.float().std(0).mean() > 5  # they differ
    assert len(run.sample(3)) == 3


def test_a_sample_without_noise_is_the_downward_sweep_from_its_class(run: Run):
    model, predictor = run.model, run.predictor
    assert isinstance(model, PredictiveCoding)
    assert isinstance(predictor, GenerativeClassifier)
    silent = [LayerNoise(torch.zeros_like(each.mean), torch.zeros_like(each.root)) for each in predictor.noise]
    found = dataclasses.replace(predictor, noise=silent).sample(2, label="7").values
    swept = model.decode(model.begin(None, model.encode_target(torch.tensor([7, 7])))[0])
    torch.testing.assert_close(found.float(), swept.detach().round().clamp(0, 255))


def test_the_report_scores_samples_as_those_of_generative_models_are(run: Run):
    table = run.report.read_text().split("Memorised are samples")[1].split("<table")[1].split("</table>")[0]
    header, *rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr")[1:]]
    names = ["Fréchet distance", "precision", "recall", "class coverage", "class accuracy", "memorised"]
    assert header == ["", *names]
    assert [row[0] for row in rows] == [
        "samples",
        "what it expects of each class",
        "a Gaussian fitted to the data",
        "real examples, held out",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["up", "down"])
def test_predictions_may_go_one_way_only(tmp_path: Path, direction: str):
    run = neuropil.train("predictive_coding", out=tmp_path / "run", show_progress=False, direction=direction, **SMALL)
    model = run.model
    assert isinstance(model, PredictiveCoding)
    assert (len(model.up), len(model.down)) == ((3, 0) if direction == "up" else (0, 3))
    assert run.report.exists()
    if direction == "up":
        with pytest.raises(InputError) as caught:
            run.sample(3)
        assert str(caught.value) == (
            "predictive coding makes examples by predictions that go down, but got direction='up': "
            "train it with direction='both'."
        )


@pytest.mark.slow
def test_a_table_of_numbers_is_learned_and_generated(tmp_path: Path):
    names, features, target = diabetes()
    rows = np.column_stack([features, target])
    np.savetxt(tmp_path / "d.csv", rows, delimiter=",", header=",".join([*names, "progress"]), comments="")
    options = PredictiveCodingOptions().override(
        data=tmp_path / "d.csv", target="progress", hidden_sizes=(16,), epochs=2
    )
    experiment = build(options, seed=0)
    experiment.train(tmp_path / "run", show_progress=False)
    own, linear, *_ = experiment.evaluate()
    assert set(own.metrics) == {"loss", "squared_error", "absolute_error", "r2"}
    assert linear.name == "linear regression"
    sections = {
        section.title: section.blocks
        for section in experiment.sections(read_history(tmp_path / "run" / "metrics.jsonl"))
    }
    (table,) = (block for block in sections["What it generates"] if isinstance(block, Table))
    assert [row[0] for row in table.rows] == names
    assert len(table.header) == 6
    (scored,) = (block for block in sections["How samples are scored"] if isinstance(block, Table))
    assert scored.header == ["", "Fréchet distance", "precision", "recall", "memorised"]
    assert [row[0] for row in scored.rows] == ["samples", "a Gaussian fitted to the data", "real examples, held out"]


def test_another_number_format_is_refused():
    with pytest.raises(InputError) as error:
        build(PredictiveCodingOptions().override(precision="bfloat16"), seed=0)
    assert str(error.value) == "predictive coding settles in float32, but got precision='bfloat16': leave it out."


# --- incremental ------------------------------------------------------------------------------------------------------


def test_each_batch_lingers_for_its_visits_from_wherever_an_epoch_goes_on():
    batches = RepeatedBatches(ExampleBatches(load_digits(), 400, seed=0, shuffle=True), 3)
    whole = list(batches.epoch(1))
    assert len(whole) == len(batches) == 15
    assert [int(batch["visit"][0]) for batch in whole] == [0, 1, 2] * 5
    assert torch.equal(whole[3]["input"], whole[5]["input"])
    assert not torch.equal(whole[2]["input"], whole[3]["input"])
    for start in (0, 4, 6, 14):
        rest = list(batches.epoch(1, start))
        assert len(rest) == 15 - start
        assert all(torch.equal(a[name], b[name]) for a, b in zip(rest, whole[start:], strict=True) for name in a)


class Breaking(RepeatedBatches):
    """Ends in the middle of a batch's visits, as a power cut would."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        yield from itertools.islice(super().epoch(number, start), 5)
        raise RuntimeError("the power is cut")


def test_incremental_learning_goes_on_between_two_visits_of_a_batch(tmp_path: Path):
    training = TrainingConfig(epochs=1, checkpoint_seconds=0.0)
    examples = ExampleBatches(load_digits(), 400, seed=0, shuffle=True)

    def learner() -> SettledEnergy:
        torch.manual_seed(0)
        return SettledEnergy(PredictiveCoding(PredictiveCodingConfig(hidden_sizes=(8,))))

    fit(learner(), RepeatedBatches(examples, 3), None, training, seed=0, folder=tmp_path / "whole", show_progress=False)
    with pytest.raises(RuntimeError, match="the power is cut"):
        fit(learner(), Breaking(examples, 3), None, training, seed=0, folder=tmp_path / "cut", show_progress=False)
    fit(learner(), RepeatedBatches(examples, 3), None, training, seed=0, folder=tmp_path / "cut", show_progress=False)
    first, second = (read_tensors(tmp_path / name / "model.safetensors")[0] for name in ("whole", "cut"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_incremental_learning_is_an_option(tmp_path: Path):
    run = neuropil.train(
        "predictive_coding", out=tmp_path / "run", report=False, show_progress=False, incremental=True, steps=3, **SMALL
    )
    updates = max(row["step"] for row in run.rows)
    assert updates == 3 * len(run.experiment().batches("train"))  # type: ignore[attr-defined]


# --- what it learns ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_reads_digits_and_makes_some_that_another_classifier_reads(tmp_path: Path):
    run = neuropil.train("predictive_coding", out=tmp_path / "run", show_progress=False)
    assert run.metrics["accuracy"] >= 0.96
    digits = load_digits()
    other = LogisticRegression(max_iter=2000).fit(digits.inputs.flatten(1) / 255, digits.targets)
    made = [run.sample(50, seed=1, label=str(label)).values.flatten(1) / 255 for label in range(10)]
    right = np.mean([other.predict(each.numpy()) == label for label, each in enumerate(made)])
    assert right > 0.4  # chance is 0.1


def test_the_report_says_how_long_error_nodes_of_each_time_constant_take(tmp_path: Path):
    experiment = build(PredictiveCodingOptions().override(hidden_sizes=(16,), error_tau=2.0), seed=0)
    model = experiment.model
    assert isinstance(model, PredictiveCoding)
    section = error_nodes_section(model, experiment.splits.test.take(torch.arange(8)))
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    (words,) = (block.text for block in section.blocks if isinstance(block, Text))
    assert [row[0] for row in table.rows] == ["0", "1", "3", "10", "30"]
    for tau, *_, steps, _ in table.rows[1:]:
        assert f"{'more than 400' if steps == '–' else steps} with τ = {tau}" in words
    assert float(str(table.rows[2][1])) == pytest.approx(1 - np.exp(-1 / 3), abs=1e-3)  # c for ν = 1
    assert model.config.error_tau == 2.0
