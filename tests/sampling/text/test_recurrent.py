"""Recurrent models write on as transformers do."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.models.recurrent import CellName, Sequence, SequenceConfig
from neuropil.protocols import PADDING
from neuropil.sampling.text.filters import Choosing
from neuropil.sampling.text.generation import Writing, likeliest
from neuropil.sampling.text.recurrent import Carried, step_of

TOKENS = 12
CELLS: tuple[CellName, ...] = ("rnn", "lstm", "gru", "mingru")


def model_of(cell: CellName) -> Sequence:
    torch.manual_seed(0)
    config = SequenceConfig(cell=cell, units=8, layers=2, embedding=6, tokens=TOKENS, outputs=TOKENS, shape="aligned")
    model = Sequence(config).eval()
    for parameter in model.output.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
    return model


MODELS = {cell: model_of(cell) for cell in CELLS}
prompts = st.lists(st.integers(1, TOKENS - 1), min_size=1, max_size=7)


def written(model: Sequence, texts: list[list[int]], choosing: Choosing, samples: int = 1) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(len(texts) * samples)]
    for row, token, _ in Writing(
        step_of(model.stream), Carried(), texts, length=8, choosing=choosing, samples=samples, never=[PADDING], seed=3
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
    assert written(model, texts, Choosing(temperature=0)) == expected


@settings(deadline=None, max_examples=15)
@given(cell=st.sampled_from(CELLS), texts=st.lists(prompts, min_size=1, max_size=3), samples=st.integers(1, 3))
def test_drawn_rows_depend_on_no_other(cell: CellName, texts: list[list[int]], samples: int):
    together = written(MODELS[cell], texts, Choosing(temperature=1), samples)
    assert together == [
        row for text in texts for row in written(MODELS[cell], [text], Choosing(temperature=1), samples)
    ]


@pytest.mark.parametrize("cell", CELLS)
def test_a_beam_of_one_is_greedy(cell: CellName):
    model = MODELS[cell]
    found = likeliest(step_of(model.stream), Carried(), [[5, 6, 7], [4]], width=1, length=8)
    greedy: list[list[int]] = [[], []]
    for row, token, _ in Writing(
        step_of(model.stream), Carried(), [[5, 6, 7], [4]], length=8, choosing=Choosing(temperature=0)
    ):
        greedy[row].append(token)
    assert [one.tokens for (one,) in found] == greedy
