"""GPT-2: the published sizes, reading a token at a time, rows of different lengths, and the end of the context."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, SIZES, GPT2Config
from neuropil.parts.parameters import count_parameters

CONFIG = GPT2Config(width=24, heads=3, layers=2, feed_forward=40, context=16, vocabulary_size=31)


@pytest.fixture(scope="module")
def model() -> GPT2:
    torch.manual_seed(0)
    return GPT2(CONFIG).eval()


@pytest.mark.parametrize(
    ("size", "published"),
    [("small", 124_439_808), ("medium", 354_823_168), ("large", 774_030_080), ("xl", 1_557_611_200)],
)
def test_sizes_have_as_many_parameters_as_published(size: str, published: int):
    with torch.device("meta"):
        model = GPT2(SIZES[size])
    assert count_parameters(model) == published
    assert sum(row.count for row in model.parameter_table()) == published


def test_without_tying_the_output_has_a_matrix_of_its_own():
    with torch.device("meta"):
        model = GPT2(dataclasses.replace(SIZES["small"], tied=False))
    assert count_parameters(model) == 124_439_808 + 50_257 * 768
    assert sum(row.count for row in model.parameter_table()) == count_parameters(model)


def test_what_ends_a_block_begins_smaller_by_the_root_of_twice_the_layers():
    torch.manual_seed(0)
    block = GPT2(dataclasses.replace(CONFIG, width=96, layers=8)).blocks[3]
    assert block.feed_forward.inner.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert block.attention.output.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert block.feed_forward.outer.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)


def test_no_token_sees_a_later_one(model: GPT2):
    tokens = torch.randint(31, (2, 10))
    changed = tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 31
    assert torch.equal(model(tokens)[:, :6], model(changed)[:, :6])
    assert not torch.equal(model(tokens)[:, 6:], model(changed)[:, 6:])


@settings(deadline=None, max_examples=25)
@given(
    pieces=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    batch=st.integers(1, 3),
    room=st.sampled_from([None, 1, 3, 16]),
)
def test_reading_in_pieces_gives_what_one_pass_gives(model: GPT2, pieces: list[int], batch: int, room: int | None):
    tokens = torch.randint(31, (batch, sum(pieces)))
    state, whole = model.begin(room), model(tokens)
    for piece in tokens.split(pieces, 1):
        logits = model.step(piece, state)
        assert (logits - whole[:, state.length - 1]).abs().max() < 1e-5


@settings(deadline=None, max_examples=25)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), more=st.integers(0, 4))
def test_rows_filled_up_in_front_are_read_as_if_they_stood_alone(model: GPT2, lengths: list[int], more: int):
    longest = max(lengths)
    texts = [torch.randint(31, (length + more,)) for length in lengths]
    present = torch.arange(longest) >= longest - torch.tensor(lengths)[:, None]
    prompt = torch.stack(
        [torch.cat([torch.full((longest - n,), 7), text[:n]]) for n, text in zip(lengths, texts, strict=True)]
    )
    state = model.begin()
    logits = [model.step(prompt, state, present)]
    logits += [
        model.step(torch.stack([text[n + i] for n, text in zip(lengths, texts, strict=True)])[:, None], state)
        for i in range(more)
    ]
    for row, (length, text) in enumerate(zip(lengths, texts, strict=True)):
        alone = model(text[None])[0, length - 1 :]
        assert (torch.stack([step[row] for step in logits]) - alone).abs().max() < 1e-5
    padded = model(prompt, present)
    for row, (length, text) in enumerate(zip(lengths, texts, strict=True)):
        assert (padded[row, longest - length :] - model(text[None, :length])[0]).abs().max() < 1e-5


def test_rows_can_be_dropped_repeated_and_reordered(model: GPT2):
    tokens = torch.randint(31, (3, 5))
    present = torch.arange(5) >= torch.tensor([[0], [2], [1]])
    state = model.begin()
    model.step(tokens, state, present)
    state.reorder(torch.tensor([2, 2, 0]))
    following = torch.randint(31, (3, 1))
    logits = model.step(following, state)
    for row, before in enumerate([2, 2, 0]):
        alone = torch.cat([tokens[before][present[before]], following[row]])
        assert (logits[row] - model(alone[None])[0, -1]).abs().max() < 1e-5


def test_a_text_that_is_longer_than_the_context_is_refused(model: GPT2):
    said = "the context length of this model is 16 tokens, but got 17: shorten the text."
    with pytest.raises(InputError) as error:
        model(torch.zeros(1, 17, dtype=torch.int64))
    assert str(error.value) == said
    state = model.begin()
    model.step(torch.zeros(1, 16, dtype=torch.int64), state)
    with pytest.raises(InputError) as error:
        model.step(torch.zeros(1, 1, dtype=torch.int64), state)
    assert str(error.value) == said


def test_a_refused_step_leaves_the_state_as_it_was(model: GPT2):
    tokens, state = torch.randint(31, (1, 12)), model.begin()
    model.step(tokens[:, :10], state)
    with pytest.raises(InputError, match="of this model is 16 tokens"):
        model.step(torch.zeros(1, 9, dtype=torch.int64), state)
    assert (model.step(tokens[:, 10:], state) - model(tokens)[:, -1]).abs().max() < 1e-5


def test_what_fills_up_takes_no_room_in_the_context(model: GPT2):
    state = model.begin()
    present = torch.tensor([[False] * 10 + [True] * 10])
    tokens = torch.randint(31, (1, 20))
    assert (model.step(tokens, state, present) - model(tokens[:, 10:])[:, -1]).abs().max() < 1e-5
