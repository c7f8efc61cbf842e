import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.splits import (
    TEST,
    TRAIN,
    VALIDATION,
    apportion,
    assign_parts,
    choose,
    last_part,
    num_held_out,
    part_of,
    text_key,
)
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


def hold_out(examples: Examples, share: float, seed: int) -> tuple[Examples, Examples]:
    """What is kept and what is scored, where no example is a copy of another."""
    part = assign_parts(numbers(examples), 0.0, share, seed, strata=examples.strata)
    kept, held = (examples.take((part == number).nonzero().flatten()) for number in (TRAIN, TEST))
    return kept, held


labels = st.lists(st.integers(0, 4), min_size=2, max_size=200)
shares = st.floats(0.0, 0.9)


@settings(deadline=None)
@given(labels, shares, st.integers(0, 1000))
def test_the_two_parts_are_disjoint_and_cover_everything_in_order(labels: list[int], share: float, seed: int):
    kept, held = hold_out(numbered(labels), share, seed)
    assert sorted(numbers(kept) + numbers(held)) == list(range(len(labels)))
    assert numbers(kept) == sorted(numbers(kept))
    assert numbers(held) == sorted(numbers(held))


@settings(deadline=None)
@given(labels, shares, st.integers(0, 1000))
def test_each_class_gives_its_share_within_one_and_keeps_one(labels: list[int], share: float, seed: int):
    kept, held = hold_out(numbered(labels), share, seed)
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
    for part in hold_out(examples, 0.3, 0):
        assert part.targets.tolist() == [number % 3 for number in numbers(part)]


def test_a_regression_is_split_at_random_by_the_seed():
    examples = numbered(None, count=100)
    held = [numbers(hold_out(examples, 0.2, seed)[1]) for seed in (1, 1, 2)]
    assert len(held[0]) == 20
    assert held[0] == held[1] != held[2]


def test_a_tiny_share_still_holds_one_out_and_no_share_none():
    assert len(hold_out(numbered([0, 0, 1, 1]), 0.01, 0)[1]) == 1
    assert len(hold_out(numbered([0, 0, 1, 1]), 0.0, 0)[1]) == 0


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 2)), min_size=2, max_size=60), st.integers(0, 99)
)
def test_copies_share_a_part_and_one_of_each_stratum_is_learned_from(rows: list[tuple[str, int]], seed: int):
    texts, strata = [text for text, _ in rows], torch.tensor([stratum for _, stratum in rows])
    part = assign_parts(texts, 0.1, 0.2, seed, strata=strata).tolist()
    assert len(set(zip(texts, part, strict=True))) == len(set(texts))
    assert set(part) <= {TRAIN, VALIDATION, TEST}
    assert TRAIN in part


def test_shares_are_exact_within_each_stratum():
    strata = torch.arange(3).repeat_interleave(torch.tensor([100, 200, 50]))
    part = assign_parts(range(350), 0.1, 0.2, 0, strata=strata)
    for stratum, size in enumerate((100, 200, 50)):
        here = part[strata == stratum]
        assert (here == TEST).sum() == size // 5
        assert (here == VALIDATION).sum() == size * 4 // 50


def test_a_copy_counts_in_the_stratum_of_the_first():
    """Ten texts of one class, each disputed by a copy of the other class, are one stratum of ten."""
    texts = [*range(10), *range(10)]
    part = assign_parts(texts, 0.0, 0.5, 0, strata=torch.tensor([0] * 10 + [1] * 10))
    assert part[:10].tolist() == part[10:].tolist()
    assert (part[:10] == TEST).sum() == 5


def test_parts_follow_the_seed():
    first, again, other = (assign_parts(range(200), 0.1, 0.2, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


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


def test_texts_are_compared_as_a_model_may_read_them():
    assert text_key("Good film") == text_key(" good  FILM\n") == text_key("ｇｏｏｄ film")
    assert text_key("e\N{COMBINING ACUTE ACCENT}té") == text_key("ÉTÉ")
    assert text_key("good film") != text_key("goodfilm")


def test_a_group_that_is_too_large_is_passed_over_and_the_smallest_taken_if_all_are():
    held = choose(torch.zeros(12, dtype=torch.int64), 0.25, seeded(0), torch.tensor([20, *[1] * 10, 10]))
    assert held.tolist() == [False, *[True] * 10, False]
    held = choose(torch.zeros(3, dtype=torch.int64), 0.01, seeded(0), torch.tensor([9, 5, 7]))
    assert held.tolist() == [False, True, False]


def test_one_example_of_each_stratum_is_kept_and_one_is_held_out_if_any_can_be():
    assert apportion(torch.tensor([1]), 0.9).tolist() == [0]
    assert apportion(torch.tensor([1, 5]), 0.5).tolist() == [0, 3]
    assert apportion(torch.tensor([4, 3]), 0.01).sum() == 1
    assert apportion(torch.tensor([4, 3]), 0.0).sum() == 0


def test_a_share_above_nothing_is_one_example_at_least_and_no_more_than_the_most():
    assert [num_held_out(10, share, 3) for share in (0.0, 0.01, 0.2, 0.9)] == [0, 1, 2, 3]


def test_groups_count_one_each_unless_they_have_sizes():
    strata = torch.tensor([0, 0, 0, 0, 1, 1])
    alike = choose(strata, 0.5, seeded(0, "a"), torch.ones_like(strata))
    assert torch.equal(choose(strata, 0.5, seeded(0, "a")), alike)
    assert alike.dtype == torch.bool
    assert [int(alike[strata == stratum].sum()) for stratum in (0, 1)] == [2, 1]
