"""What a time limit chooses, from speeds that are told here, and once from those of this machine."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import neuropil
from neuropil import recipes
from neuropil.cli import main
from neuropil.recipes.gpt2 import GPT2Options
from neuropil.tasks import time_limit
from neuropil.tasks.time_limit import Candidate, Ladder, Size, fit_to_minutes

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
) -> GPT2Options:
    """Updates take as many times longer as a model is wider than 32."""

    def measure(options: GPT2Options, build: object, most_seconds: float) -> Candidate[GPT2Options]:
        speed = seconds_per_update * options.model.width / 32
        return Candidate(options, build_seconds, speed, updates_per_pass, evaluation_seconds, scoring_seconds)

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


def test_the_choice_is_one_sentence(monkeypatch):
    assert fit(monkeypatch, {}).training.fitted == (
        "Chosen for 1 minutes on this machine: width 64, batch size 8, dropout 0.0; at 0.02 seconds an update that "
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
    assert training["fitted"] in capsys.readouterr().err
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
