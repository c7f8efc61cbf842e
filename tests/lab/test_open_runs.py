"""Runs that views look at are opened once, and each waits for itself alone."""

import threading
from pathlib import Path

import pytest

from neuropil.errors import NeuropilError
from neuropil.lab.open_runs import MOST_OPENED, OpenRuns

SECONDS = 30


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs in the order in which they were loaded; a run is its path."""
    names: list[str] = []

    def load(path: Path) -> Path:
        names.append(path.name)
        return path

    monkeypatch.setattr("neuropil.runs.run.load", load)
    return names


def make(runs: Path, name: str) -> None:
    (runs / name).mkdir()
    (runs / name / "config.json").write_text("{}", encoding="utf-8")


def test_a_run_that_loads_slowly_is_not_waited_for_by_those_who_ask_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    begun, go_on = threading.Event(), threading.Event()

    def load(path: Path) -> Path:
        if path.name == "slow":
            begun.set()
            assert go_on.wait(SECONDS)
        return path

    def borrow(name: str) -> None:
        with runs.borrowed(name):
            pass

    monkeypatch.setattr("neuropil.runs.run.load", load)
    make(tmp_path, "slow")
    make(tmp_path, "fast")
    runs = OpenRuns(tmp_path)
    slow = threading.Thread(target=borrow, args=["slow"], daemon=True)
    slow.start()
    assert begun.wait(SECONDS)
    fast = threading.Thread(target=borrow, args=["fast"], daemon=True)
    fast.start()
    fast.join(5)
    assert not fast.is_alive()
    go_on.set()
    slow.join(SECONDS)
    assert not slow.is_alive()


def test_a_run_is_loaded_once_for_as_long_as_its_files_are_the_same(tmp_path: Path, loaded: list[str]):
    make(tmp_path, "a")
    runs = OpenRuns(tmp_path)
    for _ in range(3):
        with runs.borrowed("a"):
            pass
    assert loaded == ["a"]
    (tmp_path / "a" / "model.safetensors").touch()
    with runs.borrowed("a"):
        pass
    assert loaded == ["a", "a"]


def test_the_run_that_was_asked_longest_ago_is_closed(tmp_path: Path, loaded: list[str]):
    runs, names = OpenRuns(tmp_path), [str(number) for number in range(MOST_OPENED + 1)]
    for name in (*names, names[1], names[0]):
        if name not in loaded:
            make(tmp_path, name)
        with runs.borrowed(name):
            pass
    assert loaded == [*names, names[0]]
    assert len(runs.opened) == MOST_OPENED


def test_a_run_that_is_deleted_while_it_is_open_is_refused(tmp_path: Path):
    (tmp_path / "a").mkdir()
    runs = OpenRuns(tmp_path)
    with pytest.raises(NeuropilError), runs.borrowed("a"):
        pass
    (tmp_path / "a").rmdir()
    with pytest.raises(NeuropilError) as error, runs.borrowed("a"):
        pass
    assert str(error.value) == f"a run must be a folder in {tmp_path}, but got 'a'."
