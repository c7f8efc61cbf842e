"""GPT-2 beside Hugging Face's with the same weights, both ways: logits, gradients, and what they write."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoModel, AutoModelForCausalLM, GPT2LMHeadModel
from transformers import GPT2Config as TheirConfig
from transformers import GPT2Model as TheirBody

from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.parts.blocks import HiddenName
from neuropil.pretrained.gpt2 import FAMILY
from neuropil.pretrained.names import THEIR_ACTIVATIONS
from parity.hugging_face import assert_near, assert_same_gradients, opened, saved, shaken

FOLDERS = itertools.count()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpt2")


def theirs_of(**options: Any) -> GPT2LMHeadModel:
    sizes: dict[str, Any] = {
        "n_embd": 24,
        "n_head": 3,
        "n_layer": 2,
        "vocab_size": 31,
        "n_positions": 20,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    without_dropout: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return shaken(GPT2LMHeadModel(TheirConfig(**(sizes | without_dropout | options))))


def loaded(theirs: torch.nn.Module, place: Path) -> GPT2:
    return GPT2.from_pretrained(saved(theirs, place / str(next(FOLDERS))))


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.integers(1, 4))
    return {
        "n_head": heads,
        "n_embd": heads * draw(st.sampled_from([2, 5, 8])),
        "n_layer": draw(st.integers(1, 3)),
        "n_inner": draw(st.sampled_from([None, 7, 40])),
        "activation_function": draw(st.sampled_from(["gelu_new", "gelu", "relu", "quick_gelu", "gelu_pytorch_tanh"])),
        "tie_word_embeddings": draw(st.booleans()),
        "layer_norm_epsilon": draw(st.sampled_from([1e-5, 1e-3])),
    }


def texts(batch: int, length: int, padded: bool) -> tuple[Tensor, Tensor | None]:
    """Some rows filled up in front."""
    tokens = torch.randint(31, (batch, length))
    missing = torch.randint(length, (batch, 1)) if padded else torch.zeros(batch, 1)
    return tokens, torch.arange(length) >= missing if padded else None


def their_logits(theirs: torch.nn.Module, tokens: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return theirs(tokens).logits
    places = (mask.long().cumsum(1) - 1).clamp(min=0)
    return theirs(tokens, attention_mask=mask.long(), position_ids=places).logits


@settings(deadline=None, max_examples=25)
@given(options=configurations(), batch=st.integers(1, 3), length=st.integers(1, 20), padded=st.booleans())
def test_logits_and_gradients_are_those_of_hugging_face(
    place: Path, options: dict[str, Any], batch: int, length: int, padded: bool
):
    theirs = theirs_of(**options).train()
    ours = loaded(theirs, place).train()
    tokens, mask = texts(batch, length, padded)
    there = torch.ones(batch, length, dtype=torch.bool) if mask is None else mask
    mine, other = ours(tokens, mask)[there], their_logits(theirs, tokens, mask)[there]
    assert_near(mine, other)
    weights = torch.randn_like(mine)
    (mine * weights).mean().backward()
    (other * weights).mean().backward()
    tied = {"lm_head.weight"} if options["tie_word_embeddings"] else set()
    assert FAMILY.places(ours).keys() == dict(theirs.named_parameters()).keys() - tied
    assert assert_same_gradients(ours, theirs, FAMILY.places(ours)) == len(list(ours.parameters()))


@settings(deadline=None, max_examples=12)
@given(options=configurations(), padded=st.booleans())
def test_what_we_save_opens_there_with_the_same_logits(place: Path, options: dict[str, Any], padded: bool):
    first = theirs_of(**options)
    folder = place / str(next(FOLDERS))
    loaded(first, place).save_pretrained(folder)
    again = opened(AutoModelForCausalLM, folder)
    tokens, mask = texts(2, 9, padded)
    assert_near(their_logits(again, tokens, mask), their_logits(first, tokens, mask), 1e-6)
    assert_near(GPT2.from_pretrained(folder)(tokens, mask), loaded(first, place)(tokens, mask), 0.0)


@pytest.mark.parametrize("activation", list(THEIR_ACTIVATIONS))
def test_a_model_that_was_never_theirs_opens_there(place: Path, activation: HiddenName):
    torch.manual_seed(0)
    ours = shaken(
        GPT2(
            GPT2Config(
                width=24, heads=3, layers=2, feed_forward=50, context=20, vocabulary_size=31, activation=activation
            )
        )
    )
    ours.save_pretrained(place / activation)
    tokens, _ = texts(2, 20, padded=False)
    theirs = opened(AutoModelForCausalLM, place / activation)
    assert_near(ours(tokens), theirs(tokens).logits)
    assert_near(ours.hidden(tokens), opened(AutoModel, place / activation)(tokens).last_hidden_state)


@pytest.mark.parametrize("tied", [True, False])
def test_greedy_continuations_of_200_tokens_are_identical(place: Path, tied: bool):
    theirs: Any = theirs_of(n_positions=210, n_embd=48, n_layer=3, vocab_size=97, tie_word_embeddings=tied)
    ours = loaded(theirs, place)
    prompt = torch.randint(97, (2, 7))
    written = theirs.generate(
        prompt, max_new_tokens=200, do_sample=False, use_cache=True, eos_token_id=None, pad_token_id=0
    )
    tokens, state = prompt, ours.begin()
    with torch.no_grad():
        logits = ours.step(prompt, state)
        for _ in range(200):
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
            logits = ours.step(tokens[:, -1:], state)
    assert len(set(tokens[0, 7:].tolist())) > 3, "a text in which nothing happens would prove nothing"
    assert torch.equal(tokens, written)


def test_a_body_alone_brings_all_that_a_tied_model_needs(place: Path):
    body = shaken(TheirBody(theirs_of().config))
    ours, tokens = loaded(body, place), torch.randint(31, (2, 11))
    assert_near(ours.hidden(tokens), body(tokens).last_hidden_state)
    assert_near(ours(tokens), F.linear(body(tokens).last_hidden_state, body.wte.weight))


def test_several_files_hold_the_same_model_as_one(place: Path):
    theirs = theirs_of()
    folder = saved(theirs, place / "sharded", max_shard_size="10KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 3
    tokens = torch.randint(31, (2, 11))
    assert_near(GPT2.from_pretrained(folder)(tokens), loaded(theirs, place)(tokens), 0.0)
