"""A long text has the tokens of the whole, wherever it is cut, in memory or mapped from a file."""

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken
from tokenizers.pre_tokenizers import ByteLevel

from neuropil.data.corpus.embedded import python_documentation
from neuropil.data.tokenizers import encoding as encoded_text
from neuropil.data.tokenizers.encoding import encode_blocks, encode_text
from neuropil.data.tokenizers.learned import Tokenizer, learn_merges, learn_word_pieces
from neuropil.data.tokenizers.published import FAMILIES, PublishedTokenizer

DOCUMENTATION = python_documentation()[0][:30_000]
TOKENIZERS = [
    learn_merges([DOCUMENTATION], 400),
    learn_word_pieces([DOCUMENTATION], 400),
    Tokenizer.train([DOCUMENTATION], "characters"),
    Tokenizer.train([DOCUMENTATION], "words"),
]
spaced = st.text(st.sampled_from("ab' \n\t1!é\x1c\x85\u00a0\u3000日")).filter(len)


@given(text=spaced | st.text(max_size=80), tokenizer=st.sampled_from(TOKENIZERS), piece=st.integers(1, 9))
@settings(deadline=None)
def test_pieces_have_the_tokens_of_the_whole(text: str, tokenizer, piece: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded_text, "PIECE", piece)
        assert encode_text(tokenizer, text).tolist() == tokenizer.encode([text])[0]


@given(blocks=st.lists(spaced | st.text(max_size=20), max_size=8), remembered=st.sampled_from([0, 300, 2**26]))
@settings(deadline=None)
def test_tokens_do_not_depend_on_the_blocks_nor_on_how_many_words_are_remembered(blocks: list[str], remembered: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded_text, "PIECE", 5)
        patch.setattr(encoded_text, "REMEMBERED", remembered)
        text = "".join(blocks)
        for tokenizer in TOKENIZERS:
            found = [number for tokens in encode_blocks(tokenizer, blocks, len(text)) for number in tokens.tolist()]
            assert found == tokenizer.encode([text])[0]


@pytest.mark.parametrize(
    ("added", "prefix"),
    [(AddedToken("two words"), False), (AddedToken("<m>", lstrip=True), False), (AddedToken("<m>"), True)],
)
def test_words_that_change_one_another_are_not_told_apart(added: AddedToken, prefix: bool):
    """Of published tokenizers, whose tokens may reach over white space."""
    inner = tokenizers.Tokenizer.from_str(TOKENIZERS[0]._tokenizer.to_str())
    inner.pre_tokenizer = ByteLevel(add_prefix_space=prefix)
    inner.add_tokens([added])
    tokenizer, text = PublishedTokenizer(inner, "gpt2", FAMILIES["gpt2"].special), "one\ntwo words and  <m> it"
    assert TOKENIZERS[0].independent_words
    assert not tokenizer.independent_words
    assert encode_text(tokenizer, text).tolist() == tokenizer.encode([text])[0]


def test_a_large_text_is_mapped_and_the_same(monkeypatch: pytest.MonkeyPatch):
    expected = TOKENIZERS[0].encode([DOCUMENTATION])[0]
    monkeypatch.setattr(encoded_text, "PIECE", 1_000)
    monkeypatch.setattr(encoded_text, "IN_MEMORY", 1_500)
    opened: list[np.memmap] = []
    real = np.memmap

    def watched(*arguments, **options):
        opened.append(real(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(np, "memmap", watched)
    tokens = encode_text(TOKENIZERS[0], DOCUMENTATION)
    assert tokens.dtype == torch.int32
    assert tokens.tolist() == expected
    assert len(opened) == 1


def test_an_empty_text_has_no_tokens():
    assert encode_text(TOKENIZERS[0], "").tolist() == []
