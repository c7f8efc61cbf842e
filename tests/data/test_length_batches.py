"""What is particular to sequences that come alone; with two sides they are batches of pairs, which have tests of their own."""

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.length_batches import LengthBatches, Sequences, arrange
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.protocols import Batch, Batches

sequences = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=40), min_size=1, max_size=60)


@dataclass(frozen=True)
class Alone:
    inputs: Sequences

    @property
    def lengths(self) -> Int64[Tensor, "example 1"]:
        return self.inputs.lengths[:, None]

    def batch(self, index: Int64[Tensor, " batch"]) -> Batch:
        return {"input": self.inputs.padded(index)}


def rows_of(batch: Batch) -> list[list[int]]:
    return [[token for token in row if token] for row in batch["input"].tolist()]


@settings(deadline=None, max_examples=60)
@given(sequences, st.integers(1, 16), st.integers(0, 99), st.booleans())
def test_a_pass_shows_each_sequence_once_within_the_budget(rows: list[list[int]], size: int, seed: int, shuffle: bool):
    batches = LengthBatches(Alone(Sequences.of(rows)), size, seed, shuffle=shuffle)
    shown = list(batches.epoch(3))
    assert isinstance(batches, Batches)
    assert len(shown) == len(batches)
    assert sorted(row for batch in shown for row in rows_of(batch)) == sorted(rows)
    assert all(batch["input"].numel() <= batches.budget or len(batch["input"]) == 1 for batch in shown)


@settings(deadline=None, max_examples=60)
@given(sequences, st.integers(1, 16), st.integers(0, 9))
def test_a_change_is_the_same_from_whatever_batch_on(rows: list[list[int]], size: int, start: int):
    def change(batch: Batch, generator: torch.Generator) -> Batch:
        return {"input": batch["input"] + torch.randint(100, batch["input"].shape, generator=generator)}

    batches = LengthBatches(Alone(Sequences.of(rows)), size, 7, shuffle=True, change=change)
    whole, tail = list(batches.epoch(1)), list(batches.epoch(1, start))
    assert all(torch.equal(a["input"], b["input"]) for a, b in zip(whole[start:], tail, strict=True))
    other = list(batches.epoch(2))
    assert not all(torch.equal(a["input"], b["input"]) for a, b in zip(whole, other, strict=True))


@settings(deadline=None, max_examples=60)
@given(sequences)
def test_sequences_come_back_as_they_were_given(rows: list[list[int]]):
    found = Sequences.of(rows)
    assert len(found) == len(rows)
    assert rows_of({"input": found.padded(torch.arange(len(rows)))}) == rows


def test_texts_are_changed_after_they_are_cut_into_tokens():
    tokenizer = Tokenizer.train(["abc"], "characters")
    found = Sequences.of_texts(["ab", "", "c"], tokenizer, lambda ids: [9, *ids])
    assert found.padded(torch.arange(3)).tolist() == [[9, 4, 5], [9, 0, 0], [9, 6, 0]]


def test_shelves_run_from_short_to_long():
    shelf, room = arrange(torch.tensor([[30], [1], [31], [200]]))
    assert shelf.tolist() == [1, 0, 1, 2]
    assert [width for (width,) in room] == sorted(width for (width,) in room)
    assert all(length <= room[place][0] for length, place in zip((30, 1, 31, 200), shelf.tolist(), strict=True))
