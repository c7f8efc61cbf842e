import os
import stat
from pathlib import Path

import pytest

from neuropil.files import replacing, write_text


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
