"""Recurrent layers in blocks: run whole, in pieces, and a step at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.models.recurrent import CELLS, CellName, SequenceConfig
from neuropil.parts.recurrent_blocks import RecurrentBlocks

NAMES: list[CellName] = ["rnn", "lstm", "gru", "mingru"]


def blocks(name: CellName, seed: int = 0) -> RecurrentBlocks:
    torch.manual_seed(seed)
    return RecurrentBlocks(CELLS[name], 3, 4, layers=2).eval()


@settings(deadline=None, max_examples=30)
@given(name=st.sampled_from(NAMES), cut=st.integers(0, 7), seed=st.integers(0, 2**16))
def test_pieces_and_single_steps_are_the_whole(name: CellName, cut: int, seed: int):
    recurrence = blocks(name, seed)
    x = torch.randn(2, 7, 3)
    with torch.no_grad():
        whole = recurrence(x)
        first = recurrence(x[:, :cut])
        second = recurrence(x[:, cut:], first.states)
        states, steps = recurrence.initial(x), []
        for t in range(7):
            y, states = recurrence.step(x[:, t], states)
            steps.append(y)
    torch.testing.assert_close(torch.cat([first.outputs, second.outputs], 1), whole.outputs, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(torch.stack(steps, 1), whole.outputs, atol=1e-5, rtol=1e-4)
    for a, b, c in zip(whole.states, second.states, states, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(a, c, atol=1e-5, rtol=1e-4)


@settings(deadline=None, max_examples=30)
@given(name=st.sampled_from(NAMES), lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_padding_changes_nothing_and_is_zero(name: CellName, lengths: list[int]):
    recurrence = blocks(name)
    x = torch.randn(len(lengths), 6, 3)
    with torch.no_grad():
        padded = recurrence(x, lengths=torch.tensor(lengths))
        for row, length in enumerate(lengths):
            alone = recurrence(x[row : row + 1, :length])
            torch.testing.assert_close(padded.outputs[row : row + 1, :length], alone.outputs, atol=1e-5, rtol=1e-4)
            assert not padded.outputs[row, length:].any()
            for ours, theirs in zip(padded.states, alone.states, strict=True):
                torch.testing.assert_close(ours.h[row : row + 1], theirs.h, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_in_the_padding_reaches_no_gradient(name: CellName):
    recurrence = blocks(name)
    x = torch.randn(2, 6, 3)
    x[1, 2:] = torch.nan
    recurrence(x, lengths=torch.tensor([6, 2])).outputs.square().sum().backward()
    assert all(
        torch.isfinite(parameter.grad).all() for parameter in recurrence.parameters() if parameter.grad is not None
    )


def test_a_block_whose_nets_are_silent_only_hands_on_what_it_reads():
    recurrence = blocks("mingru")
    with torch.no_grad():
        for block in recurrence.blocks:
            for parameter in block.parameters():
                parameter.zero_()
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(recurrence(x).outputs, recurrence.norm(recurrence.enter(x)))


def test_two_directions_are_refused():
    with pytest.raises(InputError) as error:
        SequenceConfig(residual=True, bidirectional=True)
    assert (
        str(error.value)
        == "residual blocks read in one direction, but got bidirectional=True as well: choose one of the two."
    )
