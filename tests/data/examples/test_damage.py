import pytest
import torch

from neuropil.data.examples.damage import Side, inverted, uncovered


@pytest.mark.parametrize(
    ("side", "rows"),
    [("top", ["...", "###", "###", "###"]), ("bottom", ["###", "###", "###", "..."]), ("left", [".##"] * 4)],
)
def test_a_side_is_covered(side: Side, rows: list[str]):
    known = uncovered((1, 4, 3), side, 0.3)
    assert ["".join("#" if seen else "." for seen in row) for row in known[0].tolist()] == rows


def test_nothing_and_all_may_be_covered():
    assert uncovered((1, 4, 3), "right", 0.0).all()
    assert not uncovered((1, 4, 3), "right", 1.0).any()


def test_inverted_pixels_are_as_many_as_were_asked_for():
    pictures = torch.full((1, 1, 100, 100), 30, dtype=torch.uint8)
    found = inverted(pictures, 0.2, torch.Generator().manual_seed(0))
    assert found.unique().tolist() == [30, 225]
    assert (found == 225).double().mean().item() == pytest.approx(0.2, abs=0.02)
