import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.splits import apportion, hold_out
from neuropil.randomness import seeded


def numbered(labels: list[int] | None, count: int = 0) -> Examples:
    """Examples whose only feature is their own number; without labels, a regression."""
    if labels is None:
        targets, classes = torch.zeros(count, 1), ()
    else:
        targets, classes = torch.tensor(labels), tuple(map(str, range(max(labels) + 1)))
    inputs = torch.arange(len(targets), dtype=torch.float32)[:, None]
    return Examples(inputs, targets, Schema(kind="table", shape=(1,), classes=classes), "numbers")


def numbers(examples: Examples) -> list[int]:
    return examples.inputs.flatten().int().tolist()


labels = st.lists(st.integers(0, 4), min_size=2, max_size=200)
shares = st.floats(0.0, 0.9)


@settings(deadline=None)
@given(labels, shares, st.integers(0, 1000))
def test_the_two_parts_are_disjoint_and_cover_everything_in_order(labels: list[int], share: float, seed: int):
    kept, held = hold_out(numbered(labels), share, seeded(seed))
    assert sorted(numbers(kept) + numbers(held)) == list(range(len(labels)))
    assert numbers(kept) == sorted(numbers(kept))
    assert numbers(held) == sorted(numbers(held))


@settings(deadline=None)
@given(labels, shares, st.integers(0, 1000))
def test_each_class_gives_its_share_within_one_and_keeps_one(labels: list[int], share: float, seed: int):
    kept, held = hold_out(numbered(labels), share, seeded(seed))
    for label in set(labels):
        assert abs(held.targets.eq(label).sum().item() - share * labels.count(label)) <= 1
        assert kept.targets.eq(label).any()


@settings(deadline=None)
@given(st.lists(st.integers(10, 500), min_size=1, max_size=20), st.floats(0.05, 0.9))
def test_the_total_is_the_share_of_all(sizes: list[int], share: float):
    quota = apportion(torch.tensor(sizes), share)
    assert abs(int(quota.sum()) - share * sum(sizes)) <= 0.5 + 1e-9


def test_targets_stay_with_their_inputs():
    examples = numbered([0, 1, 2] * 20)
    for part in hold_out(examples, 0.3, seeded(0)):
        assert part.targets.tolist() == [number % 3 for number in numbers(part)]


def test_a_regression_is_split_at_random_by_the_seed():
    examples = numbered(None, count=100)
    held = [numbers(hold_out(examples, 0.2, seeded(seed))[1]) for seed in (1, 1, 2)]
    assert len(held[0]) == 20
    assert held[0] == held[1] != held[2]


def test_a_tiny_share_still_holds_one_out_and_no_share_none():
    assert len(hold_out(numbered([0, 0, 1, 1]), 0.01, seeded(0))[1]) == 1
    assert len(hold_out(numbered([0, 0, 1, 1]), 0.0, seeded(0))[1]) == 0
