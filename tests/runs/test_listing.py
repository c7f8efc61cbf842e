"""The table of runs: read without PyTorch, whatever is in the directory."""

import itertools
import json
import math
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import neuropil
from neuropil.errors import InputError
from neuropil.runs import trash
from neuropil.runs.listing import curves, find_run, list_runs, thinned
from neuropil.runs.run import Run

COMMAND = "neuropil train mlp --hidden-sizes 8 --epochs 3"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("trained") / "mlp"
    return neuropil.train("mlp", out=folder, epochs=3, hidden_sizes=(8,), report=False, show_progress=False)


@pytest.fixture
def runs(trained: Run, tmp_path: Path) -> Path:
    shutil.copytree(trained.folder, tmp_path / "runs" / "mlp")
    return tmp_path / "runs"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_finished_run_has_its_headline_beside_the_strongest_baseline(runs: Path, trained: Run):
    (listed,) = list_runs(runs)
    assert (listed.name, listed.system, listed.kind, listed.state) == ("mlp", "mlp", "run", "finished")
    assert (listed.command, listed.seed, listed.created) == (COMMAND, 0, trained.settings["created"])
    own, baseline = trained.results[0], trained.results[1]
    assert listed.headline is not None
    assert (listed.headline.metric, listed.headline.value) == ("accuracy", own.metrics["accuracy"])
    assert (listed.headline.baseline, listed.headline.baseline_value) == (baseline.name, baseline.metrics["accuracy"])
    assert listed.headline.text == f"{100 * own.metrics['accuracy']:.2f} %"
    assert listed.headline.beaten is (own.metrics["accuracy"] > baseline.metrics["accuracy"])


def test_its_curve_is_the_validation_loss(runs: Path, trained: Run):
    (listed,) = list_runs(runs)
    assert listed.curve is not None
    assert (listed.curve.metric, listed.curve.part) == ("loss", "validation")
    assert listed.curve.points == [(row["step"], row["loss"]) for row in trained.rows if row["kind"] == "validation"]
    train = [(row["step"], row["loss"]) for row in trained.rows if row["kind"] == "train"]
    assert curves(runs / "mlp")["train"]["loss"] == train


def test_what_is_listed_is_json_without_infinities(runs: Path):
    change(runs / "mlp" / "metrics.jsonl", '"accuracy": ', '"accuracy": NaN, "was": ')
    (listed,) = list_runs(runs)
    assert listed.headline is not None
    assert listed.headline.value is None
    assert listed.headline.beaten is None
    assert json.loads(json.dumps(listed.to_dict(), allow_nan=False))["headline"]["value"] is None


def test_a_run_without_results_is_unfinished(runs: Path):
    lines = (runs / "mlp" / "metrics.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [line for line in lines if '"result"' not in line]
    (runs / "mlp" / "metrics.jsonl").write_text("".join(rows) + '{"kind": "train", "st', encoding="utf-8")
    (listed,) = list_runs(runs)
    assert (listed.state, listed.headline) == ("unfinished", None)
    assert listed.curve is not None
    assert len(listed.curve.points) == 3


def test_a_damaged_folder_says_why_and_spoils_no_other(runs: Path):
    shutil.copytree(runs / "mlp", runs / "other")
    (runs / "other" / "config.json").write_text("{", encoding="utf-8")
    shutil.copytree(runs / "mlp", runs / "rows")
    change(runs / "rows" / "metrics.jsonl", '{"kind": "train"', '{"kind" "train"')
    (runs / "no run").mkdir()
    (runs / ".hidden").mkdir()
    (runs / ".hidden" / "config.json").touch()
    found = {each.name: each for each in list_runs(runs)}
    assert {name: each.state for name, each in found.items()} == {
        "mlp": "finished",
        "other": "damaged",
        "rows": "damaged",
    }
    assert found["other"].reason == (
        f"{runs}/other/config.json must be the JSON that neuropil wrote, but got a damaged file (Expecting property "
        "name enclosed in double quotes: line 1 column 2 (char 1)): train again or restore it."
    )
    assert found["rows"].reason == (
        f"{runs}/rows/metrics.jsonl must hold the JSON that neuropil wrote on each line, but got line 1, which is "
        "damaged: restore the file or remove the line."
    )


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("config.json", '"format": 2', '"format": 1e999'),
        ("metrics.jsonl", '"loss": ', f'"loss": {HUGE}, "other": '),
    ],
)
def test_a_number_that_is_beyond_all_bounds_spoils_no_other(runs: Path, file: str, old: str, new: str):
    shutil.copytree(runs / "mlp", runs / "other")
    change(runs / "other" / file, old, new)
    assert {each.name: each.state for each in list_runs(runs)} == {"mlp": "finished", "other": "damaged"}


def test_what_is_no_deleted_run_in_the_trash_spoils_no_other(runs: Path):
    deleted = trash.delete_run(runs, "mlp")
    (runs / ".trash" / "\u00b2").mkdir()
    (runs / ".trash" / "13").touch()
    assert trash.deleted_runs(runs) == [deleted]


def test_a_search_is_listed_with_a_point_for_each_trial(runs: Path):
    folder = runs / "search"
    folder.mkdir()
    study = {"format": 1, "recipe": "mlp", "options": {}, "space": {}, "given": [], "seed": 3, "metric": "loss"}
    study |= {"command": "neuropil tune mlp", "created": "2099-01-01T00:00:00+00:00"}
    (folder / "study.json").write_text(json.dumps(study), encoding="utf-8")
    trials = [{"number": 0, "value": 0.5}, {"number": 1, "value": None}, {"number": 2, "value": 0.25}]
    (folder / "trials.jsonl").write_text("".join(json.dumps(each) + "\n" for each in trials), encoding="utf-8")
    listed, _ = list_runs(runs)
    assert (listed.name, listed.kind, listed.state, listed.seed) == ("search", "search", "unfinished", 3)
    assert listed.curve is not None
    assert (listed.curve.part, listed.curve.points) == ("trials", [(0, 0.5), (2, 0.25)])
    results = [{"name": "tuned mlp", "metrics": {"accuracy": 0.9}}, {"name": "default", "metrics": {"accuracy": 0.8}}]
    (folder / "study.json").write_text(json.dumps(study | {"results": results}), encoding="utf-8")
    listed, _ = list_runs(runs)
    assert listed.state == "finished"
    assert listed.headline is not None
    assert (listed.headline.value, listed.headline.baseline_value, listed.headline.beaten) == (0.9, 0.8, True)


def test_listing_imports_no_torch(runs: Path):
    program = (
        "import sys; from pathlib import Path; from neuropil.runs.listing import list_runs; import neuropil.runs.trash;"
        f"print(len(list_runs(Path({str(runs)!r}))), 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "1 False False\n"


def test_thinned_keeps_both_ends_evenly():
    points = [(step, float(step)) for step in range(1000)]
    few = thinned(points, 60)
    assert (len(few), few[0], few[-1]) == (60, points[0], points[-1])
    gaps = {after[0] - before[0] for before, after in itertools.pairwise(few)}
    assert gaps <= {16, 17}
    assert thinned(points[:60], 60) == points[:60]


def test_a_run_is_found_by_the_name_of_its_folder_alone(runs: Path):
    assert find_run(runs, "mlp") == runs / "mlp"
    with pytest.raises(InputError) as caught:
        find_run(runs, "../runs/mlp")
    assert str(caught.value) == ("a run must be one of those that are listed, but got '../runs/mlp': choose from mlp.")


# --- deleted, and brought back ----------------------------------------------------------------------------------------


def test_a_deleted_run_is_restored_as_it_was(runs: Path):
    before = {path.name: path.read_bytes() for path in (runs / "mlp").iterdir()}
    deleted = trash.delete_run(runs, "mlp")
    assert list_runs(runs) == []
    assert trash.deleted_runs(runs) == [deleted]
    assert trash.restore_run(runs, deleted.id) == "mlp"
    assert {path.name: path.read_bytes() for path in (runs / "mlp").iterdir()} == before
    assert trash.deleted_runs(runs) == []


def test_a_run_whose_name_was_taken_comes_back_with_a_number(runs: Path):
    deleted = trash.delete_run(runs, "mlp")
    (runs / "mlp").mkdir()
    assert trash.restore_run(runs, deleted.id) == "mlp-2"
    with pytest.raises(InputError) as caught:
        trash.restore_run(runs, deleted.id)
    assert str(caught.value) == (
        f"a run is restored from those that were deleted, but got {deleted.id!r}: "
        "runs are kept for seven days after they were deleted."
    )


def test_what_was_deleted_a_week_ago_is_gone_a_day_after_it_was_found_to_be(runs: Path):
    shutil.copytree(runs / "mlp", runs / "second")
    first = trash.delete_run(runs, "mlp")
    old = runs / trash.TRASH / str(int(first.id) - math.ceil(1000 * trash.KEPT_SECONDS) - 10_000)
    (runs / trash.TRASH / first.id).rename(old)
    second = trash.delete_run(runs, "second")
    assert [each.id for each in trash.deleted_runs(runs)] == [second.id, old.name]
    trash.empty_trash(runs, now=time.time() + trash.DAY + 10)
    assert trash.deleted_runs(runs) == [second]
    assert not old.exists()
