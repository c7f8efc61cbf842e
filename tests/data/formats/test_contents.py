import pytest

from neuropil.data.formats import contents as reading
from neuropil.data.formats.contents import last_part, part_of, tracked


def test_the_part_is_known_by_any_of_its_usual_names():
    assert [part_of([word]) for word in ("train", "val", "dev", "t10k", "testing", "letters")] == [
        "train",
        "validation",
        "validation",
        "test",
        "test",
        "train",
    ]


def test_a_model_is_scored_on_the_part_that_it_saw_least_of():
    assert last_part(["test", "train", "validation"]) == "test"
    assert last_part(["validation", "train"]) == "validation"
    assert last_part(["train"]) == "train"


@pytest.mark.parametrize("patience", [-1.0, 1000.0])
def test_tracking_changes_nothing(monkeypatch: pytest.MonkeyPatch, patience: float):
    monkeypatch.setattr(reading, "PATIENCE", patience)
    assert list(tracked(range(10), "Counting")) == list(range(10))
