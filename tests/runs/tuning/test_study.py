"""Hyper-parameters chosen on the validation part, on small real runs."""

import json
import os
import shlex
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import neuropil
from command_line import printed_and_complained, said
from neuropil.cli import main
from neuropil.config import Config, flag_of
from neuropil.errors import InputError, RunError
from neuropil.files import locked
from neuropil.metrics import find_metric
from neuropil.runs.tuning import time_limit
from neuropil.runs.tuning import trial as one_trial
from neuropil.runs.tuning.folder import Tuning, tunable_plan
from neuropil.runs.tuning.space import search_space
from neuropil.runs.tuning.study import resume_tuning, tune
from neuropil.runs.tuning.time_limit import TimeLimit
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.tasks.time_limit import Candidate
from neuropil.training.history import Row
from neuropil.training.interruption import Interrupted
from neuropil.training.search import Trial, whole_runs
from real_data import digits

SMALL: dict[str, Any] = {"hidden_sizes": (8,), "epochs": 9, "batch_size": 256, "trials": 6, "seed": 2}
WORDS = ["--hidden-sizes", "8", "--epochs", "9", "--batch-size", "256", "--trials", "6", "--seed", "2"]


def search(folder: Path, *, report: bool = False, **options: Any) -> Tuning:
    return tune("mlp", **SMALL | options, out=folder, report=report, show_progress=False)


def unfinish(folder: Path) -> None:
    """As if it had been killed while the results were computed."""
    study = json.loads((folder / "study.json").read_text())
    del study["results"]
    (folder / "study.json").write_text(json.dumps(study))


def timeless(trials: list[Trial]) -> list[dict[str, Any]]:
    return [trial.to_dict() | {"seconds": 0} for trial in trials]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Tuning:
    return search(tmp_path_factory.mktemp("tuned") / "search", report=True)


def test_every_trial_is_a_run_folder_without_anything_of_the_test_part(found: Tuning):
    for trial in found.rows:
        run = neuropil.load(found.trial_folder(trial.number))
        options = {each.name: each.default for each in run.options.options()}
        assert {name: options[name] for name in trial.options} == trial.options
        assert {row["kind"] for row in run.rows} == {"train", "validation"}
        assert not run.report.exists()


def test_a_trial_is_worth_the_best_of_its_validations(found: Tuning):
    assert {"complete", "pruned"} <= {trial.state for trial in found.rows}
    for trial in found.rows:
        rows = neuropil.load(found.trial_folder(trial.number)).rows
        losses = [row["loss"] for row in rows if row["kind"] == "validation"]
        assert trial.value == min(losses)
        assert [value for _, value in trial.curve] == losses
        assert [share for share, _ in trial.curve] == pytest.approx([n / 9 for n in range(1, len(losses) + 1)])


def test_the_best_complete_trial_is_chosen_and_its_weights_are_the_runs(found: Tuning):
    best = min((trial for trial in found.rows if trial.state == "complete"), key=lambda trial: trial.value or 0)
    assert found.settings["best"] == best.number
    assert found.chosen == best.options
    name = "model.safetensors"
    assert (found.folder / "best" / name).read_bytes() == (found.trial_folder(best.number) / name).read_bytes()
    assert found.best.finished
    assert found.best.metrics == found.results[0].metrics
    assert found.best.evaluate() == pytest.approx(found.best.metrics)


def test_beside_it_stands_what_training_with_the_default_options_gives(found: Tuning, tmp_path: Path):
    options = {name: value for name, value in SMALL.items() if name != "trials"}
    run = neuropil.train("mlp", **options, out=tmp_path / "default", report=False, show_progress=False)
    assert found.results[1].name == "default options"
    assert dict(found.results[1].metrics) == run.metrics


def test_the_command_of_the_best_run_trains_it_again(found: Tuning, tmp_path: Path):
    main([*shlex.split(found.best.settings["command"])[1:], "--out", str(tmp_path / "again"), "--no-report"])
    again, best = tmp_path / "again" / "model.safetensors", found.folder / "best" / "model.safetensors"
    assert again.read_bytes() == best.read_bytes()


def test_the_test_part_is_evaluated_after_the_choice_once_for_each_of_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    events: list[str] = []

    def noted(method: str, what: Callable[..., str | None]) -> None:
        usual = getattr(ClassificationExperiment, method)

        def noting(self: Any, *arguments: Any, **options: Any) -> Any:
            events.extend([said] if (said := what(self, *arguments)) else [])
            return usual(self, *arguments, **options)

        monkeypatch.setattr(ClassificationExperiment, method, noting)

    noted("predict_test", lambda self, learner: "predicted")
    noted("batches", lambda self, part: "read" if part == "test" else None)
    noted("train_model", lambda self, folder: f"train {folder.parent.name}/{folder.name}")
    search(tmp_path / "search", trials=4)
    last = max(place for place, event in enumerate(events) if event in [f"train trials/00{n}" for n in (2, 3, 4)])
    assert not {"predicted", "read"} & set(events[: last + 1])
    after = events[last + 1 :]
    assert after == ["train search/best", "predicted", "read", "train trials/001", "predicted", "read"]


def shown_states(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Of the trials, as `neuropil show` and Python tell them."""
    record = json.loads(said(capsys, "show", str(folder), "--json"))
    states = [each["state"] for each in record["trials"]]
    assert [line.split("\t")[1] for line in said(capsys, "show", str(folder)).splitlines()[4:-2]] == states
    assert list(Tuning.load(folder).trials["state"]) == states
    return states


class KilledError(BaseException):
    """As good as a kill: nobody catches it, and nothing is saved."""


@pytest.mark.parametrize("end", ["Ctrl-C", "killed"])
def test_a_search_that_is_stopped_inside_a_trial_ends_with_the_same_trials_as_the_unbroken_one(
    end: str, found: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    usual, validations = one_trial._points, 0

    def stopping(rows: list[Row], share: float, metric: str) -> Any:
        nonlocal validations
        validations += 1
        if validations == 12:  # in the second trial or a later one
            if end == "killed":
                raise KilledError
            os.kill(os.getpid(), signal.SIGINT)
        return usual(rows, share, metric)

    folder = tmp_path / "search"
    monkeypatch.setattr(one_trial, "_points", stopping)
    with pytest.raises(KilledError if end == "killed" else Interrupted) as stop:
        search(folder)
    if end == "Ctrl-C":
        assert stop.value.folder == folder  # type: ignore[union-attr]
    stopped = Tuning.load(folder)
    assert [trial.state for trial in stopped.rows].count("running") == 1
    assert not stopped.finished
    with pytest.raises(RunError, match="has no best run before the search is over"):
        _ = stopped.best
    assert shown_states(folder, capsys)[-1] == "stopped"
    assert "1 stopped" in stopped._repr_html_()
    with locked(folder):  # by another process that works on it
        assert shown_states(folder, capsys)[-1] == "running"
    if end == "killed":
        search(folder)  # the same call goes on
    else:
        said(capsys, "tune", "mlp", *WORDS, "--no-report", "--out", str(folder))
    assert timeless(Tuning.load(folder).rows) == timeless(found.rows)
    assert Tuning.load(folder).results == found.results


def test_a_trial_that_was_killed_before_it_was_recorded_counts_once(
    found: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    usual, folder = Tuning.save, tmp_path / "search"

    def killed(self: Tuning, trial: Trial) -> None:
        if trial.state == "complete":
            raise KilledError
        usual(self, trial)

    with monkeypatch.context() as patched:
        patched.setattr(Tuning, "save", killed)
        with pytest.raises(KilledError):
            search(folder, trials=2)
    assert [trial.state for trial in Tuning.load(folder).rows] == ["running"]
    assert timeless(search(folder, trials=2).rows) == timeless(found.rows[:2])


def test_a_finished_search_stays_as_it_is(found: Tuning, capsys: pytest.CaptureFixture[str]):
    before = {path: path.stat().st_mtime_ns for path in found.folder.rglob("*")}
    assert search(found.folder).rows == found.rows
    said(capsys, "resume", str(found.folder))
    assert {path: path.stat().st_mtime_ns for path in found.folder.rglob("*")} == before


def test_a_trial_that_diverges_is_recorded_and_the_search_goes_on(tmp_path: Path):
    over = {"learning_rate": [1e30, 0.05]}
    fixed = {"optimizer": "sgd", "dropout": 0.0, "weight_decay": 0.0}
    failed = search(tmp_path / "search", over=over, trials=20, **fixed)
    states = {trial.options["learning_rate"]: trial for trial in failed.rows[1:]}
    assert len(failed.rows) == 3  # the default options, which are neither of the two, and each of them
    assert states[1e30].state == "failed"
    assert states[1e30].reason.startswith("the loss of phase 'classification' must stay finite, but got ")
    assert states[0.05].state == "complete"
    assert failed.chosen == {"learning_rate": 0.05}
    assert not failed.report.exists()
    failed.write_report()
    assert f"Trial {states[1e30].number} failed: the loss of phase" in failed.report.read_text()


def test_the_default_options_are_compared_with_and_not_chosen_where_they_are_outside_of_what_is_searched(
    tmp_path: Path,
):
    narrow = search(tmp_path / "search", over={"learning_rate": (1e-6, 2e-6)}, trials=3, epochs=2)
    best, first = (trial.value or 0 for trial in (narrow.rows[narrow.settings["best"] - 1], narrow.rows[0]))
    assert first < best
    assert 1e-6 <= narrow.chosen["learning_rate"] <= 2e-6
    assert [result.name for result in narrow.results] == ["tuned mlp", "default options"]


def test_where_all_trials_fail_it_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["tune", "mlp", "--optimizer", "sgd", "--learning-rate", "1e30", "--out", str(tmp_path / "lost")]
    complaint = said(capsys, *words, *WORDS[:-4], "--trials", "2", code=2).splitlines()[-1]
    assert complaint.startswith(
        "neuropil: one trial at least must be complete, of what is searched, to choose from, but got 2 failed (the loss"
    )
    assert complaint.endswith(f": the others are in {tmp_path / 'lost' / 'trials.jsonl'}.")


def test_a_report_says_what_was_found(found: Tuning):
    page = found.report.read_text()
    assert found.settings["outcome"] in page
    assert page.count("<svg") >= 3
    counted = f"{sum(trial.state == 'pruned' for trial in found.rows)} of 6 trials were pruned"
    assert counted in page
    assert found.settings["command"] in page


def test_the_object_in_python(found: Tuning):
    assert list(found.trials["trial"]) == [1, 2, 3, 4, 5, 6]
    assert list(found.trials["state"]) == [trial.state for trial in found.rows]
    assert sum(found.importance.values()) == pytest.approx(1)
    assert found.settings["outcome"] in found._repr_html_()
    assert repr(found) == f"<Tuning of mlp in {found.folder}>"
    assert {"tune", "Tuning"} <= {*dir(neuropil)}
    assert neuropil.tune is tune


def test_data_in_memory_is_searched_and_needed_again(tmp_path: Path):
    images, labels = digits()
    data = (images[:200], labels[:200])
    folder = tmp_path / "search"
    few = {**SMALL, "trials": 2, "epochs": 2, "out": folder, "show_progress": False, "report": False}
    assert tune("mlp", data=data, **few).best.predict(data[0][:3]).scores.shape == (3, 10)
    unfinish(folder)
    with pytest.raises(RunError) as refused:
        resume_tuning(folder)
    assert str(refused.value).endswith(
        f"but got none: give it again from Python, as in neuropil.tune('mlp', data=…, out={str(folder)!r})."
    )
    assert tune("mlp", data=data, **few).finished
    assert [trial.number for trial in Tuning.load(folder).rows] == [1, 2]
    with pytest.raises(InputError, match="but got another search"):
        tune("mlp", data=(data[0] + 1, data[1]), **few)


def test_a_run_is_not_opened_of_a_search(found: Tuning):
    for opened in (neuropil.load, neuropil.open):
        with pytest.raises(RunError) as refused:
            opened(found.folder)
        assert str(refused.value) == (
            f"a run is a folder with a config.json, but got the search in {str(found.folder)!r}: open its best run, "
            f"{found.folder / 'best'}, or neuropil resume it."
        )


# --- a time limit -----------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten updates in a pass, each of a tenth of a second, on a clock that stands still."""
    candidate = Candidate(
        Config(),
        build_seconds=1.0,
        seconds_per_update=0.1,
        updates_per_pass=10,
        evaluation_seconds=0.5,
        scoring_seconds=1.0,
    )
    monkeypatch.setattr(time_limit, "measure", lambda *arguments: candidate)
    monkeypatch.setattr(time_limit, "time", SimpleNamespace(monotonic=lambda: 100.0))


@pytest.mark.parametrize(
    ("given", "minutes", "seconds"),
    [
        ({"updates": 1260}, 1.0, None),  # as it was given
        ({}, 600.0, None),  # 126 epochs of 1.5 seconds fit
        ({}, 10.0, (600 - 60) / whole_runs(20) - 1),
    ],
)
def test_trials_are_as_long_as_a_run_or_share_the_time(
    measured: None, given: Mapping[str, Any], minutes: float, seconds: float | None
):
    limit = TimeLimit.of(tunable_plan("mlp", 0, given), 20, minutes, began=100.0, workers=1, threads=1)
    assert limit.seconds == (None if seconds is None else pytest.approx(seconds))
    assert limit.reserve == pytest.approx(max(6 * minutes, 2 * (2 * 0.5 + 1.0 + 3 * 1.0)))


def test_each_trial_gets_its_time_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Tuning, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(TimeLimit, "of", lambda *_, **__: TimeLimit(2, 60.0, reserve=1.0, seconds=0.2))
    limited = search(tmp_path / "search", trials=2, minutes=60.0)
    for trial in limited.rows:
        training = neuropil.load(limited.trial_folder(trial.number)).settings["options"]["training"]
        assert training["seconds"] == 0.2
        assert training["fitted"] == "Trained for 0.2 seconds, as each trial of its search."
    sentence = "That command trains for a whole run, where each trial had 0.2 seconds."
    shown = said(capsys, "show", str(limited.folder)).splitlines()
    assert shown[shown.index(limited.best.settings["command"]) + 1] == sentence
    assert "That command" not in said(capsys, "show", str(found.folder))


def test_a_finished_search_takes_no_further_trials(found: Tuning):
    """The test part would be evaluated again."""
    with pytest.raises(InputError) as refused:
        search(found.folder, trials=7)
    assert str(refused.value) == (f"{found.folder} is a finished search of 6 trials, but got 7: choose another folder.")


def test_without_time_for_one_trial_it_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TimeLimit, "of", lambda *_, **__: TimeLimit(6, 1.0, reserve=60.0))
    with pytest.raises(RunError) as refused:
        search(tmp_path / "search", minutes=1.0)
    assert str(refused.value) == (
        "one trial at least must be complete, of what is searched, to choose from, but got no time for any: "
        "give more --minutes, or fewer --epochs or --updates."
    )


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("mlp --trials 0", "--trials must be at least 1, but got 0."),
        ("mlp --minutes 0", "--minutes must be at least 0.001, but got 0.0."),
        (
            "mlp --epoch 3",
            "neuropil tune mlp must be given its own options, but got '--epoch': did you mean '--epochs'?",
        ),
        (
            "mlp --over dropuot=0,0.1",
            "what is searched must be an option that `neuropil show` lists, but got 'dropuot': did you mean 'dropout'?",
        ),
        (
            "mlp --over lr=1e-4..1e-2",
            "what is searched must be an option that `neuropil show` lists, but got 'lr': "
            "most like it are l1, norm, flip, clip, learning-rate.",
        ),
        ("mlp --over dropout=0.5..2", "dropout must be at most 0.95, but got 2.0."),
        (
            "mlp --over dropout=0.5..0.1",
            "a range of --dropout must go from a number to a larger one, but got 0.5..0.1.",
        ),
        ("mlp --over dropout=nan..1", "dropout must be at least 0, but got nan."),
        (
            "mlp --over dropout=",
            "a search over --dropout needs two values at least, but got none: or fix it with --dropout.",
        ),
        (
            "mlp --over activation=a..b",
            "a range is for numbers, and --activation is not one, but got a..b: list its values.",
        ),
        ("mlp --over batch-size=8,many", "batch_size must be int, but got 'many'."),
        ("mlp --over dropout=0,0.1 --dropout 0.2", "--dropout is given or searched, but got both: leave one out."),
        (
            "mlp --over test=0.1,0.2",
            "--test cannot be searched, since trials would differ in their data: leave it out.",
        ),
        ("mlp --over epochs=1,2", "--epochs cannot be searched, since trials would differ in length: leave it out."),
        (
            "mlp --over dropout",
            "--over is followed by an option, = and what to search, but got 'dropout': "
            "write for instance learning-rate=1e-4..1e-2 or dropout=0,0.1,0.2.",
        ),
        (
            "mlp --validation 0",
            "hyper-parameters are chosen on the validation part, but got one without examples: "
            "give --validation 0.1, or more data.",
        ),
        (
            "lif",
            "neuropil tune is for a system that learns by a loss and has a validation part, but got 'lif': "
            "use neuropil simulate lif.",
        ),
        (
            "overfitting",
            "neuropil tune is for a system that learns by a loss and has a validation part, but got 'overfitting': "
            "use neuropil train overfitting.",
        ),
        (
            "attention --embedding none --value-width 8 --width 32",
            "--width has no effect on raw patches whose values have a width: leave it out.",
        ),
        (
            "attention --embedding none --value-width 8 --over width=32,64",
            "--width has no effect on raw patches whose values have a width: leave it out.",
        ),
        ("mpl", "a system must be one that `neuropil list` shows, but got 'mpl': did you mean 'mlp'?"),
    ],
)
def test_bad_words_get_one_sentence_and_leave_nothing(
    words: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert said(capsys, "tune", *words.split(), code=2) == f"neuropil: {complaint}"
    assert not any(tmp_path.iterdir())


def test_an_option_without_effect_beside_what_was_given_is_not_searched():
    given = {"embedding": "none", "value_width": 8}
    idle, usual = (tunable_plan("attention", 0, options) for options in (given, {"embedding": "none"}))
    assert search_space(usual.typed, usual.given, {}).keys() - search_space(idle.typed, idle.given, {}) == {"width"}


def test_wrong_data_is_refused_before_a_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    complaint = said(capsys, "tune", "mlp", "--data", "table.csv", "--target", "c", code=2)
    assert len(complaint.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_folder_of_another_search_is_refused(found: Tuning, capsys: pytest.CaptureFixture[str]):
    before = {path: path.stat().st_mtime_ns for path in found.folder.rglob("*")}
    for words in (["mlp", *WORDS, "--dropout", "0.3"], ["mlp", *WORDS[:-1], "3"], ["cnn"]):
        complaint = said(capsys, "tune", *words, "--out", str(found.folder), code=2)
        assert complaint == (
            f"neuropil: the search in {found.folder} goes on as it was started, by `{found.settings['command']}`, "
            "but got another search: choose another folder, or repeat that command."
        )
    assert {path: path.stat().st_mtime_ns for path in found.folder.rglob("*")} == before


@pytest.mark.parametrize("file", ["study.json", "trials.jsonl"])
def test_a_damaged_folder_is_one_sentence(file: str, tmp_path: Path, found: Tuning):
    folder = Path(shutil.copytree(found.folder, tmp_path / "search"))
    unfinish(folder)
    (folder / file).write_text("{")
    with pytest.raises(RunError, match=f"{file} must be the JSON that neuropil wrote, but got a damaged file"):
        resume_tuning(folder)


def test_data_that_has_changed_is_refused(tmp_path: Path):
    table = tmp_path / "table.csv"
    lines = [f"{number},{number % 7},{'yes' if number % 3 else 'no'}" for number in range(80)]
    table.write_text("\n".join(["a,b,label", *lines]))
    folder = tmp_path / "search"
    search(folder, data=table, target="label", trials=2, epochs=1)
    unfinish(folder)
    table.write_text("\n".join(["a,b,label", *lines[:-1], "1,1,yes"]))
    with pytest.raises(RunError, match="needs the data that it was started with, but got data that has changed since"):
        resume_tuning(folder)


def test_json_for_other_programs(found: Tuning, capsys: pytest.CaptureFixture[str]):
    record = json.loads(said(capsys, "resume", str(found.folder), "--json"))
    assert record["run"] == str(found.folder / "best")
    assert record["trial"] == found.settings["best"]
    assert record["options"] == json.loads(json.dumps(found.chosen))
    assert [result["name"] for result in record["results"]] == ["tuned mlp", "default options"]


def test_what_was_done_to_the_data_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rows = (f"{1000 + 7 * number},{number + 0.5},{'yes' if number % 2 else 'no'}\n" for number in range(60))
    (tmp_path / "table.csv").write_text("id,x,answer\n" + "".join(rows))
    words = ["tune", "mlp", "--data", str(tmp_path / "table.csv"), "--target", "answer", "--hidden-sizes", "4"]
    words += ["--epochs", "2", "--trials", "2", "--no-report", "--out", str(tmp_path / "search")]
    _, complained = printed_and_complained(capsys, *words)
    notes = neuropil.load(tmp_path / "search/best").settings["facts"]["notes"]
    assert any(each.startswith("Column 'id' has another whole number in each row") for each in notes)
    assert [line for line in complained.splitlines() if line in notes] == notes
    assert json.loads(said(capsys, "resume", str(tmp_path / "search"), "--json"))["notes"] == notes


def test_show_has_the_trials_of_a_search_and_what_was_chosen(
    found: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(found.folder.parent)
    shown = said(capsys, "show", "search").splitlines()  # a name without a slash
    assert shown[:2] == ["search: a search over the options of mlp, seed 2", found.settings["command"]]
    best, rows = found.settings["best"], [line.split("\t") for line in shown]
    metrics = {row[0]: row[2] for row in rows if len(row) > 1 and row[1] in ("complete", "pruned")}
    assert metrics == {
        f"{each.number}" + " (best)" * (each.number == best): find_metric("loss").text(each.value or 0)
        for each in found.rows
    }
    assert {row[0] for row in rows if row[0].startswith("--")} == {flag_of(name) for name in found.space}
    assert found.settings["outcome"] in shown
    assert "Run: search/best" in shown
    record = json.loads(said(capsys, "show", "search", "--json"))
    assert (record["search"], record["best"], record["finished"]) == ("search", best, True)
    assert record["options"] == json.loads(json.dumps(found.chosen))
    assert [each["number"] for each in record["trials"]] == [1, 2, 3, 4, 5, 6]


def test_show_says_how_an_unfinished_search_goes_on(found: Tuning, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = shutil.copytree(found.folder, tmp_path / "a search")
    unfinish(folder)
    shown = said(capsys, "show", str(folder)).splitlines()
    assert shown[-1] == f"It is not finished: neuropil resume '{folder}'"
    assert [row.split("\t")[0] for row in shown[4:10]] == ["1", "2", "3", "4", "5", "6"]
