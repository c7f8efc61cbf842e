"""Texts that come, grow and go in slots of one decoder get the logits that each gets alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.models.recurrent import CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts.multi_head import remove_heads
from neuropil.sampling.text.slots import RecurrentSlots, SlottedDecoder, TransformerSlots

TOKENS, CONTEXT, SLOTS = 12, 24, 4
CELLS: tuple[CellName, ...] = ("rnn", "lstm", "gru", "mingru")


def gpt2() -> GPT2:
    torch.manual_seed(0)
    config = GPT2Config(width=24, heads=3, layers=2, feed_forward=40, context=CONTEXT, vocabulary_size=TOKENS)
    model = GPT2(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    remove_heads(model, {"blocks.1.attention": {0}})
    return model


def recurrent(cell: CellName) -> RecurrentNetwork:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 8, "layers": 2, "embedding_size": 6, "vocabulary_size": TOKENS}
    model = RecurrentNetwork(RecurrentNetworkConfig(cell=cell, shape="aligned", output_size=TOKENS, **sizes)).eval()
    torch.nn.init.normal_(model.output.weight, std=2.0)
    return model


MODELS = {"gpt2": gpt2(), **{cell: recurrent(cell) for cell in CELLS}}


def slotted(name: str, num_slots: int = SLOTS) -> SlottedDecoder:
    model = MODELS[name]
    return TransformerSlots(model, num_slots) if isinstance(model, GPT2) else RecurrentSlots(model, num_slots)


def whole(name: str) -> Callable[[list[int]], Tensor]:
    """The logits after a text that is read at once."""
    model = MODELS[name]
    if isinstance(model, GPT2):
        return lambda text: model(torch.tensor([text]))[0, -1]
    return lambda text: model.stream(torch.tensor([text])).outputs[0, -1]


token = st.integers(1, TOKENS - 1)
changes = st.lists(
    st.one_of(
        st.integers(0, SLOTS - 1),
        st.tuples(st.integers(0, SLOTS - 1), st.lists(token, min_size=1, max_size=6)),
        st.dictionaries(st.integers(0, SLOTS - 1), token, min_size=1),
    ),
    max_size=12,
)
"""A slot is cleared; one reads a piece; or several get a token each."""


@pytest.mark.parametrize("name", MODELS)
@given(changes=changes)
@settings(deadline=None, max_examples=25)
def test_a_text_has_the_logits_that_it_has_alone(name: str, changes: list[int | tuple | dict[int, int]]):
    decoder, expected = slotted(name), whole(name)
    texts: list[list[int]] = [[] for _ in range(SLOTS)]
    for change in changes:
        if isinstance(change, int):
            decoder.clear(change)
            texts[change] = []
            continue
        if isinstance(change, tuple):
            slot, piece = change
            if len(texts[slot]) + len(piece) > CONTEXT:
                continue
            texts[slot] += piece
            logits = {slot: decoder.read(slot, piece)}
        else:
            rows = {slot: new for slot, new in change.items() if len(texts[slot]) < CONTEXT}
            for slot, new in rows.items():
                texts[slot].append(new)
            logits = dict(zip(rows, decoder.step(list(rows), list(rows.values())), strict=True)) if rows else {}
        with torch.no_grad():
            for slot, found in logits.items():
                torch.testing.assert_close(torch.from_numpy(found), expected(texts[slot]), atol=1e-5, rtol=1e-5)
        assert [decoder.length(slot) for slot in range(SLOTS)] == [len(text) for text in texts]


@pytest.mark.parametrize("cell", CELLS)
@given(steps=st.lists(st.dictionaries(st.integers(0, SLOTS - 1), token, min_size=1), max_size=8))
@settings(deadline=None, max_examples=25)
def test_no_bit_of_a_recurrent_models_logits_depends_on_the_other_slots(cell: CellName, steps: list[dict[int, int]]):
    together = slotted(cell)
    alone = [slotted(cell) for _ in range(SLOTS)]
    for step in steps:
        found = together.step(list(step), list(step.values()))
        for row, (slot, new) in enumerate(step.items()):
            assert np.array_equal(found[row], alone[slot].step([slot], [new])[0])


@pytest.mark.parametrize("name", MODELS)
def test_it_says_what_it_is(name: str):
    decoder = slotted(name)
    assert isinstance(decoder, SlottedDecoder)
    assert (decoder.num_slots, decoder.vocab_size) == (SLOTS, TOKENS)
    assert decoder.context == (CONTEXT if name == "gpt2" else None)
    assert decoder.read(0, [1]).dtype == decoder.step([0], [1]).dtype == np.float32


def test_a_slots_memory_is_known_before_it_is_used():
    # two layers of three heads and of two, each with a key and a value of 8 numbers for a token
    assert slotted("gpt2").slot_bytes(10) == 10 * (3 + 2) * 2 * 8 * 4
    assert slotted("lstm").slot_bytes(10) == slotted("lstm").slot_bytes(1_000) == 2 * 2 * 8 * 4


@pytest.mark.parametrize("name", ["gpt2", "lstm"])
@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (lambda decoder: decoder.clear(4), "slots are numbers from 0 to 3, but got 4."),
        (lambda decoder: decoder.read(-1, [1]), "slots are numbers from 0 to 3, but got -1."),
        (lambda decoder: decoder.read(0, []), "a piece of a prompt has one token or more, but got none."),
        (lambda decoder: decoder.read(0, [1, 12]), "tokens are numbers from 0 to 11, but got 12."),
        (lambda decoder: decoder.step([], []), "a step has one row or more, but got none."),
        (lambda decoder: decoder.step([0, 1], [1]), "a step has one token for each slot, but got 1 for 2 slots."),
        (lambda decoder: decoder.step([2, 2], [1, 1]), "a step appends one token to a slot, but got the slots [2, 2]."),
        (lambda decoder: decoder.step([0, 1], [1, -1]), "tokens are numbers from 0 to 11, but got -1."),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    name: str, use: Callable[[SlottedDecoder], object], sentence: str
):
    decoder = slotted(name)
    with pytest.raises(InputError) as error:
        use(decoder)
    assert str(error.value) == sentence
    assert [decoder.length(slot) for slot in range(SLOTS)] == [0] * SLOTS


def test_a_full_context_takes_no_further_token_and_the_others_get_none():
    decoder = slotted("gpt2")
    decoder.read(0, [1] * CONTEXT)
    for use in (lambda: decoder.step([1, 0], [1, 1]), lambda: decoder.read(1, [1] * (CONTEXT + 1))):
        with pytest.raises(InputError) as error:
            use()
        assert str(error.value) == "the context length of this model is 24 tokens, but got 25: shorten the text."
    assert (decoder.length(0), decoder.length(1)) == (CONTEXT, 0)


def test_what_a_text_left_in_a_slot_is_never_seen_even_if_it_is_no_number():
    decoder = TransformerSlots(gpt2(), SLOTS)
    for cache in decoder.caches:
        cache.fill_(torch.nan)
    decoder.read(1, [1, 2, 3, 4])
    assert np.isfinite(decoder.step([0, 1], [5, 6])).all()


def test_a_decoder_without_slots_is_refused():
    with pytest.raises(InputError) as error:
        slotted("gpt2", 0)
    assert str(error.value) == "a decoder has one slot or more, but got 0."
