"""The next token before and after the filters, and a text written one token at a time."""

import math
from typing import Any

import pytest
import torch

from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.errors import InputError
from neuropil.models.recurrent import RecurrentNetwork, RecurrentNetworkConfig
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.tasks.language_modelling.next_token import draw, next_tokens, require_tokens
from neuropil.tasks.language_modelling.recurrent import RecurrentLanguageModel

TEXT = "a quick brown fox jumps over the lazy dog"


@pytest.fixture(scope="module")
def model() -> RecurrentLanguageModel:
    torch.manual_seed(0)
    tokenizer = Tokenizer.train([TEXT], "characters")
    size = len(tokenizer)
    config = RecurrentNetworkConfig(shape="aligned", vocabulary_size=size, output_size=size, hidden_size=16)
    return RecurrentLanguageModel(RecurrentNetwork(config), tokenizer)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 2.0, "top_k": 5}, {"repetition_penalty": 1.5}])
def test_a_text_drawn_token_by_token_is_the_one_that_is_generated(
    model: RecurrentLanguageModel, sampling: dict[str, Any]
):
    prompt, written = model.tokens_of("the ").tolist(), list[int]()
    for _ in range(20):
        written.append(draw(model, prompt, written, SamplingConfig(**sampling), seed=3))
    assert model.tokenizer.decode(written) == "".join(model.generate("the ", length=20, seed=3, **sampling))


def test_greedy_drawing_takes_the_best(model: RecurrentLanguageModel):
    prompt = model.tokens_of("the ")
    found = next_tokens(model, model.score_tokens(prompt)[1], prompt, SamplingConfig(temperature=0.0))
    assert found.kept == 1
    assert found.best(1)[0].token == draw(model, prompt.tolist(), [], SamplingConfig(temperature=0.0), seed=0)
    assert found.best(1)[0].after == 1.0
    assert found.entropies[1] == 0.0


def test_what_the_filters_leave(model: RecurrentLanguageModel):
    logits = torch.zeros(len(model.tokenizer))
    text = model.tokens_of("the")
    found = next_tokens(model, logits, text, SamplingConfig(temperature=1.0, top_k=0))
    possible = len(model.tokenizer) - len(model.never)
    assert found.kept == possible
    assert found.entropies == pytest.approx((math.log2(len(model.tokenizer)), math.log2(possible)))
    assert [float(found.after[token]) for token in model.never] == [0, 0, 0, 0]
    logits[int(text[0])] = 2.0
    penalised = next_tokens(model, logits, text, SamplingConfig(temperature=1.0, repetition_penalty=2.0))
    first = penalised.best(1)[0]
    assert first.label == "t"
    assert first.after / float(penalised.after[int(model.tokens_of("x"))]) == pytest.approx(math.e, rel=1e-5)
    assert first.before / float(penalised.before[int(model.tokens_of("x"))]) == pytest.approx(math.e**2, rel=1e-5)


def test_tokens_that_the_vocabulary_lacks_are_refused(model: RecurrentLanguageModel):
    with pytest.raises(InputError) as refused:
        require_tokens(model, [5, 999])
    assert str(refused.value) == f"a token's number must be from 0 to {len(model.tokenizer) - 1}, but got 999."
