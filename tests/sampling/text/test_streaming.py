"""Text as it is written: what comes out early is never taken back."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.data.tokenizers.learned import Kind, Tokenizer
from neuropil.errors import InputError
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.generation import Generation
from neuropil.sampling.text.streaming import Decoding, Piece, Stopping, as_text, streamed

TEXTS = ["the cat sat on the mat.", "größer 日本 🙂 � größer", "aaaa abab <end>"] * 4
KINDS: tuple[Kind, ...] = ("bpe", "characters", "words")
TOKENIZERS = {kind: Tokenizer.train(TEXTS, kind, 290) for kind in KINDS}
BPE = TOKENIZERS["bpe"]


class Rows:
    def __init__(self, rows: int):
        self.sources, self.read = list(range(rows)), [0] * rows

    def reorder(self, index: Tensor) -> None:
        self.sources, self.read = ([rows[i] for i in index.tolist()] for rows in (self.sources, self.read))


def scripted(*scripts: Sequence[int], **others) -> Generation:
    """Each row writes its own tokens, whatever was read, and then spaces."""
    (space,) = BPE.encode([" "])[0]

    def step(tokens: Tensor, state: Rows) -> Tensor:
        state.read = [count + 1 for count in state.read]
        due = [
            [*scripts[row], *[space] * count][count - 1] for row, count in zip(state.sources, state.read, strict=True)
        ]
        return 9.0 * torch.eye(len(BPE))[due]

    return Generation(step, Rows(len(scripts)), [[5]] * len(scripts), sampling=SamplingConfig(temperature=0), **others)


# --- characters -------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_pieces_join_to_what_the_tokens_say_together_whatever_they_are(data: st.DataObject, kind: Kind):
    """Also bytes that make no character, end tokens in the middle, and characters that are cut off."""
    tokenizer = TOKENIZERS[kind]
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1)))
    assert "".join(as_text(ids, tokenizer.decode)) == tokenizer.decode(ids)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from([0x61, 0x80, 0xBF, 0xC3, 0xE6, 0x97, 0xA5, 0xF0, 0x9F, 0x99, 0x82, 0xFF, 0xEF, 0xBD])))
def test_single_bytes_join_to_the_same_text_too(numbers: list[int]):
    letter = {byte: number for number in range(len(BPE)) if number > 3 and len(byte := BPE._bytes(number)) == 1}
    ids = [letter[bytes([number])] for number in numbers]
    pieces = list(as_text(ids, BPE.decode))
    assert "".join(pieces) == bytes(numbers).decode("utf-8", errors="replace") == BPE.decode(ids)


def test_a_character_waits_for_the_last_of_its_tokens_and_nothing_else_waits():
    decoding, (a,) = Decoding(BPE.decode), BPE.encode(["a"])[0]
    ids = BPE.encode(["𝄞"])[0]
    assert len(ids) == 4
    assert [decoding.add(token) for token in [a, *ids, a]] == ["a", "", "", "", "𝄞", "a"]
    assert decoding.finish() == ""
    assert [decoding.add(token) for token in ids[:2]] == ["", ""]
    assert decoding.finish() == "�"


def test_words_are_joined_by_spaces_to_what_was_before():
    words = TOKENIZERS["words"]
    ids = words.encode(["the cat sat"])[0]
    assert list(as_text(ids, words.decode)) == ["the", " cat", " sat"]
    assert list(as_text(ids[1:], words.decode, before=ids[:1])) == [" cat", " sat"]
    assert list(as_text([ids[0], words.end, ids[1]], words.decode)) == ["the", " cat"]


# --- stop strings -----------------------------------------------------------------------------------------------------

letters = st.text("ab\n🙂", max_size=30)
stop_strings = st.lists(st.text("ab\n🙂", min_size=1, max_size=4), max_size=3)


def reference(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """Character by character: the first moment at which the text ends with a stop string, the longest if there are
    several."""
    for length in range(len(text) + 1):
        found = [stop for stop in stops if text[:length].endswith(stop)]
        if found:
            return text[: length - max(map(len, found))], True
    return text, False


@settings(deadline=None, max_examples=300)
@given(text=letters, stops=stop_strings, data=st.data())
def test_a_stop_string_never_leaks_however_the_text_is_cut_into_pieces(
    text: str, stops: list[str], data: st.DataObject
):
    expected, stopped = reference(text, stops)
    stopping, given_so_far, rest = Stopping(stops), "", text
    while rest and not stopping.stopped:
        count = data.draw(st.integers(1, len(rest)))
        given_so_far += stopping.add(rest[:count])
        assert expected.startswith(given_so_far)
        rest = rest[count:]
    assert (given_so_far + stopping.finish(), stopping.stopped) == (expected, stopped)


def test_only_what_may_become_a_stop_string_is_held_back():
    stopping = Stopping(["\n\nQ:"])
    assert [stopping.add(text) for text in ("one\n", "two\n\n", "Q", "uite\n\nQ", ": more")] == [
        "one",
        "\ntwo",
        "",
        "\n\nQuite",
        "",
    ]
    assert stopping.stopped
    assert stopping.finish() == ""
    held = Stopping(["abc"])
    assert (held.add("xab"), held.finish()) == ("x", "ab")


# --- both, over what is written ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(texts=st.lists(letters, min_size=1, max_size=3), stops=stop_strings)
def test_rows_are_streamed_up_to_their_stop_strings_and_say_why_they_ended(texts: list[str], stops: list[str]):
    scripts = [[*BPE.encode([text])[0], BPE.end] for text in texts]
    writing = scripted(*scripts, end=BPE.end)
    pieces = list(streamed(writing, BPE.decode, stops=stops))
    for row, text in enumerate(texts):
        expected, stopped = reference(text, stops)
        own = [piece for piece in pieces if piece.row == row]
        assert "".join(piece.text for piece in own) == expected
        assert [piece.ended for piece in own] == [None] * (len(own) - 1) + ["stopped" if stopped else "end"]
        assert writing.written[row] <= len(scripts[row])


def test_text_is_yielded_early_and_writing_ends_with_the_stop_string():
    writing = scripted(BPE.encode(["the cat. the mat"])[0], length=100)
    pieces = streamed(writing, BPE.decode, stops=["."])
    assert next(pieces).text == "the"
    assert writing.written == [1]
    assert "".join(piece.text for piece in pieces) == " cat"
    assert writing.ended == ["stopped"]
    assert writing.written[0] < 12


def test_half_a_character_at_the_limit_is_shown_as_such():
    pieces = list(streamed(scripted(BPE.encode(["a🙂"])[0], length=3), BPE.decode))
    assert pieces == [Piece(0, "a", None), Piece(0, "�", "length")]


def test_an_empty_stop_string_is_refused():
    with pytest.raises(InputError) as error:
        next(streamed(scripted([5], length=1), BPE.decode, stops=[".", ""]))
    assert str(error.value) == "a stop string must have at least one character, but got an empty one."


def test_each_row_goes_on_from_its_own_prompt():
    words = TOKENIZERS["words"]
    ids = words.encode(["the cat sat"])[0]
    writing = scripted(ids[1:2], ids[2:3], length=1)
    pieces = streamed(writing, words.decode, before=[ids[:1], []])
    assert [piece.text for piece in sorted(pieces, key=lambda piece: piece.row)] == [" cat", "sat"]
