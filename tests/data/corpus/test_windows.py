"""Windows of a text: nothing is padding, nothing is learned twice in a pass, and every token is scored once."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neuropil.data.corpus import windows as windows_of
from neuropil.data.corpus.windows import BlockOrder, SlidingWindows, TextWindows, batched
from neuropil.errors import InputError
from neuropil.randomness import seeded

shapes = given(length=st.integers(2, 200), size=st.integers(1, 7), context=st.integers(1, 50))


@shapes
@example(length=30, size=1, context=14)
@settings(deadline=None)
def test_a_pass_reads_windows_that_do_not_overlap_and_go_on_by_one(length: int, size: int, context: int):
    windows = TextWindows(torch.arange(length, dtype=torch.int32), size, context, seed=3)
    batches = list(windows.epoch(0))
    assert len(batches) == len(windows)
    inputs = torch.cat([batch["input"] for batch in batches])
    assert torch.equal(torch.cat([batch["target"] for batch in batches]), inputs + 1)
    assert inputs.shape[1] == min(context, length - 1)
    assert len(inputs.unique()) == inputs.numel()
    assert inputs.numel() >= (length - 1) / 2


@given(length=st.integers(2, 200), context=st.integers(1, 50), start=st.integers(0, 5))
@settings(deadline=None)
def test_a_pass_can_be_entered_anywhere_and_differs_from_the_next(length: int, context: int, start: int):
    windows = TextWindows(torch.arange(length), 2, context, seed=1)
    whole = list(windows.epoch(4))
    for batch, again in zip(whole[start:], windows.epoch(4, start), strict=True):
        assert torch.equal(batch["input"], again["input"])


def test_passes_cut_the_text_at_other_places():
    windows = TextWindows(torch.arange(1_000), 1, 50, seed=0)
    begins = {int(batch["input"][0, 0]) % 50 for number in range(20) for batch in windows.epoch(number)}
    assert len(begins) > 5


@shapes
@settings(deadline=None)
def test_every_token_but_the_first_is_scored_once_and_in_order(length: int, size: int, context: int):
    windows = SlidingWindows(torch.arange(length), size, context)
    batches = list(windows.epoch(0))
    assert len(batches) == len(windows)
    scored = torch.cat([batch["target"][batch["scored"]] for batch in batches])
    assert torch.equal(scored, torch.arange(1, length))
    for batch in batches:
        assert torch.equal(batch["target"], batch["input"] + 1)
        assert batch["input"].shape[1] == min(context, length - 1)


def test_a_scored_token_has_half_a_window_before_it():
    for batch in SlidingWindows(torch.arange(500), 4, 20).epoch(0):
        before = batch["target"] - batch["input"][:, :1]
        assert ((before > 10) | (batch["input"][:, :1] == 0))[batch["scored"]].all()


def test_a_single_token_is_refused():
    with pytest.raises(InputError) as error:
        SlidingWindows(torch.zeros(1, dtype=torch.int64), 1, 4)
    assert str(error.value) == "a text to read must have two tokens or more, but got 1: give more text."


# --- the order of a long text -----------------------------------------------------------------------------------------

orders = given(
    count=st.integers(1, 200), per_block=st.integers(1, 20), per_group=st.integers(1, 60), seed=st.integers(0, 99)
)


def ordered(order: BlockOrder, seed: int, start: int = 0) -> torch.Tensor:
    return torch.cat([torch.empty(0, dtype=torch.int64), *order.groups(seeded(seed), (seed, 7), start)])


@orders
def test_every_window_is_in_the_order_once(count: int, per_block: int, per_group: int, seed: int):
    order = BlockOrder(count, per_block, per_group)
    found = ordered(order, seed)
    assert found.sort().values.tolist() == list(range(count))
    assert torch.equal(found, ordered(order, seed))


@orders
def test_an_order_goes_on_from_any_place(count: int, per_block: int, per_group: int, seed: int):
    order = BlockOrder(count, per_block, per_group)
    whole = ordered(order, seed)
    for start in (0, 1, count // 2, count - 1, count):
        assert torch.equal(ordered(order, seed, start), whole[start:])


@orders
def test_windows_are_read_from_the_blocks_of_one_group_at_a_time(count: int, per_block: int, per_group: int, seed: int):
    order = BlockOrder(count, per_block, per_group)
    blocks = max(per_group // per_block, 1)
    for group in order.groups(seeded(seed), (seed, 7)):
        assert len((group // per_block).unique()) <= (blocks if count > per_group else count)


def test_what_is_one_group_is_shuffled_as_a_whole():
    assert torch.equal(ordered(BlockOrder(100, 7, 100), 3), torch.randperm(100, generator=seeded(3)))


def test_blocks_and_what_is_in_them_change_places_from_pass_to_pass():
    order = BlockOrder(1_000, 10, 100)
    first, second = (torch.cat([*order.groups(seeded(0, number), (0, number))]) for number in range(2))
    assert len(set(first[:100].tolist()) & set(second[:100].tolist())) < 40
    assert (first.diff().abs() == 1).double().mean() < 0.1


@given(sizes=st.lists(st.integers(0, 20), max_size=6), size=st.integers(1, 9))
def test_batches_take_from_the_next_group_what_one_lacks(sizes: list[int], size: int):
    numbers = torch.arange(sum(sizes))
    found = list(batched(numbers.split(sizes) if sizes else [], size))
    assert torch.equal(torch.cat([numbers[:0], *found]), numbers)
    assert all(len(batch) == size for batch in found[:-1])
    assert all(0 < len(batch) <= size for batch in found)


@given(size=st.integers(1, 7), context=st.integers(1, 9), block=st.integers(1, 40), blocks=st.integers(1, 4))
def test_a_pass_over_a_long_text_resumes_at_any_batch(size: int, context: int, block: int, blocks: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows_of, "BLOCK", block)
        patch.setattr(windows_of, "GROUP", block * blocks)
        windows = TextWindows(torch.arange(200, dtype=torch.int32), size, context, seed=5)
        whole = list(windows.epoch(2))
        assert len(whole) == len(windows)
        inputs = torch.cat([batch["input"] for batch in whole])
        assert len(inputs.unique()) == inputs.numel() == windows.windows * windows.context
        for start in {0, 1, len(whole) // 2, len(whole) - 1, len(whole)}:
            later = list(windows.epoch(2, start))
            assert len(later) == len(whole) - start
            for a, b in zip(whole[start:], later, strict=True):
                assert torch.equal(a["input"], b["input"])
                assert torch.equal(a["target"], b["target"])
