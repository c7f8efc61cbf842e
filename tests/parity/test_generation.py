"""Greedy decoding and beam search beside Hugging Face's `generate`, with prompts of different lengths in one batch."""

from pathlib import Path
from typing import Any

import pytest
import torch

from neuropil.models.gpt2 import GPT2
from neuropil.sampling.text.beam_search import beam_continuations
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.generation import Generation

transformers = pytest.importorskip("transformers")

TOKENS, CONTEXT = 61, 256
NEVER = TOKENS
"""No token that can be written."""
PROMPTS = [[3, 9, 27, 20, 60], [5], [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21], [1, 2]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[GPT2, Any]:
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=TOKENS,
        n_positions=CONTEXT,
        n_embd=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.4,
        bos_token_id=0,
        eos_token_id=0,
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    folder: Path = tmp_path_factory.mktemp("gpt2")
    theirs.save_pretrained(folder)
    return GPT2.from_pretrained(folder).eval(), theirs


def generated(theirs: Any, length: int, **others: Any) -> list[list[int]]:
    longest = max(map(len, PROMPTS))
    tokens = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in PROMPTS])
    present = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in PROMPTS])
    rows = theirs.generate(
        tokens, attention_mask=present, do_sample=False, max_new_tokens=length, pad_token_id=0, **others
    )
    return [row[longest:].tolist() for row in rows]


def written(ours: GPT2, length: int, sampling: SamplingConfig, end: int | None) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in PROMPTS]
    for row, token, _ in Generation(
        ours.step, ours.begin(), PROMPTS, length=length, sampling=sampling, end=end, context=CONTEXT
    ):
        rows[row].append(token)
    return rows


def test_two_hundred_greedy_tokens_are_the_same(models: tuple[GPT2, Any]):
    ours, theirs = models
    assert written(ours, 200, SamplingConfig(temperature=0), None) == generated(theirs, 200, eos_token_id=NEVER)


def test_rows_end_at_the_same_end_tokens_with_a_repetition_penalty_too(models: tuple[GPT2, Any]):
    """There, padding counts as a part of the text and is penalised as well, so that prompts must come one at a time."""
    ours, theirs = models
    end = generated(theirs, 60, eos_token_id=NEVER)[0][20]
    expected = [row[: row.index(end) + 1] if end in row else row for row in generated(theirs, 60, eos_token_id=end)]
    assert any(len(row) < 60 for row in expected)
    assert written(ours, 60, SamplingConfig(temperature=0), end) == expected
    sampling = SamplingConfig(temperature=0, repetition_penalty=1.3)
    for prompt in PROMPTS:
        tokens = theirs.generate(
            torch.tensor([prompt]),
            do_sample=False,
            max_new_tokens=40,
            repetition_penalty=1.3,
            pad_token_id=0,
            eos_token_id=end,
        )
        drawn = Generation(ours.step, ours.begin(), [prompt], length=40, sampling=sampling, end=end)
        assert [token for _, token, _ in drawn] == tokens[0, len(prompt) :].tolist()


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("length", [6, 25])
def test_beams_are_the_same_with_and_without_a_repetition_penalty(
    models: tuple[GPT2, Any], width: int, penalty: float, length: int
):
    """By the sums of log-probabilities, since the two divide them by different lengths; with tokens that may not be
    written and an end that texts meet. What is finished counts as what is not."""
    ours, theirs = models
    end = generated(theirs, 60, eos_token_id=NEVER)[0][3]
    forbidden = [7, 8, 9]
    for prompt in PROMPTS:
        found = theirs.generate(
            torch.tensor([prompt]),
            do_sample=False,
            num_beams=width,
            num_return_sequences=width,
            max_new_tokens=length,
            length_penalty=0.0,
            early_stopping=False,
            repetition_penalty=penalty,
            suppress_tokens=forbidden,
            pad_token_id=0,
            eos_token_id=end,
            return_dict_in_generate=True,
            output_scores=True,
        )
        (own,) = beam_continuations(
            ours.step,
            ours.begin(),
            [prompt],
            width=width,
            length=length,
            end=end,
            never=forbidden,
            repetition_penalty=penalty,
            length_penalty=0.0,
        )
        rows = [row[len(prompt) :].tolist() for row in found.sequences]
        assert [one.tokens for one in own] == [row[: row.index(end)] if end in row else row for row in rows]
        assert [one.log_probability for one in own] == pytest.approx(found.sequences_scores.tolist(), abs=1e-3)
