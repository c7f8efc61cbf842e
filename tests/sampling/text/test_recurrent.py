"""Recurrent models write on as transformers do."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.models.recurrent import CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.protocols import PADDING
from neuropil.sampling.text.beam_search import beam_continuations
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.generation import Generation
from neuropil.sampling.text.recurrent import RecurrentDecoderState, step_of

TOKENS = 12
CELLS: tuple[CellName, ...] = ("rnn", "lstm", "gru", "mingru")


def model_of(cell: CellName) -> RecurrentNetwork:
    torch.manual_seed(0)
    config = RecurrentNetworkConfig(
        cell=cell,
        hidden_size=8,
        layers=2,
        embedding_size=6,
        vocabulary_size=TOKENS,
        output_size=TOKENS,
        shape="aligned",
    )
    model = RecurrentNetwork(config).eval()
    for parameter in model.output.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
    return model


MODELS = {cell: model_of(cell) for cell in CELLS}
prompts = st.lists(st.integers(1, TOKENS - 1), min_size=1, max_size=7)


def written(
    model: RecurrentNetwork, texts: list[list[int]], sampling: SamplingConfig, samples: int = 1
) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(len(texts) * samples)]
    for row, token, _ in Generation(
        step_of(model.stream),
        RecurrentDecoderState(),
        texts,
        length=8,
        sampling=sampling,
        samples=samples,
        never=[PADDING],
        seed=3,
    ):
        rows[row].append(token)
    return rows


@settings(deadline=None, max_examples=20)
@given(cell=st.sampled_from(CELLS), texts=st.lists(prompts, min_size=1, max_size=4))
def test_the_likeliest_tokens_are_those_of_reading_everything_again_in_any_batch(
    cell: CellName, texts: list[list[int]]
):
    model, expected = MODELS[cell], []
    for prompt in texts:
        text = list(prompt)
        for _ in range(8):
            with torch.no_grad():
                text.append(int(model(torch.tensor([text]))[0, -1, 1:].argmax()) + 1)
        expected.append(text[len(prompt) :])
    assert written(model, texts, SamplingConfig(temperature=0)) == expected


@settings(deadline=None, max_examples=15)
@given(cell=st.sampled_from(CELLS), texts=st.lists(prompts, min_size=1, max_size=3), samples=st.integers(1, 3))
def test_drawn_rows_depend_on_no_other(cell: CellName, texts: list[list[int]], samples: int):
    together = written(MODELS[cell], texts, SamplingConfig(temperature=1), samples)
    assert together == [
        row for text in texts for row in written(MODELS[cell], [text], SamplingConfig(temperature=1), samples)
    ]


@pytest.mark.parametrize("cell", CELLS)
def test_a_beam_of_one_is_greedy(cell: CellName):
    model = MODELS[cell]
    found = beam_continuations(step_of(model.stream), RecurrentDecoderState(), [[5, 6, 7], [4]], width=1, length=8)
    greedy: list[list[int]] = [[], []]
    for row, token, _ in Generation(
        step_of(model.stream),
        RecurrentDecoderState(),
        [[5, 6, 7], [4]],
        length=8,
        sampling=SamplingConfig(temperature=0),
    ):
        greedy[row].append(token)
    assert [one.tokens for (one,) in found] == greedy
