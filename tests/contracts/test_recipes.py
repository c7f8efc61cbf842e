"""What holds of every system in `neuropil list`: a new one is covered when it is listed and has small options here."""

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neuropil
from neuropil import recipes
from neuropil.cli import main
from neuropil.errors import InputError
from neuropil.metrics import find_metric
from neuropil.ranges import Choices
from neuropil.runs.run import Run
from neuropil.runs.settings import FORMAT
from neuropil.runs.start import rewrite_report
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.training.history import read_history

DATES = {"epochs": 1, "batch_size": 2000, "test": 0.01, "validation": 0.01, "max_tokens": 16}
FEW_TEXTS = {"epochs": 1, "batch_size": 512, "vocabulary_size": 1000, "test": 0.7, "max_tokens": 32}
FEW_SCORED = {"classifier_updates": 20, "scored_samples": 50, "test": 0.8}
SMALL: dict[str, dict[str, Any]] = {
    "autodiff": {"epochs": 1, "pixels": 24},
    "activations": {"hidden_sizes": (8,), "epochs": 1, "repeats": 1},
    "losses": {"hidden_sizes": (8,), "epochs": 1},
    "optimizers": {"steps": 10},
    "overfitting": {"hidden_sizes": (16,), "updates": 10, "examples": 40},
    "vanishing_gradients": {"depth": 3, "width": 8, "epochs": 1, "steps": 5},
    "batch_norm": {"width": 8, "epochs": 1, "rates": (0.1,)},
    "learning_rules": {"hidden_sizes": (8,), "epochs": 1, "tuning_epochs": 1, "batch_size": 500, "pairs": 4},
    "universal_approximation": {"hidden_size": 8, "epochs": 2, "degree": 1},
    "mlp": {"hidden_sizes": (8,), "epochs": 2},
    "cnn": {"width": 4, "epochs": 1},
    "word2vec": {"width": 4, "epochs": 1, "threads": 1, "vocabulary_size": 300},
    "recurrence": {"hidden_size": 8, "steps": 20, "updates": 10},
    "recall_distance": {"distances": (4, 6), "parameters": 400, "updates": 2, "learning_rates": (1e-2,)},
    **{
        name: {"hidden_size": 16, "embedding_size": 8, "epochs": 1, "batch_size": 512}
        for name in ("rnn", "lstm", "gru", "mingru")
    },
    "text_classifier": {"hidden_size": 8, "embedding_size": 8, "bigrams": 64, **FEW_TEXTS},
    "tagger": {"hidden_size": 8, "embedding_size": 8, "epochs": 1, "batch_size": 512},
    "forecaster": {"hidden_size": 4, "epochs": 1},
    "captioner": {"scenes": 60, "width": 4, "hidden_size": 8, "embedding_size": 8, "attention_size": 8, "epochs": 1},
    "tracker": {"films": 40, "width": 4, "features": 8, "hidden_size": 8, "epochs": 1},
    "attention": {"width": 8, "key_width": 8, "epochs": 1},
    "positions": {"width": 8, "layers": 1, "updates": 5, "test": 0.8},
    "heads": {
        "heads": (1, 2),
        "picture_heads": (1, 2),
        "pruned": 2,
        "width": 8,
        "updates": 5,
        "picture_updates": 5,
        "repeats": 1,
        "test": 0.8,
    },
    "gaussian_process": {"updates": 2, "waves": 4},
    "seq2seq": {"hidden_size": 8, "embedding_size": 4, **DATES},
    "transformer": {
        "width": 16,
        "heads": 2,
        "layers": 1,
        "feed_forward": 16,
        **DATES,
    },
    "gpt2": {
        "width": 16,
        "heads": 2,
        "layers": 1,
        "feed_forward": 16,
        "context": 64,
        "vocabulary_size": 400,
        "epochs": 1,
        "batch_size": 256,
    },
    "bert": {
        "width": 16,
        "heads": 2,
        "layers": 1,
        "feed_forward": 16,
        "context": 64,
        "vocabulary_size": 400,
        "epochs": 1,
    },
    "bert_classifier": {
        "width": 16,
        "heads": 2,
        "layers": 1,
        "feed_forward": 16,
        **FEW_TEXTS,
    },
    "vit": {"width": 16, "heads": 2, "layers": 1, "epochs": 1},
    "clip": {
        "scenes": 120,
        "vision_width": 16,
        "vision_heads": 2,
        "vision_layers": 1,
        "text_width": 16,
        "text_heads": 2,
        "text_layers": 1,
        "epochs": 1,
    },
    "autoencoder": {"hidden_sizes": (16,), "latent_size": 2, "epochs": 1},
    "vae": {"hidden_sizes": (16,), "latent_size": 4, "epochs": 1, "importance_samples": 4, **FEW_SCORED},
    "gan": {"width": 4, "latent_size": 4, "epochs": 1, **FEW_SCORED},
    "diffusion": {"channels": (8, 8), "groups": 4, "attention_levels": (1,), "depth": 1, "epochs": 1, **FEW_SCORED},
    "hopfield": {"capacity_units": 30},
    "rbm": {"hidden_size": 16, "epochs": 1, "walks": 4, "annealing_steps": 10, **FEW_SCORED},
    "lif": {"duration": 30.0, "dt": 0.5, "orders": (0, 1)},
    "hodgkin_huxley": {"dt": 0.05, "duration": 40.0},
    "spiking_network": {"duration": 200.0, "settle": 20.0, "dt": 0.5},
    "balanced_network": {"neurons": 500, "duration": 60.0, "settle": 10.0},
    "population": {"duration": 200.0, "repeats": 1},
    "dynamics": {"equations": ("4*y", "-4*x"), "start": (3.0, 0.0), "neurons": 200, "duration": 500.0, "hold": 1500.0},
    "spiking_classifier": {"hidden_sizes": (32, 16), "steps": 10, "epochs": 1},
    "predictive_coding": {"hidden_sizes": (16, 16), "epochs": 1, **FEW_SCORED},
}
SHORTENED: dict[str, dict[str, Any]] = {
    "batch_norm": {"epochs": 3, "rates": (0.03, 0.3)},
    "learning_rules": {"epochs": 2, "tuning_epochs": 1, "batch_size": 128},
    "recurrence": {"updates": 40},
    "recall_distance": {"distances": (4, 8), "parameters": 1_000, "updates": 10},
    **{name: {"updates": 60, "batch_size": 128, "hidden_size": 32} for name in ("rnn", "lstm", "gru", "mingru")},
    "mlp": {"epochs": 5},
    "word2vec": {"threads": 1},
    "cnn": {"epochs": 3},
    "attention": {"epochs": 3},
    "text_classifier": {"epochs": 1, "hidden_size": 16, "embedding_size": 16},
    "tagger": {"epochs": 1, "hidden_size": 16},
    "forecaster": {"updates": 60},
    "positions": {"updates": 60},
    "heads": {"heads": (1, 8), "picture_heads": (1, 8), "updates": 60, "picture_updates": 5, "repeats": 1},
    "seq2seq": {"epochs": 1, "batch_size": 512},
    "transformer": {"epochs": 1, "batch_size": 512},
    "gpt2": {"width": 32, "layers": 1, "updates": 30},
    "bert": {"width": 32, "layers": 1, "updates": 30},
    "bert_classifier": {"width": 32, "layers": 1, "epochs": 1, "batch_size": 256},
    "vit": {"epochs": 3},
    "clip": {"scenes": 1_000, "epochs": 2},
}
"""Systems whose defaults train for longer than a test should."""

KINDS = {"optimizers", "mlp", "forecaster", "gpt2", "lif"}
"""A study, a simulation, and experiments that keep nothing, a calibration or a tokenizer beside the weights: what is
done again is written once for all others."""
NAMES = [system.name for system in recipes.SYSTEMS]
START: dict[str, Callable[..., Run]] = {"train": neuropil.train, "simulate": neuropil.simulate}


@pytest.fixture(scope="module", params=NAMES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    name = request.param
    folder = tmp_path_factory.mktemp(name) / "run"
    return START[recipes.find(name).verb](name, out=folder, seed=3, show_progress=False, **SMALL[name])


def test_every_system_is_covered_here():
    assert set(SMALL) == set(NAMES)


@pytest.mark.parametrize("system", recipes.SYSTEMS, ids=NAMES)
def test_a_system_explains_itself(system: recipes.System):
    assert len(recipes.recipe(system.name).equations) > 200
    assert len(importlib.import_module(f"neuropil.recipes.{system.name}").__doc__ or "") > 60
    assert recipes.recipe(system.name).verb == system.verb


@pytest.mark.parametrize("name", NAMES)
def test_options_survive_config_json(name: str):
    options = recipes.recipe(name).options
    assert type(options).from_dict(json.loads(json.dumps(options.to_dict()))) == options


@pytest.mark.parametrize("name", NAMES)
def test_options_have_one_name_each_and_say_what_they_do(name: str):
    options = recipes.recipe(name).options.options()
    names = [option.name for option in options]
    assert len(set(names)) == len(names)
    assert not {"out", "seed", "show_progress", "report", "trials", "over"} & set(names), (
        "neuropil.train, simulate and tune have arguments of these names"
    )
    assert all(len(option.help) > 5 for option in options)


def test_a_run_ends_with_results_of_its_own_and_of_what_it_is_compared_with(run: Run):
    own, *others = run.results
    assert others
    assert all(result.metrics for result in run.results)
    assert set(own.metrics) & set(others[0].metrics), "the first two are compared, so they share a metric"
    assert all(isinstance(value, float | int) for result in run.results for value in result.metrics.values())


def test_every_metric_of_a_run_is_declared(run: Run):
    written = {name for row in run.rows for name in row} - {"kind", "name", "step", "epoch", "seconds", "limit"}
    assert all(find_metric(name).name == name for name in written)


def test_no_input_at_all_is_refused_in_one_sentence(run: Run):
    if any(capability.verb == "predict" for capability in run.capabilities):
        with pytest.raises(InputError):
            run.predict(None)


def test_a_run_that_can_be_scored_knows_what_it_was_trained_on(run: Run):
    if any(capability.verb == "evaluate" for capability in run.capabilities):
        assert len(np.load(run.folder / "training_examples.npy", allow_pickle=False))


def test_a_run_is_shown_with_what_its_model_can_do(run: Run, capsys: pytest.CaptureFixture[str]):
    main(["show", str(run.folder)])
    shown = capsys.readouterr().out
    predictor = run.recipe.predictor
    assert bool(run.capabilities) == (predictor is not None)
    for capability in run.capabilities:
        assert predictor is not None
        assert issubclass(predictor, capability.protocol)
        assert capability.command.format(run=run.folder) in shown
    for name in run.metrics:
        assert f"{find_metric(name).title}: {find_metric(name).text(run.metrics[name])}" in shown


def test_the_folder_says_how_it_was_made(run: Run):
    settings = json.loads((run.folder / "config.json").read_text())["neuropil"]
    assert settings["format"] == FORMAT
    assert settings["command"].startswith(f"neuropil {run.recipe.verb} {run.name} ")
    assert neuropil.load(run.folder).options == recipes.recipe(run.name).options.override(**SMALL[run.name])
    assert [row["name"] for row in run.rows if row["kind"] == "result"] == [result.name for result in run.results]


def test_the_report_is_complete_in_itself(run: Run):
    page = run.report.read_text()
    links = re.findall(r"""(?:\bsrc|\bhref|xlink:href)\s*=\s*["']([^"']*)["']""", page)
    assert [link for link in links if not link.startswith(("#", "data:"))] == []
    assert not re.search(r"@import|url\(\s*[\"']?https?:|<link|<iframe", page)


def test_the_report_has_pictures_and_tables_and_the_command(run: Run):
    page = run.report.read_text()
    assert page.count("<svg") + page.count("<img") >= 1
    assert page.count("<table") >= 2
    assert f"neuropil {run.recipe.verb} {run.name} " in page


@pytest.mark.parametrize(
    "run", [pytest.param(name, marks=[] if name in KINDS else pytest.mark.slow) for name in NAMES], indirect=True
)
def test_a_finished_run_is_reported_again_with_the_same_results(run: Run):
    before = run.results
    assert rewrite_report(run.folder, show_progress=False).results == before


def test_a_simulation_leaves_what_it_recorded(run: Run):
    if run.recipe.verb == "simulate":
        assert (run.folder / "spikes.npz").exists() or (run.folder / "traces.npz").exists()


def test_the_same_seed_gives_the_same_results_whoever_looks(run: Run, tmp_path: Path):
    again = run.experiment()
    if isinstance(again, TrainableExperiment):
        again.training = replace(again.training, previews=True)
    again.train(tmp_path, show_progress=False)
    results = [Result(result.name, dict(result.metrics), result.limit) for result in again.evaluate()]
    assert results == run.results
    assert results[0].metrics
    if isinstance(again, TrainableExperiment):
        weights = [(folder / "model.safetensors").read_bytes() for folder in (tmp_path, run.folder)]
        assert weights[0] == weights[1]
        first, *_, last = read_history(tmp_path / "previews.jsonl")
        assert (first["step"], last["step"]) == (0, run.rows[-1]["step"])
        assert first["kind"] == last["kind"]
        assert last["kind"] in ("pictures", "texts", "pairs", "curves")
        assert json.loads(json.dumps(last, allow_nan=False)) == last


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_results_in_a_longer_run(name: str, tmp_path_factory: pytest.TempPathFactory):
    folders = [tmp_path_factory.mktemp(name) / "run" for _ in range(2)]
    start = START[recipes.find(name).verb]
    first, second = (
        start(name, out=folder, seed=1, show_progress=False, **SHORTENED.get(name, {})) for folder in folders
    )
    assert first.results == second.results
    assert first.results[0].metrics


TRAINED = [name for name in NAMES if hasattr(recipes.recipe(name).options, "training")]


@pytest.mark.parametrize("name", NAMES)
def test_a_system_can_be_tuned_if_it_is_trained_and_its_ranges_are_within_the_limits_of_the_options(name: str):
    recipe = recipes.recipe(name)
    assert recipe.tunable == (name in TRAINED)
    for options in filter(None, (recipe.options, recipe.own_data, recipe.fine_tuning)):
        tuned = {each.name: each for each in options.options() if each.tune is not None}
        assert not recipe.tunable or "learning_rate" in tuned
        for each in tuned.values():
            assert each.tune is not None
            assert each.default in each.tune
            for value in each.tune.values if isinstance(each.tune, Choices) else (each.tune.low, each.tune.high):
                each.require(value)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_a_system_is_tuned(name: str, tmp_path: Path):
    small = {key: value for key, value in SMALL[name].items() if key not in ("batch_size", "threads")}
    found = neuropil.tune(name, trials=3, out=tmp_path / "search", show_progress=False, report=False, **small)
    assert [trial.state for trial in found.rows].count("failed") == 0, [trial.reason for trial in found.rows]
    assert found.best.metrics == found.results[0].metrics
    found.write_report()
