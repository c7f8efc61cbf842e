"""The page on the forward signal of a run, as a user asks for it."""

from pathlib import Path
from typing import Any

import pytest

import neuropil
from command_line import said
from neuropil.errors import RunError
from neuropil.inspection.signal import diagnose_signal, profile_signal
from neuropil.recipes.hopfield import HopfieldOptions
from neuropil.recipes.optimizers import OptimizersOptions
from neuropil.runs.run import Run
from neuropil.tasks.experiment import TrainableExperiment


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("signal") / "mlp"
    return neuropil.train("mlp", hidden_sizes=(12, 9), epochs=1, activation="tanh", out=folder, show_progress=False)


def test_it_says_in_words_what_the_page_shows(run: Run, capsys: pytest.CaptureFixture[str]):
    *sentences, path = said(capsys, "inspect", str(run.folder), "--signal").splitlines()
    assert sentences == diagnose_signal(run.signal())
    assert path == str(run.folder / "signal.html")
    page = Path(path).read_text()
    assert all(name in page for name in ("hidden.0", "hidden.1", "output", "tanh", "saturated"))


def test_the_signal_is_that_of_the_trained_model_without_dropout(run: Run):
    experiment = run.experiment()
    assert isinstance(experiment, TrainableExperiment)
    batch = next(experiment.training_batches.epoch(0))["input"]
    assert run.signal() == profile_signal(run.model, lambda: run.model(batch))


def test_a_recurrent_run_is_shown_over_time_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "book.txt").write_text("The cat sat on the mat. " * 200)
    folder = tmp_path / "lstm"
    options: dict[str, Any] = {"hidden_size": 8, "embedding_size": 4, "epochs": 1, "vocabulary_size": 60}
    trained = neuropil.train("lstm", out=folder, data=tmp_path / "book.txt", show_progress=False, **options)
    said(capsys, "inspect", str(folder), "--signal")
    assert "Over time" in (folder / "signal.html").read_text()
    assert any(len(layer.steps) > 1 and layer.activation == "logistic, tanh" for layer in trained.signal().layers)


def test_gradients_are_to_be_had_from_python_too(run: Run):
    assert [layer.name for layer in run.gradients().layers] == ["hidden.0", "hidden.1", "output"]


def test_a_study_has_no_signal(tmp_path: Path):
    settings = {"recipe": "optimizers", "seed": 0, "options": OptimizersOptions().to_dict(), "facts": {}}
    with pytest.raises(RunError) as error:
        Run(tmp_path, settings).signal()
    assert str(error.value) == (
        f"{tmp_path} must hold a model for this, but got a run of optimizers, which only makes a report."
    )


def test_a_model_that_pytorchs_gradients_did_not_train_has_none(tmp_path: Path):
    settings = {"recipe": "hopfield", "seed": 0, "options": HopfieldOptions().to_dict(), "facts": {}}
    for look in (Run(tmp_path, settings).signal, Run(tmp_path, settings).gradients):
        with pytest.raises(RunError) as error:
            look()
        assert str(error.value) == (
            "gradients and signals are those of a model that PyTorch's gradients train on batches, but got a run of "
            f"hopfield, which is trained without them: `neuropil show {tmp_path}` says what it can do."
        )
