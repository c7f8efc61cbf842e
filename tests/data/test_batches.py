"""What is particular to sequences that come alone; those with two sides are tested as batches of pairs."""

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.batches import EncodedTexts, LengthBatches, Sequences, arrange, encode_texts, hide_tokens, shorten
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.protocols import PADDING, UNKNOWN, Batch, Batches

sequences = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=40), min_size=1, max_size=60)


@dataclass(frozen=True)
class Alone:
    inputs: Sequences

    def __len__(self) -> int:
        return len(self.inputs)

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


TOKENIZER = Tokenizer.train(["a b c d e f g h"], "words")


def test_long_texts_are_cut_at_either_side_and_counted():
    texts, targets = ["a b c", "d e", ""], torch.tensor([0, 1, 0])
    whole, end = (encode_texts(texts, targets, TOKENIZER, limit, "end") for limit in (3, 2))
    beginning, both = (encode_texts(texts, targets, TOKENIZER, 2, side) for side in ("beginning", "both"))
    a, b, c, d, e = TOKENIZER.encode(["a b c d e"])[0]
    everything = torch.arange(3)
    assert whole.inputs.padded(everything).tolist() == [[a, b, c], [d, e, 0], [UNKNOWN, 0, 0]]
    assert end.inputs.padded(everything).tolist() == [[b, c], [d, e], [UNKNOWN, 0]]
    assert beginning.inputs.padded(everything).tolist() == [[a, b], [d, e], [UNKNOWN, 0]]
    assert both.inputs.padded(everything).tolist() == [[a, c], [d, e], [UNKNOWN, 0]]
    assert (whole.too_long, end.too_long, beginning.too_long, both.too_long) == (0, 1, 1, 1)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(4, 99), max_size=20), st.integers(1, 30))
def test_a_text_is_cut_to_as_many_tokens_as_there_is_room_for(ids: list[int], limit: int):
    kept = min(len(ids), limit)
    assert shorten(ids, limit, "beginning") == ids[:kept]
    assert shorten(ids, limit, "end") == ids[len(ids) - kept :]
    both = shorten(ids, limit, "both")
    before = kept // 2 if kept == limit else kept
    assert both == ids[:before] + ids[len(ids) - (kept - before) :]


def test_texts_and_their_classes_stay_together():
    encoded = encode_texts(["a", "b c", "d"], torch.tensor([5, 6, 7]), TOKENIZER, 9, "end")
    batch = encoded.take(torch.tensor([2, 1])).batch(torch.tensor([1, 0]))
    assert batch["target"].tolist() == [6, 7]
    assert batch["input"].tolist() == [TOKENIZER.encode(["b c"])[0], [*TOKENIZER.encode(["d"])[0], PADDING]]


def test_tags_are_padded_where_tokens_are():
    encoded = EncodedTexts(Sequences.of([[4, 5, 6], [7]]), Sequences.of([[1, 2, 1], [3]]))
    batch = encoded.take(torch.tensor([1, 0])).batch(torch.tensor([0, 1]))
    assert batch["input"].tolist() == [[7, 0, 0], [4, 5, 6]]
    assert batch["target"].tolist() == [[3, 0, 0], [1, 2, 1]]


def test_hidden_tokens_are_as_many_as_asked_for_and_never_padding():
    tokens = torch.randint(4, 99, (200, 50)).masked_fill(torch.arange(50) >= 30, PADDING)
    batch = hide_tokens(0.2)({"input": tokens, "target": torch.arange(200)}, torch.Generator().manual_seed(0))
    hidden = batch["input"] == UNKNOWN
    assert 0.17 < hidden[:, :30].double().mean() < 0.23
    assert torch.equal(batch["input"][~hidden], tokens[~hidden])
    assert torch.equal(batch["input"] == PADDING, tokens == PADDING)
    assert torch.equal(batch["target"], torch.arange(200))
    assert torch.equal(hide_tokens(0.0)({"input": tokens}, torch.Generator())["input"], tokens)
