"""A text read in pieces by parallel streams."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.corpus.streams import TextStreams
from neuropil.errors import InputError
from neuropil.protocols import PADDING


def text(length: int) -> torch.Tensor:
    return torch.arange(1, length + 1, dtype=torch.int32)


def joined(streams: TextStreams, number: int) -> dict[str, torch.Tensor]:
    batches = list(streams.epoch(number))
    return {name: torch.cat([batch[name] for batch in batches], 1) for name in ("input", "target")}


@settings(deadline=None, max_examples=60)
@given(length=st.integers(2, 200), streams=st.integers(1, 12), steps=st.integers(1, 30))
def test_held_out_text_is_read_once_and_whole(length: int, streams: int, steps: int):
    held_out = TextStreams(text(length), streams, steps)
    rows = joined(held_out, 0)
    there = rows["target"] != PADDING
    assert rows["input"][there].tolist() == list(range(1, length))
    assert rows["target"][there].tolist() == list(range(2, length + 1))
    assert (rows["input"][~there] == PADDING).all()
    assert len(list(held_out.epoch(0))) == len(held_out)


@settings(deadline=None, max_examples=60)
@given(length=st.integers(2, 300), streams=st.integers(1, 12), steps=st.integers(1, 30), number=st.integers(0, 5))
def test_training_rows_go_on_where_the_piece_before_ended_and_no_token_is_in_two_rows(
    length: int, streams: int, steps: int, number: int
):
    training = TextStreams(text(length), streams, steps, seed=3)
    rows = joined(training, number)
    assert (rows["target"] == rows["input"] + 1).all()
    assert (rows["input"].diff(dim=1) == 1).all()
    assert len(rows["input"].unique()) == rows["input"].numel()
    assert rows["input"].numel() >= length - 1 - training.most_skipped - training.streams
    assert len(list(training.epoch(number))) == len(training)


def test_a_pass_is_a_function_of_its_number_from_any_batch_on_and_only_its_first_batch_begins():
    training = TextStreams(text(1_000), 4, 16, seed=0)
    whole = list(training.epoch(2))
    later = list(training.epoch(2, start=5))
    assert all(torch.equal(a[name], b[name]) for a, b in zip(whole[5:], later, strict=True) for name in a)
    assert [bool(batch["begins"].all()) for batch in whole] == [True] + [False] * (len(whole) - 1)
    assert not any(batch["begins"].any() for batch in later)


def test_passes_cut_the_text_at_different_places():
    training = TextStreams(text(1_000), 4, 16, seed=0)
    assert len({int(next(training.epoch(number))["input"][0, 0]) for number in range(8)}) > 3


def test_a_stream_of_one_token_is_refused():
    with pytest.raises(InputError) as error:
        TextStreams(text(1), 2, 8)
    assert str(error.value) == "a text to read must have two tokens or more, but got 1: give more text."
