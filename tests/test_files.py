import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from neuropil.errors import StorageError
from neuropil.files import LOCK, is_locked, locked, make_folder, remove_parts, replacing, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    path = tmp_path / "report.html"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError), replacing(path) as part:
        part.write_text("half, then \ud800", encoding="utf-8")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_new_file_has_ordinary_rights_and_its_folders_are_made(tmp_path: Path):
    ordinary = tmp_path / "ordinary"
    ordinary.write_text("")
    path = tmp_path / "a" / "b" / "text"
    write_text(path, "σ")
    assert path.read_text(encoding="utf-8") == "σ"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)


def test_a_file_takes_its_place_only_when_its_bytes_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    flushed = list[tuple[str, bool]]()

    def fsync(number: int) -> None:
        flushed.append((Path(f"/proc/self/fd/{number}").read_text(), (tmp_path / "text").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_text(tmp_path / "text", "whole")
    assert flushed == [("whole", False)]


def test_what_a_killed_save_left_is_removed_and_nothing_else(tmp_path: Path):
    code = """
import os, signal, sys
from pathlib import Path
from neuropil.files import replacing
with replacing(Path(sys.argv[1])) as part:
    part.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    for name in ("model.safetensors", "trials/a/checkpoint.safetensors"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=False)
    kept = [tmp_path / name for name in ("model.safetensors", "own.part", ".hidden", "trials/b.txt.part")]
    for path in kept:
        path.write_text("whole")
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 6
    remove_parts(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    remove_parts(tmp_path / "not there")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc on this machine")
def test_a_folder_where_none_can_be_made_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for folder, why in (
        (Path("/proc/foo/run"), "No such file or directory"),
        (tmp_path / "file/run", "Not a directory"),
    ):
        with pytest.raises(StorageError) as error:
            make_folder(folder)
        assert (
            str(error.value) == f"a folder must be where one can be made, but got '{folder}' ({why}): choose another."
        )


def test_a_folder_is_locked_while_a_process_works_in_it(tmp_path: Path):
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
    (tmp_path / LOCK).touch()  # as a killed process leaves it
    assert not is_locked(tmp_path)


def test_a_rank_alone_is_a_process_of_its_own_and_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with locked(tmp_path):
        assert (tmp_path / LOCK).exists()
