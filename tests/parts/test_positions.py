"""Positions: the formula, any length, and what attention would not know without them."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.parts.multi_head import MultiHeadAttention
from neuropil.parts.positions import PositionName, Positions, sinusoidal


@settings(deadline=None, max_examples=40)
@given(num_positions=st.integers(0, 20), width=st.integers(1, 17), start=st.sampled_from([0, 3, 1_000_000]))
def test_sinusoids_equal_the_published_formula(num_positions: int, width: int, start: int):
    table = sinusoidal(num_positions, width, start=start)
    assert table.shape == (num_positions, width)
    for row in range(num_positions):
        for column in range(width):
            angle = (start + row) / 10_000 ** (2 * (column // 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[row, column].item() == pytest.approx(expected, abs=1e-6)


def test_the_likeness_of_two_sinusoids_depends_on_their_distance_alone():
    """sin a sin b + cos a cos b = cos(a − b)"""
    table = sinusoidal(60, 32).double()
    likeness = table @ table.T
    for distance in (0, 1, 7, 40):
        diagonal = likeness.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5, rtol=0)
    torch.testing.assert_close(likeness.diagonal(), torch.full((60,), 16.0, dtype=torch.float64), atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=25)
@given(length=st.integers(0, 40), start=st.integers(0, 40), longest=st.integers(0, 12))
def test_sinusoids_have_no_longest_text(length: int, start: int, longest: int):
    x = torch.randn(2, length, 6)
    positions = Positions("sinusoidal", 6, longest)
    torch.testing.assert_close(positions(x, start), x + sinusoidal(length, 6, start=start))


def test_a_text_in_pieces_gets_the_positions_of_the_whole():
    x = torch.randn(2, 9, 6)
    for kind in ("sinusoidal", "learned", "none"):
        positions = Positions(kind, 6, 9)
        torch.testing.assert_close(torch.cat([positions(x[:, :4]), positions(x[:, 4:], start=4)], 1), positions(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_longer_tables_have_the_precision_of_the_model(dtype: torch.dtype):
    positions = Positions("sinusoidal", 6, 4).to(dtype)
    assert positions(torch.zeros(1, 9, 6, dtype=dtype)).dtype == dtype
    assert positions(torch.zeros(1, 3, 6, dtype=dtype)).dtype == dtype


def test_only_learned_positions_are_learned_and_saved():
    assert [len(list(Positions(kind, 6, 4).parameters())) for kind in ("sinusoidal", "learned", "none")] == [0, 1, 0]
    assert [list(Positions(kind, 6, 4).state_dict()) for kind in ("sinusoidal", "learned", "none")] == [
        [],
        ["table"],
        [],
    ]


def test_learned_positions_start_as_large_as_embeddings_and_get_gradients():
    torch.manual_seed(0)
    positions = Positions("learned", 64, 100)
    assert abs(positions.table.norm(dim=-1).mean().item() - 1) < 0.05
    positions(torch.zeros(1, 10, 64), start=5).sum().backward()
    assert positions.table.grad is not None
    assert positions.table.grad.any(-1).nonzero().flatten().tolist() == list(range(5, 15))


def test_learned_positions_refuse_what_they_have_not_learned():
    with pytest.raises(InputError) as error:
        Positions("learned", 6, 4)(torch.zeros(1, 3, 6), start=2)
    assert str(error.value) == (
        "learned positions reach as far as they were trained, to 4 tokens, but got 5: "
        "shorten the text, or train with longer texts or sinusoidal positions."
    )


@settings(deadline=None, max_examples=10)
@given(kind=st.sampled_from(["sinusoidal", "learned", "none"]), time=st.integers(3, 8))
def test_without_positions_self_attention_only_shuffles_what_is_shuffled_and_with_them_it_notices(
    kind: PositionName, time: int
):
    torch.manual_seed(time)
    positions, attention = Positions(kind, 8, 8).double(), MultiHeadAttention(8, 2).double()
    x = torch.randn(2, time, 8, dtype=torch.float64)
    order = torch.arange(time).roll(1)
    difference = (attention(positions(x[:, order])) - attention(positions(x))[:, order]).abs().max().item()
    assert difference < 1e-12 if kind == "none" else difference > 1e-4
