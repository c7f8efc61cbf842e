"""Texts in slots of one kernel have the very bits that each has alone."""

import sys
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.parts.multi_head import remove_heads
from neuropil.sampling.gpt2_cpu.decoder import FastDecoder, Precision
from neuropil.sampling.gpt2_cpu.slots import FastSlots
from neuropil.sampling.text.slots import SlottedDecoder

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
TOKENS, CONTEXT, SLOTS = 50, 160, 19


def gpt2() -> GPT2:
    """Widths with columns left over behind the registers', and heads that are not the same number in every layer."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"width": 60, "heads": 3, "layers": 2, "feed_forward": 75, "context": CONTEXT}
    model = GPT2(GPT2Config(vocabulary_size=TOKENS, **sizes)).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    remove_heads(model, {"blocks.1.attention": {0}})
    return model


DECODERS = {precision: FastDecoder(gpt2(), precision) for precision in PRECISIONS}
token = st.integers(0, TOKENS - 1)


def alone(precision: Precision, text: list[int]) -> np.ndarray:
    """The logits after each token of a text that is read one by one."""
    decoder = DECODERS[precision]
    state = decoder.begin()
    return torch.cat([decoder.step(torch.tensor([[token]]), state) for token in text]).numpy()


@pytest.mark.parametrize("precision", PRECISIONS)
@given(
    texts=st.lists(st.lists(token, min_size=2, max_size=12), min_size=1, max_size=SLOTS),
    data=st.data(),
    threads=st.sampled_from([1, 2, 3]),
)
@settings(deadline=None, max_examples=25)
def test_no_bit_of_a_texts_logits_depends_on_what_else_is_decoded(precision: Precision, texts, data, threads: int):
    decoder = FastSlots(DECODERS[precision], SLOTS)
    slots = data.draw(st.permutations(range(SLOTS)))[: len(texts)]
    expected = [alone(precision, text) for text in texts]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        read = [0] * len(texts)
        for row, text in enumerate(texts):
            read[row] = data.draw(st.integers(1, len(text)))
            assert np.array_equal(decoder.read(slots[row], text[: read[row]]), expected[row][read[row] - 1])
        while going := [row for row, text in enumerate(texts) if read[row] < len(text)]:
            now = data.draw(st.lists(st.sampled_from(going), min_size=1, unique=True))
            found = decoder.step([slots[row] for row in now], [texts[row][read[row]] for row in now])
            assert np.array_equal(found, [expected[row][read[row]] for row in now])
            for row in now:
                read[row] += 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("pieces", [[160], [1, 159], [64, 64, 32], [65, 95], [3, 1, 100, 56]])
def test_no_bit_of_the_logits_depends_on_the_pieces_of_a_prompt(precision: Precision, pieces: list[int]):
    text = torch.randint(TOKENS, (CONTEXT,), generator=torch.Generator().manual_seed(0)).tolist()
    decoder, end = FastSlots(DECODERS[precision], SLOTS), 0
    expected = alone(precision, text)
    for piece in pieces:
        start, end = end, end + piece
        assert np.array_equal(decoder.read(7, text[start:end]), expected[end - 1])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_single_text_and_a_cleared_slot_give_the_same(precision: Precision):
    decoder, single = FastSlots(DECODERS[precision], SLOTS), DECODERS[precision]
    prompt = list(range(20))
    decoder.read(2, prompt[::-1])
    decoder.step([2, 3], [1, 2])
    decoder.clear(2)
    assert (decoder.length(2), decoder.length(3)) == (0, 1)
    assert np.array_equal(decoder.read(2, prompt), single.step(torch.tensor([prompt]), single.begin())[0].numpy())


def test_it_says_what_it_is():
    decoder = FastSlots(DECODERS["float32"], SLOTS)
    assert isinstance(decoder, SlottedDecoder)
    assert (decoder.num_slots, decoder.context, decoder.vocab_size) == (SLOTS, CONTEXT, TOKENS)
    # layers of three heads and of two, each with a key and a value of 20 numbers for a token
    assert decoder.slot_bytes(10) == 10 * (3 + 2) * 2 * 20 * 4


def test_it_is_refused_what_makes_no_sense_and_nothing_is_changed():
    decoder = FastSlots(DECODERS["float32"], 2)
    decoder.read(0, [1] * CONTEXT)
    for use, sentence in (
        (lambda: FastSlots(DECODERS["float32"], 0), "a decoder has one slot or more, but got 0."),
        (lambda: decoder.clear(2), "slots are numbers from 0 to 1, but got 2."),
        (lambda: decoder.read(2, [1]), "slots are numbers from 0 to 1, but got 2."),
        (lambda: decoder.read(1, []), "a piece of a prompt has one token or more, but got none."),
        (lambda: decoder.read(1, [1, 50]), "tokens are numbers from 0 to 49, but got 50."),
        (lambda: decoder.step([], []), "a step has one row or more, but got none."),
        (lambda: decoder.step([1], [-1]), "tokens are numbers from 0 to 49, but got -1."),
        (lambda: decoder.step([1, 1], [1, 1]), "a step appends one token to a slot, but got the slots [1, 1]."),
        (
            lambda: decoder.step([1, 0], [1, 1]),
            "the context length of this model is 160 tokens, but got 161: shorten the text.",
        ),
        (
            lambda: decoder.read(1, [1] * 161),
            "the context length of this model is 160 tokens, but got 161: shorten the text.",
        ),
    ):
        with pytest.raises(InputError) as error:
            use()
        assert str(error.value) == sentence
        assert (decoder.length(0), decoder.length(1)) == (CONTEXT, 0)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_without_numba_it_decodes_all_the_same(precision: Precision, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "neuropil.sampling.gpt2_cpu.kernel", None)
    with pytest.warns(RuntimeWarning):
        decoder = FastSlots(FastDecoder(gpt2(), precision), 4)
    expected = {slot: alone(precision, list(range(slot, slot + 6))) for slot in (1, 3)}
    for slot, logits in expected.items():
        assert_near(precision, decoder.read(slot, list(range(slot, slot + 5))), logits[4])
    assert_near(precision, decoder.step([3, 1], [8, 6]), np.stack([expected[3][5], expected[1][5]]))


def assert_near(precision: Precision, found: np.ndarray, expected: np.ndarray) -> None:
    """Where what enters a matrix is rounded, a last bit may decide to which number."""
    difference = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert difference < (1e-5 if precision == "float32" else 0.02)
