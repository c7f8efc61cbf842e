"""A disk that is full or read-only: one sentence says what to do, what was finished stays, and a run goes on to the
same bits when there is room."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import neuropil
from command_line import said
from neuropil.data.copies import save_hashes
from neuropil.errors import StorageError
from neuropil.files import append_text, locked, replacing, write_text
from neuropil.lab.queue.jobs import lock
from neuropil.runs.run import Run, load
from neuropil.runs.start import complete
from neuropil.tasks.study import write_arrays
from neuropil.training.weights import write_tensors

OPTIONS = ["--epochs", "2", "--hidden-sizes", "16", "--batch-size", "512", "--checkpoint-seconds", "0"]
RIGHTS = "choose another folder, or change its rights"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, options = tmp_path_factory.mktemp("runs") / "whole", {"epochs": 2, "hidden_sizes": (16,), "batch_size": 512}
    return neuropil.train("mlp", **options, checkpoint_seconds=0, report=False, show_progress=False, out=folder)


def go_on(folder: Path) -> Run:
    run = load(folder)
    with locked(folder):
        return complete(run, run.experiment(), False, report=False)


@pytest.mark.parametrize("size", [4, 16, 20, 40, 44])
def test_a_run_that_fills_the_disk_goes_on_when_there_is_room(
    size: int, whole: Run, disk: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
):
    """In kilobytes: there is room for fewer or more of its files, and no smaller number of them is there half."""
    folder = disk(f"size={size}k") / "run"
    complaint = said(capsys, "train", "mlp", *OPTIONS, "--no-report", "--out", str(folder), code=2)
    found = re.search(r"must have room for (\S+), but got (\d\S* \w+) free of (\d\S* \w+) needed", complaint)
    assert found is not None, complaint
    rule = f"neuropil: {folder} must have room for {found[1]}, but got {found[2]} free of {found[3]} needed"
    way = "" if found[1] == "config.json" else f", then go on with `neuropil resume {folder}`"
    assert complaint.splitlines()[-1] == f"{rule}: make room on that disk{way}."
    assert ".lock" not in os.listdir(folder.parent)
    disk("size=1m")
    if not way:
        assert not folder.exists()
        return
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    run = go_on(folder)
    assert run.weights.read_bytes() == whole.weights.read_bytes()
    assert [row | {"seconds": 0} for row in run.rows] == [row | {"seconds": 0} for row in whole.rows]


def test_a_report_for_which_there_is_no_room_leaves_a_run_that_can_be_used(
    whole: Run, disk: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
):
    folder = disk("size=90k") / "run"
    shutil.copytree(whole.folder, folder)
    complaint = said(capsys, "report", str(folder), code=2)
    way = f"make room on that disk, then go on with `neuropil resume {folder}`."
    assert complaint.splitlines()[-1].startswith(f"neuropil: {folder} must have room for report.html, but got ")
    assert complaint.endswith(way)
    run = load(folder)
    assert run.finished
    assert run.rows == whole.rows
    assert run.predict(torch.zeros(1, 1, 8, 8)).labels == whole.predict(torch.zeros(1, 1, 8, 8)).labels
    disk("size=1m")
    assert said(capsys, "resume", str(folder)).splitlines()[-1] == f"Report: {folder}/report.html"


NO_ROOM = r"{} must have room for \S+, but got [0-9.]+ \w+ free( of [0-9.]+ \w+ needed)?: make room on that disk\."


def test_every_way_of_writing_says_that_there_is_no_room(whole: Run, disk: Callable[[str], Path]):
    folder, noise = disk("size=4k"), np.random.default_rng(0).normal(size=9999)
    (folder / "full").write_bytes(bytes(4096))
    ways: dict[str, Callable[[], object]] = {
        "text": lambda: write_text(folder / "text", "words"),
        "line": lambda: append_text(folder / "full", "word\n"),
        "tensors": lambda: write_tensors(folder / "x.safetensors", {"x": torch.ones(9)}, {}),
        "array": lambda: save_hashes(folder, ["key"]),
        "arrays": lambda: write_arrays(folder / "x.npz", x=noise),
        "zip": lambda: whole.save(folder / "run.zip"),
    }
    for way in ways.values():
        with pytest.raises(StorageError) as error:
            way()
        assert re.fullmatch(NO_ROOM.format(folder), str(error.value)), error.value
    shutil.copyfile(whole.save(folder.parent / "run.zip"), (disk("size=100k") / "run.zip"))
    (folder / "full").write_bytes(bytes(40_000))
    disk("size=64k")
    with pytest.raises(StorageError, match=NO_ROOM.format(folder)):
        load(folder / "run.zip")
    assert sorted(os.listdir(folder)) == ["full", "run.zip"]


def test_a_disk_without_place_for_another_file_says_so(disk: Callable[[str], Path]):
    folder = disk("size=1m,nr_inodes=2")
    (folder / "one").touch()
    with pytest.raises(StorageError) as error:
        write_text(folder / "two", "words")
    got = "1.05 MB free of 5 bytes needed, in as many files as it can hold"
    assert str(error.value) == f"{folder} must have room for two, but got {got}: make room on that disk."


def test_a_read_only_disk_is_refused_before_anything_is_computed_and_its_runs_are_used(
    whole: Run, disk: Callable[[str], Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    folder = disk("size=1m")
    shutil.copytree(whole.folder, folder / "whole")
    shutil.copytree(whole.folder, folder / "cut")
    lines = (folder / "cut" / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "cut" / "metrics.jsonl").write_text("".join(line for line in lines if '"result"' not in line))
    whole.save(folder / "sent.zip")
    disk("ro")
    monkeypatch.chdir(folder)

    def refused(where: object) -> str:
        return f"neuropil: {where} must be writable, but got a file system that is read-only: {RIGHTS}"

    new = str(folder / "new" / "run")
    assert said(capsys, "train", "mlp", "--out", new, code=2) == f"{refused(new)}."
    assert said(capsys, "train", "mlp", code=2) == f"{refused('runs')}."
    assert said(capsys, "tune", "mlp", "--out", new, code=2) == f"{refused(new)}."
    assert said(capsys, "resume", "cut", code=2) == f"{refused('cut')}."
    assert said(capsys, "report", "whole", code=2) == f"{refused('whole')}."
    assert said(capsys, "evaluate", "sent.zip", code=2) == f"{refused('.')}."
    assert said(capsys, "lab", "--runs", str(folder), "--no-open", code=2) == f"{refused(folder / '.lab')}."
    with pytest.raises(StorageError):
        lock(folder)
    assert "accuracy" in said(capsys, "evaluate", "whole")
    assert neuropil.load("whole").predict(torch.zeros(1, 1, 8, 8)).labels


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_of_another_user_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tmp_path.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(StorageError) as error:
            write_text(tmp_path / "text", "words")
        complaint = said(capsys, "train", "mlp", "--out", str(tmp_path / "run"), code=2)
    finally:
        os.seteuid(0)
    assert str(error.value) == f"{tmp_path} must be writable, but got no right to write there: {RIGHTS}."
    assert complaint == f"neuropil: {tmp_path / 'run'} must be writable, but got no right to write there: {RIGHTS}."


def test_an_error_of_something_else_stays_what_it_is(tmp_path: Path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "text"):
        (tmp_path / "not there").read_text()
    assert os.listdir(tmp_path) == []
