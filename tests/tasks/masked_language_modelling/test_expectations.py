import pytest
import torch

from neuropil.data.tokenizers.learned import learn_word_pieces
from neuropil.errors import InputError
from neuropil.models.bert import BERTConfig, MaskedBERT
from neuropil.tasks.masked_language_modelling.expectations import expectations
from neuropil.tasks.masked_language_modelling.predictor import TextFiller


@pytest.fixture(scope="module")
def filler() -> TextFiller:
    torch.manual_seed(0)
    tokenizer = learn_word_pieces(["the cat sat on the mat"] * 3, 60)
    config = BERTConfig(vocabulary_size=len(tokenizer), width=16, heads=2, layers=1, context=12)
    return TextFiller(MaskedBERT(config).eval(), tokenizer)


def test_a_word_is_expected_as_a_mask_in_its_place_is_filled(filler: TextFiller):
    found = expectations(filler, "the cat sat", most=4)
    assert found.tokens == ["the", "cat", "sat"]
    filled = filler.fill("the [MASK] sat", 4)
    assert [share for _, share in found.best[1]] == pytest.approx([each.share for each in filled], abs=1e-6)
    everything = {each.word: each.share for each in filler.fill("the [MASK] sat", len(filler.tokenizer))}
    assert float(found.shares[1]) == pytest.approx(everything["cat"], abs=1e-6)


def test_a_mask_of_the_text_stays_one(filler: TextFiller):
    found = expectations(filler, "the [MASK] sat")
    assert found.hidden == [False, True, False]


def test_texts_that_do_not_fit_are_refused(filler: TextFiller):
    with pytest.raises(InputError) as refused:
        expectations(filler, "")
    assert str(refused.value) == "a text must have at least one token, but got '': give it a word or two."
    with pytest.raises(InputError) as refused:
        expectations(filler, "the " * 11)
    assert str(refused.value) == "a text to read has at most 10 tokens, but got 11: shorten it."
