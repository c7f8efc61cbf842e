"""Beside Hugging Face's logits processors, number for number."""

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.sampling.text.filters import SamplingConfig, filter_logits, keep_min_p, keep_top_k, keep_top_p, penalise

processors = pytest.importorskip("transformers.generation.logits_process")

# Few different values make ties, and some tokens were ruled out before; one is always possible.
values = st.one_of(st.floats(-30, 30, width=32), st.sampled_from([-1.0, 0.0, 1.0, 2.5]), st.just(-float("inf")))
shares = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]))


@st.composite
def logits(draw: st.DrawFn) -> Tensor:
    tokens, rows = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    made = torch.tensor([draw(st.lists(values, min_size=tokens, max_size=tokens)) for _ in range(rows)])
    made[:, draw(st.integers(0, tokens - 1))] = draw(st.floats(-5, 5, width=32))
    return made


@st.composite
def texts(draw: st.DrawFn, z: Tensor) -> Tensor:
    """Tokens that have been written, equally many in each row."""
    length = draw(st.integers(1, 5))
    token = st.integers(0, z.shape[1] - 1)
    return torch.tensor([draw(st.lists(token, min_size=length, max_size=length)) for _ in range(len(z))])


def seen(text: Tensor, z: Tensor) -> Tensor:
    return torch.zeros_like(z, dtype=torch.bool).scatter(1, text, True)


def same(ours: Tensor, theirs: Tensor) -> None:
    assert torch.equal(ours, theirs), f"{ours} is not {theirs}"


@settings(deadline=None)
@given(z=logits(), k=st.integers(1, 15))
def test_top_k(z: Tensor, k: int):
    same(keep_top_k(z, k), processors.TopKLogitsWarper(k)(None, z))


@settings(deadline=None, max_examples=300)
@given(z=logits(), share=shares)
def test_top_p(z: Tensor, share: float):
    same(keep_top_p(z, share), processors.TopPLogitsWarper(share)(None, z))


@settings(deadline=None)
@given(z=logits(), share=shares)
def test_min_p(z: Tensor, share: float):
    same(keep_min_p(z, share), processors.MinPLogitsWarper(share)(None, z))


@settings(deadline=None)
@given(data=st.data(), z=logits(), penalty=st.floats(0.1, 5))
def test_repetition_penalty(data: st.DataObject, z: Tensor, penalty: float):
    text = data.draw(texts(z))
    same(penalise(z, seen(text, z), penalty), processors.RepetitionPenaltyLogitsProcessor(penalty)(text, z))


def test_top_p_of_a_real_vocabulary():
    z = 3 * torch.randn(4, 50_257, generator=torch.Generator().manual_seed(0))
    z[1] = z[1].round()  # thousands of ties, of which theirs keeps any, since its sort is not stable
    for share in (0.1, 0.5, 0.9, 0.999):
        ours, theirs = keep_top_p(z, share), processors.TopPLogitsWarper(share)(None, z)
        same(ours[[0, 2, 3]], theirs[[0, 2, 3]])
        same(ours[1].sort().values, theirs[1].sort().values)


@settings(deadline=None, max_examples=200)
@given(
    data=st.data(),
    z=logits(),
    sampling=st.builds(
        SamplingConfig,
        temperature=st.floats(0.1, 3),
        top_k=st.integers(0, 6),
        top_p=shares,
        min_p=shares,
        repetition_penalty=st.sampled_from([1.0, 0.7, 1.3]),
    ),
)
def test_all_together_in_the_order_of_generate(data: st.DataObject, z: Tensor, sampling: SamplingConfig):
    text = data.draw(texts(z))
    possible = z.isfinite().all(0).nonzero().flatten().tolist()
    never = data.draw(st.sets(st.integers(0, z.shape[1] - 1)).map(lambda tokens: sorted(tokens - set(possible[:1]))))
    same(filter_logits(z, sampling, seen=seen(text, z), never=never), hugging_face(sampling, never)(text, z))


@cache
def model() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=2, n_layer=0, n_head=1, vocab_size=2, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config)


def hugging_face(sampling: SamplingConfig, never: list[int]) -> Any:
    """The list that `generate` itself makes of the same settings."""
    from transformers import GenerationConfig

    settings = GenerationConfig(
        do_sample=True,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        suppress_tokens=never or None,
    )
    return model()._get_logits_processor(settings, input_ids_seq_length=1, device="cpu")
