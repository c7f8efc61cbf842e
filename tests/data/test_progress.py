import pytest

from neuropil.data import progress
from neuropil.data.progress import tracked


@pytest.mark.parametrize("patience", [-1.0, 1000.0])
def test_tracking_changes_nothing(monkeypatch: pytest.MonkeyPatch, patience: float):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    assert list(tracked(range(10), "Counting")) == list(range(10))
