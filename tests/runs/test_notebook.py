from pathlib import Path
from urllib.request import urlopen

import pytest

from neuropil.errors import InputError, RunError
from neuropil.runs.notebook import LabFrame, frame, lab_of


def test_a_view_is_framed_by_a_lab_of_its_own(tmp_path: Path):
    shown = frame(tmp_path / "my run", "attention")
    address, _, view = str(shown).partition("#")
    assert view == "/view/attention?run=my%20run&embedded=1"
    with urlopen(address) as answer:  # noqa: S310
        assert "frame-ancestors 'self' http://localhost:*" in answer.headers["content-security-policy"]
        assert b"neuropil lab" in answer.read()
    assert str(frame(tmp_path / "other", "gates")).startswith(address)  # the same lab
    lab_of.cache_clear()
    assert lab_of(tmp_path) == address  # also for another notebook
    with pytest.raises(InputError) as refused:
        frame(tmp_path / "my run", "atention")
    assert str(refused.value) == "a view must be one of the lab's, but got 'atention': did you mean 'attention'?"


def test_the_address_is_escaped():
    assert "&quot;" in LabFrame('http://x/"')._repr_html_()


def test_a_lab_that_does_not_start_says_why(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError) as refused:
        lab_of(tmp_path / "file")
    rule = f"--runs must be a folder, which may be new, but got the file {str(tmp_path / 'file')!r}"
    assert str(refused.value) == f"the lab could not be started, but got neuropil: {rule}."
