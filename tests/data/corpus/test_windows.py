"""Windows of a text: nothing is padding, nothing is learned twice in a pass, and every token is scored once."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neuropil.data.corpus.windows import SlidingWindows, TextWindows
from neuropil.errors import InputError

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
