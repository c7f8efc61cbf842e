"""A process is killed before each change that it makes to a folder, and in the middle of its files: what it leaves is
whole or not there, and going on gives what an undisturbed process gives."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from kill_points import KillPoints
from neuropil.files import remove_parts
from neuropil.lab.queue.job import Job
from neuropil.runs.listing import list_runs
from neuropil.runs.run import load
from neuropil.runs.trash import DAY, KEPT_SECONDS, delete_run, deleted_runs, restore_run
from neuropil.training.history import read_history

TRAIN = """
from neuropil.runs.start import train
options = {"epochs": 2, "hidden_sizes": (16,), "batch_size": 512, "updates": 7}
train("mlp", **options, checkpoint_seconds=0, previews=True, report=False, show_progress=False, out=folder / "run")
"""
GO_ON = """
from neuropil.runs.run import load
from neuropil.files import locked
from neuropil.runs.start import complete
run = load(folder / "run")
with locked(run.folder):
    complete(run, run.experiment(), False, report=False)
"""


@pytest.fixture(scope="module")
def undisturbed(mortal: KillPoints, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A run, and how many changes its process made."""
    folder = tmp_path_factory.mktemp("undisturbed")
    ending = mortal.run(TRAIN, folder)
    assert not ending.said
    return folder / "run", ending.changes


def read_whole(run: Path) -> None:
    """Every file that is there is read to its end."""
    for path in run.glob("*"):
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".safetensors":
            with safe_open(path, framework="np") as file:
                for name in file.keys():  # noqa: SIM118 (it is no mapping)
                    file.get_tensor(name)
        elif path.suffix == ".jsonl":
            read_history(path)
        elif path.suffix == ".npy":
            np.load(path)


def rows(run: Path) -> list[dict[str, Any]]:
    """Apart from the time that they took."""
    return [{name: each for name, each in row.items() if name != "seconds"} for row in load(run).rows]


def survives(mortal: KillPoints, undisturbed: Path, folder: Path, **moment: int) -> None:
    folder.mkdir()
    assert mortal.run(TRAIN, folder, **moment).killed
    run = folder / "run"
    read_whole(run)
    known = (run / "config.json").exists()
    assert [each.state for each in list_runs(folder)] in ([["unfinished"], ["finished"]] if known else [[]])
    assert not mortal.run(GO_ON if known else TRAIN, folder).said
    assert sorted(os.listdir(run)) == sorted(os.listdir(undisturbed))
    for name in ("model.safetensors", "training_examples.npy"):
        assert (run / name).read_bytes() == (undisturbed / name).read_bytes(), moment
    assert rows(run) == rows(undisturbed), moment


def test_a_run_killed_before_one_of_its_changes_is_completed_to_the_same_bits(
    mortal: KillPoints, undisturbed: tuple[Path, int], tmp_path: Path
):
    run, changes = undisturbed
    for change in range(2, changes + 1, 9):
        survives(mortal, run, tmp_path / str(change), change=change)


@pytest.mark.slow
def test_a_run_killed_before_any_of_its_changes_is_completed_to_the_same_bits(
    mortal: KillPoints, undisturbed: tuple[Path, int], tmp_path: Path
):
    run, changes = undisturbed
    for change in range(2, changes + 1):
        survives(mortal, run, tmp_path / str(change), change=change)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "checkpoint.safetensors", "metrics.jsonl"])
def test_a_run_killed_inside_one_of_its_files_is_completed_to_the_same_bits(
    name: str, mortal: KillPoints, undisturbed: tuple[Path, int], tmp_path: Path
):
    run, _ = undisturbed
    survives(mortal, run, tmp_path / "cut", size=(run / name).stat().st_size // 2)


# --- one file, one folder ---------------------------------------------------------------------------------------------

JOB = Job("1", "mlp", "mlp", ["neuropil", "train", "mlp"], 1.0, 2.0).to_dict()
WRITTEN: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "report": (
        "report.html",
        """
from neuropil.inspection.report.page import Report, Section, Text, write_report
write_report(folder / "report.html", Report("title", "summary", [Section("words", [Text("word " * 4000)])]))
""",
        lambda path: path.read_text(encoding="utf-8").endswith("</html>\n"),
    ),
    "tokenizer": (
        "tokenizer.json",
        """
from neuropil.data.tokenizers.learned import Tokenizer
Tokenizer.train(["one two three"] * 9, "words").save(folder / "tokenizer.json")
""",
        lambda path: json.loads(path.read_text(encoding="utf-8")),
    ),
    "study": (
        "study.json",
        """
from neuropil.runs.tuning.folder import Tuning
Tuning(folder, {"format": 1}).write(recipe="mlp", options=list(range(2000)))
""",
        lambda path: json.loads(path.read_text(encoding="utf-8")),
    ),
    "trials": (
        "trials.jsonl",
        """
from neuropil.runs.tuning.folder import Tuning
from neuropil.training.search import Trial
Tuning(folder, {}).save(Trial(1, {"learning_rate": 0.1}))
""",
        lambda path: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()],
    ),
    "job of the lab": (
        "1.json",
        f"""
from neuropil.lab.queue.job import Job
Job(**{JOB}).write(folder)
""",
        Job.read,
    ),
    "upload": (
        "table.csv",
        """
from neuropil.files import replacing
from neuropil.lab.uploads import Uploads
uploads = Uploads(folder)
with uploads.writing(uploads.begin(), "table.csv") as file:
    for _ in range(20):
        file.write(b"1,2" * 100)
""",
        lambda path: path.stat().st_size == 6000,
    ),
    "cache": (
        "neuropil/*.json",
        """
import os
os.environ["XDG_CACHE_HOME"] = str(folder)
from neuropil.training import precision
precision.remember(precision.Bfloat16("", 1.0))
""",
        lambda path: json.loads(path.read_text(encoding="utf-8")),
    ),
    "arrays": (
        "traces.npz",
        """
import numpy as np
from neuropil.tasks.study import write_arrays
write_arrays(folder / "traces.npz", a=np.random.default_rng(0).normal(size=3000))
""",
        lambda path: np.load(path)["a"].shape == (3000,),
    ),
    "word vectors": (
        "vectors.txt",
        """
import torch
from neuropil.pretrained.word_vectors import write_vectors
write_vectors(folder / "vectors.txt", ["one", "two"], torch.ones(2, 999))
""",
        lambda path: len(path.read_text(encoding="utf-8").splitlines()) in (2, 3),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_that_was_being_written_is_the_old_or_the_new_one(name: str, mortal: KillPoints, tmp_path: Path):
    """First where there is none, then where there is one."""
    file, code, read = WRITTEN[name]
    whole = tmp_path / "whole"
    whole.mkdir()
    changes = mortal.run(code, whole).changes
    size = next(whole.rglob(file)).stat().st_size
    moments = [{"change": number} for number in range(1, changes + 1)] + [{"size": size // 2}, {"size": 0}]
    for new in (True, False):
        deaths = 0
        for number, moment in enumerate(moments):
            folder = tmp_path / f"{new}{number}"
            folder.mkdir() if new else shutil.copytree(whole, folder)
            deaths += mortal.run(code, folder, **moment).killed
            for found in folder.rglob(file):
                assert read(found)
            assert not mortal.run(code, folder).said
            remove_parts(folder)
            files = [path.name for path in folder.rglob("*") if path.is_file()]
            assert set(files) == {path.name for path in whole.rglob("*") if path.is_file()}
        assert deaths == len(moments) if new else deaths >= 5  # folders that are there need not be made


ARCHIVE = """
from neuropil.runs.run import load
load(folder / "run").save(folder / "run.zip")
"""
UNPACK = """
from neuropil.runs.run import load
load(folder / "sent.zip").predictor
"""


def test_an_archive_is_packed_and_unpacked_whole_or_not_at_all(
    mortal: KillPoints, undisturbed: tuple[Path, int], tmp_path: Path
):
    shutil.copytree(undisturbed[0], tmp_path / "run")
    for change in range(1, 4):
        assert mortal.run(ARCHIVE, tmp_path, change=change).killed
        assert not (tmp_path / "run.zip").exists()
    packed = mortal.run(ARCHIVE, tmp_path)
    assert not packed.said
    old = (tmp_path / "run.zip").read_bytes()
    for moment in ({"size": 1000}, {"change": packed.changes - 1}):
        assert mortal.run(ARCHIVE, tmp_path, **moment).killed
        assert (tmp_path / "run.zip").read_bytes() == old
    shutil.copyfile(tmp_path / "run.zip", tmp_path / "sent.zip")
    unpacked = mortal.run(UNPACK, tmp_path)
    assert not unpacked.said
    for change in range(1, unpacked.changes):
        shutil.rmtree(tmp_path / "sent")
        assert mortal.run(UNPACK, tmp_path, change=change).killed
        assert [each.name for each in list_runs(tmp_path)] in (["run"], ["run", "sent"])
        assert not mortal.run(UNPACK, tmp_path).said


def test_what_is_deleted_restored_or_thrown_away_is_never_half_there(
    mortal: KillPoints, undisturbed: tuple[Path, int], tmp_path: Path
):
    def runs(name: str) -> Path:
        shutil.copytree(undisturbed[0], tmp_path / name / "mlp")
        return tmp_path / name

    delete = "from neuropil.runs.trash import delete_run\ndelete_run(folder, 'mlp')"
    restore = "from neuropil.runs.trash import *\nrestore_run(folder, deleted_runs(folder)[0].id)"
    now = time.time() + KEPT_SECONDS + 2 * DAY
    empty = (
        f"from neuropil.runs.trash import *\nfor now in ({now - 1.5 * DAY}, {now}):\n    empty_trash(folder, now=now)"
    )
    count = mortal.run(delete, runs("d")).changes
    for change in range(1, count + 1):
        folder = runs(f"delete{change}")
        assert mortal.run(delete, folder, change=change).killed
        assert list_runs(folder)[0].state == "finished"
        delete_run(folder, "mlp")
        assert len(deleted_runs(folder)) == 1
        assert restore_run(folder, deleted_runs(folder)[0].id) == "mlp"
        assert not load(folder / "mlp").predictor.model.training
    for change in range(1, 3):
        folder = runs(f"restore{change}")
        delete_run(folder, "mlp")
        assert mortal.run(restore, folder, change=change).killed
        assert len(deleted_runs(folder)) + len(list_runs(folder)) == 1
    folder = runs("e")
    delete_run(folder, "mlp")
    for change in range(1, mortal.run(empty, folder).changes + 1):
        folder = runs(f"empty{change}")
        delete_run(folder, "mlp")
        assert mortal.run(empty, folder, change=change).killed
        for deleted in deleted_runs(folder):
            read_whole(folder / ".trash" / deleted.id / "mlp")
            assert load(folder / ".trash" / deleted.id / "mlp").finished
        assert not mortal.run(empty, folder).said
        assert os.listdir(folder / ".trash") == []
