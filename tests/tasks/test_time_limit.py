"""What a time limit chooses, from speeds that are told here, and once from those of this machine."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neuropil
from neuropil import recipes
from neuropil.cli import main
from neuropil.recipes import mlp, predictive_coding
from neuropil.recipes.gpt2 import GPT2Options
from neuropil.recipes.mlp import MLPOptions
from neuropil.recipes.predictive_coding import PredictiveCodingOptions
from neuropil.recipes.word2vec import Word2VecOptions
from neuropil.tasks import experiment, time_limit
from neuropil.tasks.time_limit import MOST_WORD_PASSES, Candidate, Ladder, Size, fit_to_minutes
from neuropil.training.chunk_loop import ChunkSpeed
from neuropil.training.config import TrainingConfig

LADDER = Ladder(
    sizes=(
        Size({"width": 32, "batch_size": 4}),
        Size({"width": 64, "batch_size": 8}, updates=1_000),
        Size({"width": 128, "batch_size": 8}, updates=5_000),
    ),
    dropout=((0, 0.0), (10, 0.1), (20, 0.2)),
)
TINY = {"width": 16, "layers": 1, "heads": 2, "context": 16, "vocabulary_size": 300, "batch_size": 8}
"""The batch size is the default for data of the user's, and typed all the same."""


def fit(
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    *,
    seconds_per_update: float = 0.01,
    updates_per_pass: int = 10_000,
    build_seconds: float = 0.0,
    evaluation_seconds: float = 0.0,
    scoring_seconds: float = 0.0,
    ablation_share: float = 0.0,
) -> GPT2Options:
    """Updates take as many times longer as a model is wider than 32."""

    def measure(options: GPT2Options, build: object, most_seconds: float, processes: int) -> Candidate[GPT2Options]:
        speed = seconds_per_update * options.model.width / 32
        times = build_seconds, speed, updates_per_pass, evaluation_seconds, scoring_seconds
        return Candidate(options, *times, ablation_share)

    monkeypatch.setattr(time_limit, "measure", measure)
    options = GPT2Options().override(minutes=1.0, **given)
    return fit_to_minutes(options, given, LADDER, lambda options: None, began=time.monotonic())  # type: ignore


@pytest.mark.parametrize(("seconds_per_update", "width"), [(0.1, 32), (0.02, 64), (0.002, 128)])
def test_the_faster_the_machine_the_larger_the_model(monkeypatch, seconds_per_update: float, width: int):
    assert fit(monkeypatch, {}, seconds_per_update=seconds_per_update).model.width == width


@pytest.mark.parametrize(("updates_per_pass", "width"), [(10, 32), (50, 64), (500, 128)])
def test_the_more_data_the_larger_the_model(monkeypatch, updates_per_pass: int, width: int):
    assert fit(monkeypatch, {}, seconds_per_update=0.0001, updates_per_pass=updates_per_pass).model.width == width


@pytest.mark.parametrize(("updates_per_pass", "dropout"), [(10_000, 0.0), (200, 0.1), (90, 0.2)])
def test_what_is_passed_over_often_has_dropout(monkeypatch, updates_per_pass: int, dropout: float):
    assert fit(monkeypatch, {}, updates_per_pass=updates_per_pass).model.dropout == dropout


def test_what_is_given_stays(monkeypatch):
    fitted = fit(monkeypatch, {"width": 48, "dropout": 0.3})
    assert (fitted.model.width, fitted.model.dropout, fitted.training.batch_size) == (48, 0.3, 8)
    assert "width" not in fitted.training.fitted


def test_data_that_takes_long_to_prepare_is_prepared_for_one_size_only(monkeypatch):
    assert fit(monkeypatch, {}, seconds_per_update=0.0001, build_seconds=10.0).model.width == 32


@pytest.mark.parametrize(
    ("build_seconds", "evaluation_seconds", "seconds"), [(1.0, 0.5, 53.0), (2.0, 5.0, 42.0), (10.0, 20.0, 30.0)]
)
def test_preparing_evaluation_and_report_are_in_the_time_and_training_has_half_of_it_at_least(
    monkeypatch, build_seconds: float, evaluation_seconds: float, seconds: float
):
    fitted = fit(monkeypatch, {}, build_seconds=build_seconds, evaluation_seconds=evaluation_seconds)
    assert fitted.training.seconds == pytest.approx(seconds, abs=1)


def test_what_scoring_takes_beside_is_in_the_time_too(monkeypatch):
    fitted = fit(monkeypatch, {}, build_seconds=1.0, evaluation_seconds=0.5, scoring_seconds=10.0)
    assert fitted.training.seconds == pytest.approx(45, abs=1)


def test_a_model_that_is_trained_beside_has_its_share_of_the_time(monkeypatch):
    fitted = fit(monkeypatch, {}, build_seconds=1.0, evaluation_seconds=0.5, ablation_share=0.25)
    assert fitted.training.seconds == pytest.approx(0.75 * 53, abs=1)
    assert fitted.training.ablation_seconds == pytest.approx(0.25 * 53, abs=1)
    assert "about 2,000 updates" in fitted.training.fitted  # 2,700 without it


def test_the_shares_are_those_of_a_pass(monkeypatch):
    """Predictive coding learns from each batch of a pass `steps` times, the network beside it once."""
    speeds = iter([0.02, 0.06])
    monkeypatch.setattr(time_limit, "seconds_per_update", lambda *_, **__: next(speeds))
    options = PredictiveCodingOptions().override(hidden_sizes=(4,), steps=4, incremental=True)
    found = time_limit.measure(options, lambda options: predictive_coding.build(options, 0), 1.0)
    assert found.ablation_share == pytest.approx(0.06 / (0.06 + 4 * 0.02))


@pytest.mark.parametrize("limited", [True, False])
def test_the_model_beside_is_trained_so_long_or_for_as_many_passes(monkeypatch, tmp_path: Path, limited: bool):
    asked: list[TrainingConfig] = []

    def fit(learner: object, batches: object, validation: object, config: TrainingConfig, **_: Any) -> list[Any]:
        asked.append(config)
        return [{"kind": "train", "epoch": 2.4}]

    monkeypatch.setattr(experiment, "fit", fit)
    seconds = {"minutes": 1.0, "seconds": 30.0, "ablation_seconds": 10.0} if limited else {}
    training = dataclasses.replace(TrainingConfig(epochs=3), **seconds)
    options = dataclasses.replace(MLPOptions(), training=training).override(hidden_sizes=(4,), defence="adversarial")
    mlp.build(options, 0).train(tmp_path, show_progress=False)
    own, beside = asked
    assert own.time_limit == (30.0 if limited else None)
    assert (beside.time_limit, beside.epochs) == ((10.0, 3) if limited else (None, 3))


# --- word vectors -----------------------------------------------------------------------------------------------------


class Words:
    """An experiment whose learner has 40 chunks in a pass, each of 10,000 words."""

    def __init__(self, scoring: float = 0.0):
        self.learner, self.scoring = self, scoring

    def __len__(self) -> int:
        return 40

    def metrics(self) -> dict[str, float]:
        return {}

    def scoring_seconds(self) -> float:
        return self.scoring


def passes(monkeypatch: pytest.MonkeyPatch, seconds: float, minutes: float = 1.0, **experiment: float) -> Any:
    speed = ChunkSpeed(seconds, 10_000 / seconds)
    monkeypatch.setattr(time_limit, "measure_chunks", lambda learner, most_seconds: speed)
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: 0.0)  # a busy machine changes nothing
    options: Any = Word2VecOptions().override(minutes=minutes)
    build: Any = lambda options: Words(**experiment)  # noqa: E731
    return fit_to_minutes(options, {}, Ladder(), build, began=0.0).training


def test_word_vectors_have_as_many_passes_as_there_is_time_for(monkeypatch):
    training = passes(monkeypatch, 0.1)
    assert (training.chunks, training.epochs) == (540, 14)
    assert training.fitted == (
        "Chosen for 1 minute on this machine: 13.5 passes over the training data, at about 100,000 words a second; "
        "the learning rate falls from 0.025 to 0.0001 over them."
    )


def test_of_a_large_text_a_part_of_a_pass_is_learned_from(monkeypatch):
    training = passes(monkeypatch, 5.0)
    assert (training.chunks, training.epochs) == (10, 1)


def test_a_small_text_is_not_passed_over_too_often(monkeypatch):
    training = passes(monkeypatch, 0.0001)
    assert training.chunks == 40 * MOST_WORD_PASSES
    assert training.fitted.endswith(" There is time for more, which would be learned by heart.")


def test_what_scoring_words_takes_is_in_the_time_and_training_has_half_of_it_at_least(monkeypatch):
    assert passes(monkeypatch, 0.1, scoring=16.0).chunks == pytest.approx(440, abs=2)
    assert passes(monkeypatch, 0.1, scoring=100.0).chunks == pytest.approx(300, abs=2)


def test_word_vectors_keep_their_choice_and_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    generator = np.random.default_rng(0)
    text = "\n".join(" ".join(generator.choice(["red", "green", "cat", "dog"], 7)) for _ in range(3_000))
    (tmp_path / "text.txt").write_text(text)
    words = ["--data", str(tmp_path / "text.txt"), "--minutes", "0.02", "--width", "4", "--threads", "1"]
    main(["train", "word2vec", *words, "--out", str(tmp_path / "run")])
    run = neuropil.load(tmp_path / "run")
    training = run.options.to_dict()["training"]
    assert capsys.readouterr().err.count(training["fitted"]) == 1
    assert training["fitted"] in run.report.read_text()
    assert run.rows[-4]["step"] == training["chunks"]
    assert run.experiment().facts() == run.settings["facts"]


def test_the_choice_is_one_sentence(monkeypatch):
    assert fit(monkeypatch, {}).training.fitted == (
        "Chosen for 1 minute on this machine: width 64, batch size 8, dropout 0.0; at 0.02 seconds an update that "
        "makes about 2,700 updates, 0.27 passes over the training data."
    )


def test_a_run_keeps_its_choice_and_its_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    main(["train", "gpt2", "--data", str(text), "--minutes", "0.1", "--out", str(tmp_path / "run"), *words])
    run = neuropil.load(tmp_path / "run")
    training = run.options.to_dict()["training"]
    assert (training["minutes"], training["batch_size"], training["optimizer"]) == (0.1, 8, "muon")
    assert 3.0 <= training["seconds"] < 5.4
    assert capsys.readouterr().err.count(training["fitted"]) == 1
    assert training["fitted"] in run.report.read_text()
    assert "muon" not in run.settings["command"]
    assert json.dumps(run.experiment().facts()) == json.dumps(run.settings["facts"])


@pytest.mark.parametrize("name", [system.name for system in recipes.SYSTEMS if system.verb == "train"])
def test_every_size_of_a_recipe_is_one_of_its_options_and_needs_more_updates_than_the_one_before(name: str):
    recipe = recipes.recipe(name)
    for size in recipe.ladder.sizes:
        recipe.defaults(own_data=True).override(**size.options)
    updates = [size.updates for size in recipe.ladder.sizes]
    assert updates == sorted(set(updates))
    assert updates[:1] in ([], [0])
    assert [passes for passes, _ in recipe.ladder.dropout][:1] in ([], [0])
