"""Writing on with a transformer that has a cache, beside reading everything again for each token."""

from collections.abc import Sequence
from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.sampling.text.beam_search import Hypothesis, beam_continuations
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.generation import DecoderState, Ending, Generation, Step

TOKENS, CONTEXT = 11, 40
GREEDY = SamplingConfig(temperature=0)
DARING = SamplingConfig(temperature=1.5)

torch.manual_seed(0)
MODEL = GPT2(GPT2Config(width=16, heads=2, layers=2, feed_forward=32, context=CONTEXT, vocabulary_size=TOKENS)).eval()
for parameter in MODEL.parameters():  # far enough from its beginning that what comes next depends on what came before
    torch.nn.init.normal_(parameter, std=0.5)

prompts = st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=9)
batches = st.lists(prompts, min_size=1, max_size=4)
samplings = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    top_k=st.sampled_from([0, 3]),
    top_p=st.sampled_from([1.0, 0.8]),
    repetition_penalty=st.sampled_from([1.0, 1.4]),
)


class Prefixes:
    def __init__(self, rows: int):
        self.read: list[tuple[int, ...]] = [()] * rows

    def reorder(self, index: Tensor) -> None:
        self.read = [self.read[row] for row in index.tolist()]


class Script:
    """A model without weights: the likeliest token after a text is the next of the script, counted from the text's
    beginning."""

    def __init__(self, *tokens: int):
        self.tokens, self.shapes = tokens, []

    def step(self, tokens: Tensor, state: Prefixes, present: Tensor | None = None) -> Tensor:
        self.shapes.append(tuple(tokens.shape))
        present = torch.ones_like(tokens, dtype=torch.bool) if present is None else present
        state.read = [(*old, *new[there].tolist()) for old, new, there in zip(state.read, tokens, present, strict=True)]
        return torch.stack(
            [9.0 * torch.eye(TOKENS)[self.tokens[(len(text) - 1) % len(self.tokens)]] for text in state.read]
        )


def written(writing: Generation) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in writing.ended]
    for row, token, _ in writing:
        rows[row].append(token)
    return rows


def write(texts: Sequence[Sequence[int]], length: int, **others) -> list[list[int]]:
    return written(Generation(MODEL.step, MODEL.begin(), texts, length=length, context=CONTEXT, **others))


def read_again(prompt: Sequence[int], length: int) -> list[int]:
    """Greedy without a cache: the whole text for each token."""
    text = list(prompt)
    for _ in range(length):
        with torch.no_grad():
            text.append(int(MODEL(torch.tensor([text]))[0, -1].argmax()))
    return text[len(prompt) :]


# --- the same tokens, however they are computed -----------------------------------------------------------------------


@settings(deadline=None, max_examples=10)
@given(texts=batches)
def test_cached_uncached_batched_and_unbatched_greedy_writing_give_the_same_tokens(texts: list[list[int]]):
    together = write(texts, 12, sampling=GREEDY)
    assert together == [write([text], 12, sampling=GREEDY)[0] for text in texts]
    assert together == [read_again(text, 12) for text in texts]


def test_a_short_prompt_beside_a_long_one_has_its_whole_context():
    long, short = [1] * (CONTEXT - 2), [2]
    writing = Generation(MODEL.step, MODEL.begin(), [long, short], context=CONTEXT, sampling=GREEDY)
    assert written(writing) == [read_again(long, 3), read_again(short, CONTEXT)]


@settings(deadline=None, max_examples=15)
@given(texts=batches, sampling=samplings, seed=st.integers(0, 5), samples=st.integers(1, 3))
def test_what_a_row_gets_depends_on_no_other_row(
    texts: list[list[int]], sampling: SamplingConfig, seed: int, samples: int
):
    together = write(texts, 8, sampling=sampling, seed=seed, samples=samples)
    alone = [write([text], 8, sampling=sampling, seed=seed, samples=samples) for text in texts]
    assert together == [row for rows in alone for row in rows]
    assert together[::samples] == write(texts, 8, sampling=sampling, seed=seed)


def test_a_seed_always_gives_the_same_text_and_another_another():
    first, again, other = (write([[1, 2, 3]], 30, sampling=DARING, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_samples_differ_and_the_prompt_is_read_once():
    model = Script(3, 4)
    shapes = written(Generation(model.step, Prefixes(2), [[1, 2], [5]], length=3, samples=4, sampling=GREEDY))
    assert model.shapes == [(2, 2), (8, 1), (8, 1)]
    assert shapes == [[4, 3, 4]] * 4 + [[3, 4, 3]] * 4
    rows = write([[1, 2, 3]], 20, sampling=DARING, samples=4)
    assert len({tuple(row) for row in rows}) == 4


@settings(deadline=None, max_examples=20)
@given(text=prompts)
def test_a_heavy_penalty_writes_every_token_once_before_any_again(text: list[int]):
    fresh = set(range(TOKENS)) - set(text)
    # All logits are above zero, so that the penalty divides each.
    (tokens,) = written(
        Generation(
            lambda *read: 20 + MODEL.step(*read).tanh(),
            MODEL.begin(),
            [text],
            length=len(fresh),
            sampling=SamplingConfig(temperature=0, repetition_penalty=9),
        )
    )
    assert set(tokens) == fresh


# --- where a text ends ------------------------------------------------------------------------------------------------


def ended(model: Script, texts: Sequence[Sequence[int]], **others) -> tuple[list[list[int]], list[Ending | None]]:
    writing = Generation(model.step, Prefixes(len(texts)), texts, sampling=GREEDY, **others)
    return written(writing), writing.ended


def test_each_row_says_what_ended_it():
    assert ended(Script(3, 4, 5), [[1], [1, 2]], length=4, end=5) == ([[3, 4, 5], [4, 5]], ["end", "end"])
    assert ended(Script(3, 4, 5), [[1], [1, 2]], length=2, end=5) == ([[3, 4], [4, 5]], ["length", "end"])
    assert ended(Script(3, 4, 5), [[1], [1, 2]], length=9, context=3) == ([[3, 4, 5], [4, 5]], ["context", "context"])
    assert ended(Script(3, 4, 5), [[1, 1, 1]], context=3) == ([[5]], ["context"])
    assert ended(Script(3), [[1], [2]], length=0) == ([[], []], ["length", "length"])
    assert ended(Script(3), [], length=5) == ([], [])


def test_the_last_token_of_a_row_says_so_itself():
    drawn = list(Generation(Script(3, 4, 5).step, Prefixes(2), [[1], [1, 2]], length=3, end=5, sampling=GREEDY))
    assert drawn == [(0, 3, None), (1, 4, None), (0, 4, None), (1, 5, "end"), (0, 5, "end")]


@settings(deadline=None, max_examples=20)
@given(text=st.lists(st.integers(0, TOKENS - 1), min_size=30, max_size=CONTEXT))
def test_a_full_context_is_used_to_its_last_place(text: list[int]):
    writing = Generation(MODEL.step, MODEL.begin(), [text], context=CONTEXT, sampling=GREEDY)
    assert written(writing) == [read_again(text, CONTEXT - len(text) + 1)]
    assert writing.ended == ["context"]


def test_rows_that_have_ended_are_computed_no_more():
    model = Script(3, 4, 5, 6, 7, 8)
    ended(model, [[1], [1, 2], [1, 2, 3]], length=4, end=5)
    assert model.shapes == [(3, 3), (2, 1), (1, 1)]


def test_a_row_can_be_stopped_from_outside_while_others_go_on():
    writing = Generation(Script(3, 4, 5, 6).step, Prefixes(2), [[1], [2]], length=4, sampling=GREEDY)
    rows: list[list[int]] = [[], []]
    for row, token, _ in writing:
        rows[row].append(token)
        if token == 4:
            writing.stop(0)
    assert rows == [[3, 4], [3, 4, 5, 6]]
    assert writing.ended == ["stopped", "length"]


def test_tokens_come_before_the_next_is_computed_and_without_a_limit_there_is_no_end():
    model = Script(3, 4)
    writing = Generation(model.step, Prefixes(1), [[1, 2, 3]], sampling=GREEDY)
    next(writing)
    assert model.shapes == [(1, 3)]
    next(writing)
    assert model.shapes == [(1, 3), (1, 1)]
    assert len(list(islice(writing, 100))) == 100


def test_forbidden_tokens_are_not_written():
    assert not {
        token for seed in range(5) for token in write([[1]], 20, seed=seed, sampling=DARING, never=(0, 4, 7))[0]
    } & {0, 4, 7}


# --- beam search ------------------------------------------------------------------------------------------------------


def search(texts: Sequence[Sequence[int]], **others) -> list[list[Hypothesis]]:
    return beam_continuations(MODEL.step, MODEL.begin(), texts, context=CONTEXT, **others)


@settings(deadline=None, max_examples=20)
@given(texts=batches, width=st.integers(1, 4), end=st.sampled_from([None, 3]))
def test_the_beam_of_a_prompt_depends_on_no_other_and_its_probabilities_are_the_models(
    texts: list[list[int]], width: int, end: int | None
):
    for text, found in zip(texts, search(texts, width=width, length=4, end=end), strict=True):
        (alone,) = search([text], width=width, length=4, end=end)
        assert [one.tokens for one in found] == [one.tokens for one in alone]
        for one in found:
            following = [*one.tokens, *([end] if one.finished and end is not None else [])]
            with torch.no_grad():
                log_probabilities = MODEL(torch.tensor([[*text, *following]]))[0].log_softmax(-1)
            expected = sum(
                log_probabilities[len(text) - 1 + place, token].item() for place, token in enumerate(following)
            )
            assert one.log_probability == pytest.approx(expected, abs=1e-3)


@settings(deadline=None, max_examples=20)
@given(text=prompts)
def test_a_beam_of_one_is_greedy_and_a_wide_one_is_no_less_probable(text: list[int]):
    ((one,),) = search([text], width=1, length=6)
    assert one.tokens == write([text], 6, sampling=GREEDY)[0]
    (wide,) = search([text], width=TOKENS**2, length=2)
    assert wide[0].log_probability >= search([text], width=1, length=2)[0][0].log_probability - 1e-5
    assert len(wide) == TOKENS**2


def constant(logits: Tensor) -> Step:
    """A model that says the same after any text."""

    def step(tokens: Tensor, state: DecoderState) -> Tensor:
        return logits.expand(len(tokens), -1)

    return step


@pytest.mark.parametrize("width", [2, 3])
def test_a_beam_prefers_a_long_text_to_a_short_finished_one_that_is_less_probable(width: int):
    log_probabilities = torch.tensor([0.05, 0.9, 0.05]).log()  # the end, A, B at every step
    step = constant(log_probabilities)
    ((best, *_),) = beam_continuations(step, MODEL.begin(), [[1]], width=width, length=10, end=0)
    assert best.tokens == [1] * 10


def test_a_beam_writes_no_forbidden_tokens_and_repeats_less_with_a_penalty():
    (found,) = search([[1]], width=3, length=20, never=(0, 4, 7))
    assert not {token for one in found for token in one.tokens} & {0, 4, 7}
    plain, penalised = (
        search([[1]], width=3, length=20, repetition_penalty=penalty)[0][0].tokens for penalty in (1.0, 5.0)
    )
    assert len(set(penalised)) > len(set(plain))


def test_a_beam_refuses_logits_that_are_not_numbers():
    step = constant(torch.full((3,), torch.nan))
    with pytest.raises(
        InputError, match="some token must be possible next, but got logits that are all masked, or NaN"
    ):
        beam_continuations(step, MODEL.begin(), [[1]], width=2, length=3)


def test_a_beam_ends_with_the_context():
    (found,) = search([[1] * (CONTEXT - 1)], width=2, length=9)
    assert [len(one.tokens) for one in found] == [2, 2]


# --- what cannot be written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "others", "sentence"),
    [
        ([[1], []], {}, "a text is continued from its beginning, but got an empty one: give at least one token."),
        (
            [[1], [1] * 41],
            {},
            "a prompt must fit into the model's context of 40 tokens, "
            "but got one of 41: shorten it, or give its last 40 tokens only.",
        ),
        ([[1]], {"length": -1}, "length must be 0 or more, but got -1."),
        ([[1]], {"samples": 0}, "samples must be 1 or more, but got 0."),
    ],
)
def test_what_cannot_be_continued_is_refused_before_anything_is_read(
    texts: list[list[int]], others: dict, sentence: str
):
    with pytest.raises(InputError) as error:
        Generation(MODEL.step, MODEL.begin(), texts, context=CONTEXT, **others)
    assert str(error.value) == sentence
