"""A run folder from Python: trained, loaded, used, resumed, and refused when it is not what it says."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import neuropil
from neuropil.cli import main
from neuropil.errors import InputError, RunError
from neuropil.runs.pages.gradients import write_gradients
from neuropil.runs.run import Run
from neuropil.runs.start import rewrite_report
from real_data import diabetes, digits

SMALL: dict[str, Any] = {"epochs": 15, "hidden_sizes": (48,), "show_progress": False}
STUDY: dict[str, Any] = {"epochs": 1, "repeats": 1, "hidden_sizes": (8,), "show_progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return neuropil.train("mlp", out=tmp_path_factory.mktemp("runs") / "mlp", **SMALL)


def copy(run: Run, folder: Path) -> Path:
    return Path(shutil.copytree(run.folder, folder))


def test_a_run_is_a_folder_with_its_six_files(run: Run):
    names = {path.name for path in run.folder.iterdir()}
    weights = {"model.safetensors", "checkpoint.safetensors", "training_examples.npy"}
    assert names == {"config.json", "metrics.jsonl", "report.html"} | weights


def test_the_history_is_a_table_of_the_rows(run: Run, monkeypatch: pytest.MonkeyPatch):
    history = run.history
    assert list(history.kind) == [row["kind"] for row in run.rows]
    validation = history[history.kind == "validation"]
    assert validation.accuracy.tolist() == [row["accuracy"] for row in run.rows if row["kind"] == "validation"]
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    assert run.history == run.rows


def test_a_loaded_run_predicts_what_the_trained_one_does(run: Run):
    images, targets = (part[:50] for part in digits())
    loaded = neuropil.load(str(run.folder))
    assert torch.equal(loaded.predict(images).scores, run.predict(torch.from_numpy(images)).scores)
    assert run.predict(images).labels == [row[0].split()[0] for row in run.predict(images).lines()]
    assert np.mean(np.array(run.predict(images).labels, dtype=int) == targets) > 0.8


def test_one_image_without_axes_for_example_and_channel_will_do(run: Run):
    image = digits()[0][3]
    assert torch.equal(run.predict(image).scores, run.predict(image[None, None]).scores)


@pytest.mark.parametrize(
    "as_held",
    [
        lambda images: images / 255,
        lambda images: (images / 255).astype(np.float32),
        lambda images: images.astype(float),
        lambda images: images.astype(np.int64)[:, None],
        lambda images: images[..., None],
        lambda images: torch.from_numpy(images / 255),
        lambda images: [Image.fromarray(image) for image in images],
        lambda images: images.tolist(),
    ],
    ids=["fractions", "float32", "floats", "int64", "channels last", "tensor", "PIL", "lists"],
)
def test_pictures_are_predicted_alike_however_they_are_held(run: Run, as_held: Callable[[np.ndarray], Any]):
    images = digits()[0][:20]
    assert torch.equal(run.predict(as_held(images)).scores, run.predict(images).scores)
    assert torch.equal(run.predict(as_held(images[:1])[0]).scores, run.predict(images[:1]).scores)


def test_pictures_that_were_standardised_are_refused(run: Run):
    images = digits()[0][:20] / 255
    with pytest.raises(InputError) as error:
        run.predict((images - images.mean()) / images.std())
    assert str(error.value).startswith("inputs must be images with values 0 to 255, or 0 to 1, but got -")
    assert str(error.value).endswith(": undo their standardisation, which is part of the model.")


def test_inputs_of_another_shape_are_refused(run: Run):
    with pytest.raises(InputError) as error:
        run.predict(np.zeros((5, 9, 9), np.uint8))
    assert str(error.value) == "inputs must have the shape (example, 1, 8, 8), but got 5×9×9 values of type uint8."


def test_the_model_is_an_ordinary_module_in_evaluation_mode(run: Run):
    assert isinstance(run.model, torch.nn.Module)
    assert not run.model.training


def test_results_stand_beside_their_baselines_and_evaluate_repeats_them(run: Run):
    assert [result.name for result in run.results] == ["mlp", "logistic regression", "always the most frequent class"]
    assert run.metrics["accuracy"] > 0.9
    assert run.evaluate() == run.metrics


def test_a_model_that_was_changed_is_evaluated_as_it_is(run: Run, tmp_path: Path):
    changed = neuropil.load(copy(run, tmp_path / "copy"))
    with torch.no_grad():
        for weight in changed.model.parameters():
            weight.zero_()
    assert changed.evaluate()["accuracy"] < 0.2


def test_examples_that_the_run_was_trained_on_are_said_to_be(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture):
    """Of all digits seven tenths were: ten hundredths of the rest are for validation, two tenths for the score."""
    images, targets = digits()
    np.savez(tmp_path / "all.npz", x=images, y=targets)
    learned = len(run.experiment().splits.train)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.warns(UserWarning, match="training part") as said:
        scores = run.evaluate(tmp_path / "all.npz")
    sentence = f"{learned:,} of 1,797 examples were in the training part of this run."
    assert [str(each.message) for each in said] == [sentence]
    main(["evaluate", str(run.folder), "--data", str(tmp_path / "all.npz")])
    assert capsys.readouterr().err.splitlines()[-1] == sentence
    old = neuropil.load(copy(run, tmp_path / "old"))
    (old.folder / "training_examples.npy").unlink()
    assert old.evaluate(tmp_path / "all.npz") == scores


def test_resuming_a_finished_run_changes_nothing(run: Run):
    before = {path: path.read_bytes() for path in run.folder.iterdir()}
    neuropil.resume(run.folder, show_progress=False)
    assert {path: path.read_bytes() for path in run.folder.iterdir()} == before


def test_a_run_without_a_report_gets_one_later(tmp_path: Path):
    run = neuropil.train("mlp", out=tmp_path / "run", **{**SMALL, "epochs": 1}, report=False)
    assert run.metrics["accuracy"] > 0.1
    assert run.finished
    assert not run.report.exists()
    assert rewrite_report(run.folder, show_progress=False).report.exists()


def test_a_report_can_be_written_again(run: Run, tmp_path: Path):
    folder = copy(run, tmp_path / "copy")
    (folder / "report.html").unlink()
    assert "Errors" in rewrite_report(folder, show_progress=False).report.read_text()


def test_the_command_in_the_configuration_has_only_what_differs(run: Run):
    assert run.settings["command"] == "neuropil train mlp --hidden-sizes 48 --epochs 15"


def test_the_command_repeats_the_run_in_a_new_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    main(shlex.split(run.settings["command"])[1:])
    (again,) = (tmp_path / "runs").iterdir()
    assert neuropil.load(again).results == run.results


def test_a_command_that_was_stored_with_its_folder_is_read_without_it(run: Run, tmp_path: Path):
    folder = edit(copy(run, tmp_path / "copy"), command=f"{run.settings['command']} --out 'my runs/x'")
    assert neuropil.load(folder).settings["command"] == run.settings["command"]


def test_runs_are_compared_by_their_scores_and_differing_options(run: Run, tmp_path: Path):
    other = neuropil.train("mlp", out=tmp_path / "other", **{**SMALL, "epochs": 1}, seed=3, report=False)
    header, rows = neuropil.compare([run, other.folder])
    table = {row[0]: row[1:] for row in rows}
    assert header == ["", "mlp", "other"]
    assert table["seed"] == ["0", "3"]
    assert table["--epochs"] == ["15", "1"]
    assert "--hidden-sizes" not in table
    assert all(float(seconds) > 0 for seconds in table["training seconds"])


def test_the_options_of_compared_runs_are_written_as_a_user_writes_them(run: Run, tmp_path: Path):
    options: dict[str, Any] = {"hidden_sizes": (8, 8), "patience": 3, "updates": 2, "schedule": "constant"}
    other = neuropil.train("mlp", out=tmp_path / "other", show_progress=False, **options)
    table = {row[0]: row[1:] for row in neuropil.compare([run, other])[1]}
    assert table["--hidden-sizes"] == ["48", "8 8"]
    assert table["--epochs"] == ["15", "none"]
    assert table["--patience"] == ["none", "3"]


def test_runs_of_different_systems_are_compared_by_the_options_that_both_have(run: Run, tmp_path: Path):
    other = neuropil.train("activations", out=tmp_path / "activations", **STUDY)
    names = {option.name for option in run.options.options()} & {option.name for option in other.options.options()}
    table = {row[0]: row[1:] for row in neuropil.compare([run, other])[1]}
    assert {name for name in table if name.startswith("--")} <= {f"--{name.replace('_', '-')}" for name in names}
    assert table["training seconds"][1] == ""
    assert "training seconds" not in {row[0] for row in neuropil.compare([other, other])[1]}


def test_the_gradients_of_a_run_are_diagnosed_in_words(run: Run, tmp_path: Path):
    path, sentences = write_gradients(neuropil.load(copy(run, tmp_path / "copy")))
    assert path.name == "gradients.html"
    assert any("Gradients" in sentence for sentence in sentences)


def edit(folder: Path, **changes: object) -> Path:
    path = folder / "config.json"
    settings = json.loads(path.read_text())
    settings["neuropil"] |= changes
    path.write_text(json.dumps(settings))
    return folder


def test_a_newer_run_is_refused(run: Run, tmp_path: Path):
    folder = edit(copy(run, tmp_path / "copy"), format=3)
    with pytest.raises(RunError) as error:
        neuropil.load(folder)
    assert str(error.value) == f"{folder} must be a run of format 2, but got format 3: upgrade neuropil."


def test_an_older_run_is_refused_with_the_command_that_repeats_it(run: Run, tmp_path: Path):
    folder = edit(copy(run, tmp_path / "copy"), format=1, command=f"{run.settings['command']} --out {run.folder}")
    with pytest.raises(RunError) as error:
        neuropil.load(folder)
    assert str(error.value) == (
        f"{folder} must be a run of format 2, but got format 1: "
        "train again with `neuropil train mlp --hidden-sizes 48 --epochs 15`."
    )


def test_a_damaged_configuration_is_refused(run: Run, tmp_path: Path):
    folder = copy(run, tmp_path / "copy")
    (folder / "config.json").write_text('{"neuropil": {"format": 2}}')
    with pytest.raises(RunError) as error:
        neuropil.load(folder)
    assert str(error.value) == (
        f"{folder}/config.json must be the JSON that neuropil wrote, but got one without a valid command, facts, "
        "options, recipe, seed: train again or restore it."
    )
    (folder / "config.json").write_text('{"neuropil": ')
    with pytest.raises(RunError, match=r"config\.json must be the JSON that neuropil wrote, but got a damaged file"):
        neuropil.load(folder)


@pytest.mark.parametrize(
    ("changes", "got"),
    [
        (
            {"recipe": "cnm"},
            "a damaged file (a system must be one that `neuropil list` shows, but got 'cnm': did you mean 'cnn'?)",
        ),
        (
            {"options": {"modle": {}}},
            "a damaged file (MLPOptions must hold only its own fields, but got 'modle': did you mean 'model'?)",
        ),
        ({"options": []}, "one without a valid options"),
        ({"seed": "0"}, "one without a valid seed"),
        ({"command": "neuropil train '"}, "a damaged file (No closing quotation)"),
    ],
)
def test_a_configuration_with_a_slip_is_refused(run: Run, tmp_path: Path, changes: dict[str, Any], got: str):
    folder = edit(copy(run, tmp_path / "copy"), **changes)
    with pytest.raises(RunError) as error:
        neuropil.resume(folder)
    assert str(error.value) == (
        f"{folder}/config.json must be the JSON that neuropil wrote, but got {got}: train again or restore it."
    )


def test_facts_that_are_missing_are_refused(run: Run, tmp_path: Path):
    folder = edit(copy(run, tmp_path / "copy"), facts={})
    with pytest.raises(RunError) as error:
        _ = neuropil.load(folder).model
    assert str(error.value) == (
        f"{folder} must hold what neuropil wrote of its model, but got something else ('model'): "
        "train again or restore it."
    )


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (
            {"shapes": []},
            "something else (Schema must hold only its own fields, but got 'shapes': did you mean 'shape'?)",
        ),
        ({"shape": []}, "the shape [] for an image"),
        ({"kind": "table"}, "the shape [1, 8, 8] for a row of a table"),
        ({"kind": "table", "shape": [64]}, "columns with 0 features for 64"),
        ({"offsets": [1.0, 2.0]}, "offsets of 2 features for 1"),
    ],
)
def test_a_damaged_description_of_the_inputs_is_refused(run: Run, tmp_path: Path, change: dict[str, Any], got: str):
    facts = run.settings["facts"]
    folder = edit(copy(run, tmp_path / "copy"), facts={**facts, "schema": {**facts["schema"], **change}})
    with pytest.raises(RunError) as error:
        _ = neuropil.load(folder).predictor
    assert str(error.value) == (
        f"{folder}/config.json must describe the inputs of its model, but got {got}: train again or restore it."
    )


def test_a_configuration_that_is_nested_without_end_is_refused(run: Run, tmp_path: Path):
    folder = copy(run, tmp_path / "copy")
    (folder / "config.json").write_text('{"neuropil":' + "[" * 200_000)
    with pytest.raises(RunError, match=r"config\.json must be the JSON that neuropil wrote, but got a damaged file"):
        neuropil.load(folder)


@pytest.mark.parametrize(
    ("start", "name", "options"),
    [
        (neuropil.train, "mlp", {"hidden_sizes": (10**8,)}),
        (neuropil.train, "cnn", {"width": 10**8}),
        (neuropil.train, "activations", {"hidden_sizes": (10**8,)}),  # which is built when its folder is there
        (neuropil.train, "tracker", {"films": 10**9}),
        (neuropil.train, "captioner", {"scenes": 10**9}),
        (neuropil.simulate, "balanced_network", {"neurons": 4_000_000}),
    ],
)
def test_what_does_not_fit_into_memory_is_refused_with_an_estimate_and_leaves_nothing(
    start: Any, name: str, options: dict[str, Any], tmp_path: Path
):
    with pytest.raises(InputError, match=r"must fit into memory, but got at least [0-9.]+ [GTPE]B, of ") as error:
        start(name, out=tmp_path / "run", show_progress=False, **options)
    assert str(error.value).endswith(" free: choose smaller sizes.")
    assert list(tmp_path.iterdir()) == []


def test_a_network_of_a_file_that_does_not_fit_into_memory_is_refused(tmp_path: Path):
    text = '[groups.a]\nsize = 4000000\n[[connections]]\nfrom = "a"\nto = "a"\nweight = 0.1\n'
    (tmp_path / "network.toml").write_text(text)
    with pytest.raises(InputError, match="the synapses of a network must fit into memory, but got at least 128 TB, of"):
        neuropil.simulate(tmp_path / "network.toml", out=tmp_path / "run", show_progress=False)
    assert not (tmp_path / "run").exists()


def test_what_a_killed_save_left_is_gone_after_the_next_start(run: Run, tmp_path: Path):
    folder = copy(run, tmp_path / "copy")
    (folder / "report.html").unlink()
    (folder / ".checkpoint.safetensors.abcd1234.part").write_bytes(b"half")
    neuropil.resume(folder, show_progress=False)
    assert {path.name for path in folder.iterdir()} == {path.name for path in run.folder.iterdir()}


def test_damaged_weights_are_refused(run: Run, tmp_path: Path):
    folder = copy(run, tmp_path / "copy")
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(RunError, match=r"model\.safetensors must be a whole safetensors file"):
        _ = neuropil.load(folder).model


def test_a_finished_run_without_weights_is_started_anew(run: Run, tmp_path: Path):
    folder = copy(run, tmp_path / "copy")
    (folder / "model.safetensors").unlink()
    with pytest.raises(RunError) as error:
        _ = neuropil.load(folder).model
    assert str(error.value) == (
        f"{folder} must hold model.safetensors, but got a run without it: "
        "restore it, or start anew with `neuropil train mlp --hidden-sizes 48 --epochs 15`."
    )


def test_a_folder_that_is_no_run_is_refused_and_the_newest_run_offered(run: Run):
    with pytest.raises(RunError) as error:
        neuropil.load(run.folder.parent / "mpl")
    assert str(error.value) == (
        f"a run is a folder with a config.json, but got '{run.folder.parent}/mpl': the newest here is {run.folder}."
    )


def test_a_run_is_not_used_with_other_data(run: Run, tmp_path: Path):
    folder = copy(run, tmp_path / "copy")
    facts = json.loads((folder / "config.json").read_text())["neuropil"]["facts"]
    edit(folder, facts={**facts, "fingerprint": "0" * 16})
    for use in (rewrite_report, lambda folder: neuropil.load(folder).evaluate()):
        with pytest.raises(RunError) as error:
            use(folder)
        assert str(error.value) == (
            f"{folder} needs the data that it was started with, but got data that has changed since: "
            "restore the data, or start anew with `neuropil train mlp --hidden-sizes 48 --epochs 15`."
        )


ROWS = {"size": [1.5, 2.5] * 20, "weight": [*range(40)]}


@pytest.mark.parametrize(
    ("system", "data", "option", "sentence"),
    [
        ("mlp", (ROWS, ["a", "b"] * 20), {"flip": True}, "--flip has no effect on a table: leave it out."),
        ("mlp", (ROWS, ["a", "b"] * 20), {"rotate": 5}, "--rotate has no effect on a table: leave it out."),
        (
            "mlp",
            (ROWS, np.arange(40) / 3),
            {"label_smoothing": 0.1},
            "--label-smoothing has no effect on a regression: leave it out.",
        ),
        ("clip", "c.csv", {"scenes": 99}, "--scenes has no effect on data of your own: leave it out."),
        ("forecaster", np.arange(99), {"dataset": "co2"}, "--dataset has no effect on data of your own: leave it out."),
        ("tracker", "films", {"films": 20}, "--films has no effect on data of your own: leave it out."),
    ],
)
def test_options_that_have_no_effect_on_the_data_are_refused(
    tmp_path: Path, system: str, data: Any, option: dict[str, Any], sentence: str
):
    with pytest.raises(InputError) as error:
        neuropil.train(system, data=data, out=tmp_path / "run", show_progress=False, **option)
    assert str(error.value) == sentence
    assert not (tmp_path / "run").exists()


def test_an_output_folder_that_is_in_use_is_refused_before_data_is_read(run: Run, tmp_path: Path):
    with pytest.raises(InputError) as error:
        neuropil.train("mlp", data=tmp_path / "missing.csv", out=run.folder, show_progress=False)
    assert str(error.value) == (
        f"the output folder must be new or empty, but got '{run.folder}': choose another, or neuropil resume it."
    )


@pytest.mark.parametrize(
    ("files", "held"),
    [
        ({"notes.txt": "mine", ".lock": ""}, "notes.txt"),
        ({f"{name}.txt": "" for name in "abcde"}, "a.txt, b.txt, c.txt and 2 more"),
        ({"config.json": '{"model_type": "gpt2"}'}, "config.json"),
        ({"study.json": "{}"}, "study.json"),
    ],
)
def test_an_output_folder_of_other_files_is_not_to_be_resumed(tmp_path: Path, files: dict[str, str], held: str):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as error:
        neuropil.train("mlp", out=tmp_path, show_progress=False)
    assert str(error.value) == (
        f"the output folder must be new or empty, but got '{tmp_path}', which holds {held}: choose another name."
    )
    assert {path.name for path in tmp_path.iterdir()} == {*files}


def test_an_output_folder_that_is_a_file_is_refused_as_one(tmp_path: Path):
    (tmp_path / "book.txt").write_text("a text")
    with pytest.raises(InputError) as error:
        neuropil.train("mlp", out=tmp_path / "book.txt", show_progress=False)
    assert str(error.value) == (
        f"the output folder must be new or empty, but got '{tmp_path / 'book.txt'}', which is a file: "
        "choose another name."
    )


def test_epochs_and_minutes_exclude_each_other(tmp_path: Path):
    with pytest.raises(InputError) as error:
        neuropil.train("mlp", epochs=1, minutes=1.0, out=tmp_path / "run")
    assert str(error.value) == "a run ends after epochs or after minutes, but got both: give one of them."
    assert not (tmp_path / "run").exists()


def test_a_misspelt_monitor_leaves_no_folder_behind(tmp_path: Path):
    with pytest.raises(InputError) as error:
        neuropil.train("mlp", monitor="acuracy", out=tmp_path / "run")
    assert str(error.value) == "monitor must name a validation metric, but got 'acuracy': did you mean 'accuracy'?"
    assert not (tmp_path / "run").exists()


def test_wrong_data_leaves_no_folder_behind(tmp_path: Path):
    with pytest.raises(InputError):
        neuropil.train("mlp", data=tmp_path / "nothing.csv", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_table_with_numbers_as_targets_is_learned_in_their_own_units(tmp_path: Path):
    names, features, progression = diabetes()
    lines = [",".join([*names, "progression"])]
    lines += [",".join(map(str, [*row, target])) for row, target in zip(features, progression, strict=True)]
    table = tmp_path / "diabetes.csv"
    table.write_text("\n".join(lines) + "\n")
    run = neuropil.train(
        "mlp", data=str(table), target="progression", out=tmp_path / "run", report=False, show_progress=False
    )
    mlp, _, mean = run.results
    assert mlp.metrics["absolute_error"] < 0.85 * mean.metrics["absolute_error"]
    values = run.predict(str(table)).values
    assert 0 < values.min() < values.max() < 400
    assert np.corrcoef(values, progression)[0, 1] > 0.6


# --- data in memory ---------------------------------------------------------------------------------------------------

MONTHS = pd.Series(np.random.default_rng(0).normal(size=120), pd.date_range("2020", periods=120, freq="MS"))
QUICK: dict[str, Any] = {"epochs": 2, "hidden_sizes": (16,), "show_progress": False}


def rows_of_digits() -> tuple[np.ndarray, np.ndarray]:
    images, labels = (part[:200] for part in digits())
    return images.reshape(200, 64) / 255, np.array([f"digit {label}" for label in labels])


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return neuropil.train("mlp", data=rows_of_digits(), out=tmp_path_factory.mktemp("runs") / "mlp", **QUICK)


def unfinished(run: Run, folder: Path) -> Path:
    folder = copy(run, folder)
    (folder / "report.html").unlink()
    rows = [row for row in run.rows if row["kind"] != "result"]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_data_in_memory_is_learned_as_from_a_file(remembered: Run, tmp_path: Path):
    x, y = rows_of_digits()
    np.savez(tmp_path / "digits.npz", x=x, y=y)
    file = neuropil.train("mlp", data=tmp_path / "digits.npz", out=tmp_path / "file", report=False, **QUICK)
    assert file.results == remembered.results
    assert file.weights.read_bytes() == remembered.weights.read_bytes()
    assert file.settings["facts"]["schema"] == remembered.settings["facts"]["schema"]


def test_the_configuration_records_what_was_in_memory(remembered: Run):
    recorded = neuropil.load(remembered.folder).settings["options"]["data"]["data"]
    assert {name: (each["shape"], each["type"]) for name, each in recorded["columns"].items()} == {
        "x": ([200, 64], "float64"),
        "y": ([200], "text"),
    }
    command = "neuropil.train('mlp', data=…, hidden_sizes=(16,), epochs=2)"
    assert remembered.settings["command"] == f"{command}  # data: arrays in memory (x 200×64 float64, y 200 text)"
    assert neuropil.load(remembered.folder).settings["command"] == remembered.settings["command"]
    assert "(arrays in memory)" in remembered.report.read_text()


def test_a_run_on_data_in_memory_goes_on_with_the_same_data(remembered: Run, tmp_path: Path):
    folder, (x, y) = unfinished(remembered, tmp_path / "run"), rows_of_digits()
    run = neuropil.resume(folder, data=(torch.from_numpy(x), list(y)), show_progress=False)
    assert run.results == remembered.results
    assert run.report.exists()


def test_a_run_on_data_in_memory_needs_the_same_data(
    remembered: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder, (x, y) = unfinished(remembered, tmp_path / "run"), rows_of_digits()
    needs = f"{folder} needs the arrays in memory (x 200×64 float64, y 200 text) that it was started with, but got"
    again = f"give it again from Python, as in neuropil.resume('{folder}', data=…)"
    anew = f"give the same, or start anew with `{remembered.settings['command']}`"
    for data, end in [
        (None, f"none: {again}"),
        ((x[::-1], y), f"other values of that shape: {anew}"),
        ((x[:9], y[:9]), f"the arrays in memory (x 9×64 float64, y 9 text): {anew}"),
    ]:
        with pytest.raises(RunError) as caught:
            neuropil.resume(folder, data=data)
        assert str(caught.value) == f"{needs} {end}."
    with pytest.raises(RunError):  # a finished one, too
        neuropil.resume(remembered.folder, data=(x[::-1], y))
    with pytest.raises(SystemExit) as exit:
        main(["resume", str(folder)])
    assert exit.value.code == 2
    assert " ".join(capsys.readouterr().err.split()) == f"neuropil: {needs} none: {again}."


def test_a_run_on_files_takes_no_data_to_go_on_with(run: Run, tmp_path: Path):
    folder = unfinished(run, tmp_path / "run")
    with pytest.raises(RunError) as caught:
        neuropil.resume(folder, data=rows_of_digits())
    sentence = f"{folder} reads its own data from files, but got data to resume with: leave it out."
    assert str(caught.value) == sentence


def test_a_run_is_evaluated_and_asked_on_data_in_memory(remembered: Run):
    x, y = rows_of_digits()
    said: list[str] = []
    scores = remembered.evaluate((x, y), notify=said.append)
    assert scores == remembered.evaluate([*zip(x, y, strict=True)], notify=said.append)
    assert said == ["144 of 200 examples were in the training part of this run."] * 2
    assert remembered.predict(iter(x)).labels == remembered.predict(x).labels
    right = np.mean(np.array(remembered.predict(x).labels) == y)
    assert scores["accuracy"] == pytest.approx(right)
    with pytest.raises(RunError) as caught:
        remembered.evaluate()
    assert str(caught.value) == (
        f"{remembered.folder} does not hold its data, which was in memory, but got no data: "
        "give data with the right answers, as in run.evaluate((X, y)), or read run.metrics."
    )


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("tracker", "tracker reads its data from files ("),
        ("optimizers", "optimizers takes no data, but got a tuple in memory: "),
    ],
)
def test_a_system_that_takes_no_data_in_memory_names_those_that_do(name: str, rule: str, tmp_path: Path):
    with pytest.raises(InputError) as caught:
        neuropil.train(name, data=rows_of_digits(), out=tmp_path / "run")
    assert str(caught.value).startswith(rule)
    assert ", but got a tuple in memory: data in memory is for activations, losses, " in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_simulation_takes_no_data():
    with pytest.raises(InputError, match=r"^lif takes no data, but got a ndarray in memory: data in memory is for "):
        neuropil.simulate("lif", data=np.zeros(3))


def test_a_run_keeps_the_parts_of_its_data_and_goes_on_with_them(tmp_path: Path):
    rows, labels = rows_of_digits()
    parts = ((rows[:150], labels[:150]), (rows[150:], labels[150:]))
    run = neuropil.train("mlp", data=parts, out=tmp_path / "run", report=False, **SMALL)
    right = np.mean(np.array(run.predict(rows[150:]).labels) == labels[150:])
    assert run.metrics["accuracy"] == run.evaluate(parts)["accuracy"] == pytest.approx(right)
    assert run.memory == neuropil.load(run.folder).memory
    assert neuropil.resume(run.folder, data={"train": parts[0], "test": parts[1]}).finished
    with pytest.raises(RunError, match="but got the arrays in memory"):
        neuropil.resume(run.folder, data=parts[0])
    with pytest.raises(InputError) as error:
        run.predict({"train": rows, "test": rows})
    assert str(error.value) == (
        "data in memory must be one part, but got the parts train, test: give one of them, as in data['train']."
    )


CAPTIONED = [(Image.fromarray(image), f"the digit {label}") for image, label in zip(*digits(), strict=True)][:30]


@pytest.mark.parametrize(
    ("name", "data", "more", "options"),
    [
        (
            "text_classifier",
            ([f"{word} {n}" for n in range(20) for word in ("good", "bad")], [1, 0] * 20),
            ["good 3"],
            {"hidden_size": 4},
        ),
        (
            "seq2seq",
            [(f"text {number}", f"{number}") for number in range(20)],
            pd.DataFrame({"text": ["text 3"]}),
            {"hidden_size": 8, "embedding_size": 8},
        ),
        ("rnn", ["some text to learn from, and more of it"] * 20, ["some text"], {"hidden_size": 8}),
        ("tagger", [(["a", "cat"], ["DET", "NOUN"]), (["the", "cat"], ["DET", "NOUN"])] * 9, ["a cat"], {}),
        ("captioner", CAPTIONED, [CAPTIONED[0][0]], {"hidden_size": 8, "compare": False}),
        ("clip", CAPTIONED, CAPTIONED[0][0], {"vision_layers": 1, "text_layers": 1, "batch_size": 8}),
        (
            "forecaster",
            MONTHS,
            MONTHS,
            {"horizon": 2},
        ),
    ],
)
def test_every_kind_of_data_is_learned_asked_and_evaluated_in_memory(
    name: str, data: Any, more: Any, options: dict[str, Any], tmp_path: Path
):
    run = neuropil.train(name, data=data, epochs=1, out=tmp_path / "run", report=False, show_progress=False, **options)
    assert " in memory)" in run.settings["facts"]["source"]
    assert len(run.predict(more)) == (2 if name == "forecaster" else 1)
    said: list[str] = []
    assert all(np.isfinite(value) for value in neuropil.load(run.folder).evaluate(data, notify=said.append).values())
    assert len(said) == 1
    assert "were in the training part of this run." in said[0]
