import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.films.batches import FilmBatches
from neuropil.data.films.dataset import Films


def films(lengths: list[int]) -> Films:
    """Every frame has its own number for its pixels and its position."""
    total = sum(lengths)
    numbers = torch.arange(total)
    return Films(
        numbers.to(torch.uint8).reshape(total, 1, 1, 1).expand(total, 1, 2, 3).contiguous(),
        torch.tensor(lengths, dtype=torch.int64),
        torch.stack([numbers, -numbers], -1).float(),
        numbers % 3 == 0,
        [f"film {index}" for index in range(len(lengths))],
        (2, 3),
        "some films",
    )


LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=8)


@settings(deadline=None, max_examples=30)
@given(lengths=LENGTHS, data=st.data())
def test_a_film_that_is_taken_brings_all_its_frames(lengths: list[int], data: st.DataObject):
    whole = films(lengths)
    index = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=6))
    some = whole.take(torch.tensor(index))
    begins = whole.begins.tolist()
    expected = [frame for film in index for frame in range(begins[film], begins[film] + lengths[film])]
    assert some.frames[:, 0, 0, 0].tolist() == expected
    assert some.positions[:, 0].tolist() == expected
    assert some.hidden.tolist() == [frame % 3 == 0 for frame in expected]
    assert some.names == [f"film {film}" for film in index]
    assert some.lengths.tolist() == [lengths[film] for film in index]


@settings(deadline=None, max_examples=30)
@given(lengths=LENGTHS, longest=st.integers(1, 7))
def test_pieces_are_the_same_frames(lengths: list[int], longest: int):
    pieces = films(lengths).pieces(longest)
    assert pieces.frames[:, 0, 0, 0].tolist() == list(range(sum(lengths)))
    assert int(pieces.lengths.sum()) == sum(lengths)
    assert int(pieces.lengths.max()) <= longest
    assert len(pieces) == sum(-(-length // longest) for length in lengths)


def test_a_piece_whose_positions_nobody_knows_is_left_out():
    whole = films([4, 2])
    whole.positions[2:4] = torch.nan
    whole.positions[5, 1] = torch.nan
    pieces = whole.pieces(2)
    assert pieces.lengths.tolist() == [2, 2]
    assert pieces.frames[:, 0, 0, 0].tolist() == [0, 1, 4, 5]
    assert pieces.known.tolist() == [True, True, True, False]


@settings(deadline=None, max_examples=30)
@given(lengths=LENGTHS, size=st.integers(1, 4), shuffle=st.booleans())
def test_a_pass_has_every_frame_once(lengths: list[int], size: int, shuffle: bool):
    batches = FilmBatches(films(lengths), size, seed=2, shuffle=shuffle)
    found = list(batches.epoch(1))
    assert len(found) == len(batches)
    seen: list[int] = []
    for batch in found:
        there = torch.arange(batch["input"].shape[1]) < batch["length"][:, None]
        seen += batch["input"][there][:, 0, 0, 0].tolist()
        torch.testing.assert_close(batch["target"][there][:, 0], batch["input"][there][:, 0, 0, 0].float())
        assert batch["target"][~there].isnan().all()
        assert int(batch["length"].max()) == batch["input"].shape[1]
    assert sorted(seen) == list(range(sum(lengths)))


@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_pass_goes_on_from_any_batch(start: int):
    batches = FilmBatches(films([3, 1, 4, 2, 2, 5]), 2, seed=1, shuffle=True)
    for one, other in zip(list(batches.epoch(4))[start:], batches.epoch(4, start), strict=True):
        assert torch.equal(one["input"], other["input"])
