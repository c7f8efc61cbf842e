import torch

from neuropil.data.pairs.dataset import Pairs


def test_taking_pairs_keeps_sides_and_groups_together():
    pairs = Pairs(["a", "b", "c"], ["A", "B", "C"], ["x", "y", "z"], "letters")
    assert len(pairs) == 3
    assert pairs.take(torch.tensor([2, 0])) == Pairs(["c", "a"], ["C", "A"], ["z", "x"], "letters")


def test_pairs_without_groups_have_none_after_taking():
    assert Pairs(["a", "b"], ["A", "B"], (), "letters").take(torch.tensor([1])) == Pairs(["b"], ["B"], (), "letters")
