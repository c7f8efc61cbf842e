import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.batches import Sequences
from neuropil.data.pairs.batches import EncodedPairs, PairBatches, encode_pairs
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.protocols import Batch, Batches

LETTERS = "abcdefgh"
TOKENIZER = Tokenizer.train([LETTERS], "characters")

pairs = st.lists(st.tuples(st.text(LETTERS, max_size=40), st.text(LETTERS, max_size=40)), max_size=80)
sizes, seeds = st.integers(1, 20), st.integers(0, 10**9)


def encoded(pairs: list[tuple[str, str]], max_tokens: int | None = None) -> EncodedPairs:
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    return encode_pairs(Pairs(sources, targets, (), "letters"), TOKENIZER, TOKENIZER, max_tokens)


def varied(count: int) -> list[tuple[str, str]]:
    """Pairs of lengths as in a translation: spread wide, but alike on both sides."""
    lengths = (torch.randn(count, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([0.8, 0.2])).cumsum(
        1
    ).exp() * 15
    return [("a" * int(source), "b" * int(target)) for source, target in lengths.tolist()]


def texts_of(batch: Batch) -> list[tuple[str, str]]:
    return [
        (TOKENIZER.decode(source), TOKENIZER.decode(target))
        for source, target in zip(batch["source"].tolist(), batch["target"].tolist(), strict=True)
    ]


def same(a: list[Batch], b: list[Batch]) -> bool:
    return len(a) == len(b) and all(
        torch.equal(x[side], y[side]) for x, y in zip(a, b, strict=True) for side in ("source", "target")
    )


def num_tokens(batch: Batch) -> int:
    return batch["source"].numel() + batch["target"].numel()


def padding(batches: list[Batch]) -> float:
    return sum(int((values == 0).sum()) for batch in batches for values in batch.values()) / sum(
        map(num_tokens, batches)
    )


@settings(deadline=None, max_examples=60)
@given(pairs, sizes, seeds, st.integers(0, 1000), st.booleans())
def test_a_pass_shows_each_pair_once(pairs: list[tuple[str, str]], size: int, seed: int, number: int, shuffle: bool):
    batches = PairBatches(encoded(pairs), size, seed, shuffle=shuffle)
    shown = list(batches.epoch(number))
    assert isinstance(batches, Batches)
    assert len(shown) == len(batches)
    assert sorted(pair for batch in shown for pair in texts_of(batch)) == sorted(pairs)


@settings(deadline=None, max_examples=60)
@given(pairs, sizes, seeds)
def test_sides_begin_and_end_as_they_should_and_padding_comes_last(pairs: list[tuple[str, str]], size: int, seed: int):
    for batch in PairBatches(encoded(pairs), size, seed, shuffle=True).epoch(0):
        for side, before in (("source", []), ("target", [1])):
            rows = batch[side].tolist()
            texts = [text for text, _ in texts_of(batch)] if side == "source" else [text for _, text in texts_of(batch)]
            longest = max(map(len, texts)) + len(before) + 1
            for row, text in zip(rows, texts, strict=True):
                ids = [*before, *TOKENIZER.encode([text])[0], 2]
                assert row == ids + [0] * (longest - len(ids))
            assert batch[side].dtype == torch.int64


@settings(deadline=None, max_examples=60)
@given(pairs, sizes, seeds, st.integers(0, 9), st.integers(0, 9))
def test_a_pass_that_goes_on_from_a_batch_is_the_tail_of_the_whole_pass(
    pairs: list[tuple[str, str]], size: int, seed: int, number: int, start: int
):
    batches = PairBatches(encoded(pairs), size, seed, shuffle=True)
    assert same(list(batches.epoch(number, start)), list(batches.epoch(number))[start:])


@settings(deadline=None, max_examples=60)
@given(pairs, sizes, seeds, st.integers(0, 9))
def test_no_batch_has_more_tokens_than_its_budget_unless_one_pair_alone_has(
    pairs: list[tuple[str, str]], size: int, seed: int, number: int
):
    batches = PairBatches(encoded(pairs), size, seed, shuffle=True)
    total = sum(len(source) + 1 + len(target) + 2 for source, target in pairs)
    assert batches.budget <= size * total / max(len(pairs), 1)
    assert all(num_tokens(batch) <= batches.budget or len(batch["source"]) == 1 for batch in batches.epoch(number))


def test_batches_are_nearly_full_and_hold_about_as_many_pairs_as_asked_for():
    shown = list(PairBatches(encoded(varied(3_000)), 32, 0, shuffle=True).epoch(0))
    assert 27 <= 3_000 / len(shown) <= 32
    sizes = sorted(len(batch["source"]) for batch in shown)
    assert sizes[0] < 20 < 60 < sizes[-1]


def test_little_is_padding_where_random_batches_are_mostly_padding():
    pairs = encoded(varied(3_000))
    bucketed = list(PairBatches(pairs, 32, 0, shuffle=True).epoch(0))
    random = [
        pairs.batch(index) for index in torch.randperm(3_000, generator=torch.Generator().manual_seed(0)).split(32)
    ]
    assert padding(random) > 0.6
    assert padding(bucketed) < 0.1


def test_passes_differ_by_number_and_by_seed_and_repeat_for_both():
    pairs = encoded(varied(500))
    first, again, other = (PairBatches(pairs, 8, seed, shuffle=True) for seed in (7, 7, 8))
    assert same(list(first.epoch(3)), list(again.epoch(3)))
    assert not same(list(first.epoch(3)), list(first.epoch(4)))
    assert not same(list(first.epoch(3)), list(other.epoch(3)))


def test_pairs_meet_other_pairs_in_each_pass():
    texts = [(first + second, "x") for first in LETTERS for second in LETTERS]
    batches = PairBatches(encoded(texts), 8, 0, shuffle=True)
    groups = [{frozenset(texts_of(batch)) for batch in batches.epoch(number)} for number in range(2)]
    assert not groups[0] & groups[1]


def test_without_shuffling_all_passes_are_the_same_from_short_to_long():
    batches = PairBatches(encoded(varied(300)), 8, 0, shuffle=False)
    first = list(batches.epoch(0))
    assert same(first, list(batches.epoch(1)))
    assert first[0]["source"].shape[1] < first[-1]["source"].shape[1]


def test_pairs_with_too_many_tokens_are_left_out_and_counted():
    pairs = [("a" * 9, "b"), ("a" * 10, "b"), ("a", "b" * 8), ("a", "b" * 9), ("c", "d")]
    found = encoded(pairs, max_tokens=10)
    assert found.too_long == 2
    assert len(found) == 3
    assert texts_of(found.batch(torch.arange(3))) == [pairs[0], pairs[2], pairs[4]]
    assert encoded(pairs).too_long == 0


def test_taking_pairs_keeps_their_sides_together():
    pairs = [("a", "b"), ("cd", "e"), ("f", "gh")]
    assert texts_of(encoded(pairs).take(torch.tensor([2, 1])).batch(torch.tensor([1, 0]))) == [pairs[1], pairs[2]]


def test_tokens_are_kept_end_to_end_in_four_bytes_each():
    found = encoded([("abc", "d"), ("", "ef")])
    assert found.sources.tokens.dtype == torch.int32
    assert found.sources.lengths.tolist() == [4, 1]
    assert found.targets.lengths.tolist() == [3, 4]
    assert len(found.sources.tokens) == 4 + 1 + 1


def test_sequences_are_padded_in_the_order_asked_for():
    sequences = Sequences(torch.tensor([5, 6, 7, 8, 0], dtype=torch.int32), torch.tensor([0, 1]), torch.tensor([1, 3]))
    assert sequences.padded(torch.tensor([1, 0, 1])).tolist() == [[6, 7, 8], [5, 0, 0], [6, 7, 8]]


def test_batches_arrive_on_the_device():
    batch = next(PairBatches(encoded([("a", "b")]), 3, 0, shuffle=True, device="meta").epoch(0))
    assert {values.device.type for values in batch.values()} == {"meta"}


def test_no_pairs_are_no_batches():
    assert len(PairBatches(encoded([]), 8, 0, shuffle=True)) == 0
