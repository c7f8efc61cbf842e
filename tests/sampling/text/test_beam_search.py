"""Search beside brute force: over all outputs of a tiny vocabulary, and over what any model can do to it."""

import itertools
import math
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.sampling.text.beam_search import Hypothesis, beam_search, greedy_search, length_factor
from neuropil.sampling.text.generation import DecoderState

START, END, TOKENS = 7, 3, 4
"""The start is no token that can be written."""
WIDE = 400
"""More than there are outputs of up to five tokens."""
Prefix = tuple[int, ...]


class Prefixes:
    """The state of a model that remembers its rows as they are."""

    def __init__(self, sources: Sequence[int]):
        self.sources, self.read = list(sources), [() for _ in sources]

    def reorder(self, index: Tensor) -> None:
        self.sources, self.read = ([rows[i] for i in index.tolist()] for rows in (self.sources, self.read))


class RandomModel:
    """Draws the logits of what follows a prefix once and for all, from the number of the source and the prefix."""

    def __init__(self, spread: float = 1.5):
        self.spread, self.rows_at_each_step = spread, []

    def logits(self, source: int, prefix: Prefix) -> Tensor:
        generator = torch.Generator().manual_seed(hash((source, *prefix)) % 2**31)
        return self.spread * torch.randn(TOKENS, generator=generator)

    def step(self, newest: Tensor, state: Prefixes) -> Tensor:
        self.rows_at_each_step.append(len(newest))
        state.read = [(*prefix, token) for prefix, (token,) in zip(state.read, newest.tolist(), strict=True)]
        assert all(prefix[0] == START for prefix in state.read)
        return torch.stack([self.logits(*row) for row in zip(state.sources, state.read, strict=True)])

    def log_probability(self, source: int, tokens: Sequence[int], finished: bool) -> float:
        """Σ_t ln p(y_t | y_<t), and of the end."""
        written = [*tokens, *([END] if finished else [])]
        return sum(
            self.logits(source, (START, *written[:i])).double().log_softmax(-1)[token].item()
            for i, token in enumerate(written)
        )


class Certain(RandomModel):
    """Writes these tokens whatever the source is; what comes after them is the last of them, again and again."""

    def __init__(self, *tokens: int):
        super().__init__()
        self.tokens = tokens

    def logits(self, source: int, prefix: Prefix) -> Tensor:
        return 50.0 * torch.eye(TOKENS)[self.tokens[min(len(prefix), len(self.tokens)) - 1]]


def run_greedy(model: RandomModel, sources: Sequence[int], limits: Sequence[int]) -> list[Hypothesis]:
    return greedy_search(model.step, Prefixes(sources), limits, start=START, end=END)


def run_beam(
    model: RandomModel, sources: Sequence[int], limits: Sequence[int], width: int, penalty: float = 0.6
) -> list[list[Hypothesis]]:
    return beam_search(model.step, Prefixes(sources), limits, width=width, start=START, end=END, length_penalty=penalty)


def every_output(model: RandomModel, source: int, limit: int) -> list[Hypothesis]:
    """All that end within the limit, and all that the limit ends."""
    words = [token for token in range(TOKENS) if token != END]
    ended = [(tokens, True) for length in range(limit) for tokens in itertools.product(words, repeat=length)]
    cut = [(tokens, False) for tokens in itertools.product(words, repeat=limit)]
    return [
        Hypothesis(list(tokens), model.log_probability(source, tokens, finished), finished)
        for tokens, finished in ended + cut
    ]


seeds, limits = st.integers(0, 2**20), st.integers(1, 5)
penalties = st.sampled_from([0.0, 0.6, 1.0, 2.0])


# --- against brute force ----------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(source=seeds, limit=st.integers(0, 5))
def test_greedy_takes_the_most_probable_token_each_time(source: int, limit: int):
    model, tokens, finished = RandomModel(), [], False
    while len(tokens) < limit and not finished:
        best = int(model.logits(source, (START, *tokens)).argmax())
        finished = best == END
        tokens += [] if finished else [best]
    (written,) = run_greedy(model, [source], [limit])
    assert (written.tokens, written.finished) == (tokens, finished)
    assert written.log_probability == pytest.approx(model.log_probability(source, tokens, finished), abs=1e-5)


@settings(deadline=None, max_examples=12)
@given(source=seeds, limit=limits, penalty=penalties)
def test_a_beam_that_is_wide_enough_finds_every_output_in_the_order_of_the_formula(
    source: int, limit: int, penalty: float
):
    model = RandomModel()
    (found,) = run_beam(model, [source], [limit], WIDE, penalty)
    everything = every_output(model, source, limit)
    assert {(*written.tokens, written.finished) for written in found} == {
        (*written.tokens, written.finished) for written in everything
    }
    scores = [
        (not one.finished, -one.log_probability / ((5 + len(one.tokens) + one.finished) / 6) ** penalty)
        for one in everything
    ]
    best = everything[scores.index(min(scores))]
    assert (found[0].tokens, found[0].finished) == (best.tokens, best.finished)
    assert [(not one.finished, pytest.approx(-one.score(penalty), abs=1e-4)) for one in found] == sorted(scores)


def test_a_beam_finds_what_greed_misses():
    """The best first token leads to nothing probable: 0.6 · 0.4 < 0.4 · 0.9."""

    class Trap(RandomModel):
        def logits(self, source: int, prefix: Prefix) -> Tensor:
            following = {(): [0.6, 0.4, 0, 0], (0,): [0.3, 0.3, 0, 0.4], (1,): [0.05, 0.05, 0, 0.9]}
            return torch.tensor(following.get(prefix[1:], [0, 0, 0, 1.0])).clamp(min=1e-9).log()

    (written,) = run_greedy(Trap(), [0], [2])
    assert (written.tokens, written.finished) == ([0], True)
    assert math.exp(written.log_probability) == pytest.approx(0.24, abs=1e-6)
    (found,) = run_beam(Trap(), [0], [2], width=2)
    assert (found[0].tokens, found[0].finished) == ([1], True)
    assert math.exp(found[0].log_probability) == pytest.approx(0.36, abs=1e-6)


def test_logits_that_are_not_numbers_are_refused():
    class Broken(RandomModel):
        def logits(self, source: int, prefix: Prefix) -> Tensor:
            return torch.full((TOKENS,), torch.nan)

    for search in (run_greedy, partial(run_beam, width=2)):
        with pytest.raises(InputError, match="logits that are all masked, or NaN"):
            search(Broken(), [0], [3])


# --- for a beam of any width ------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(source=seeds, limit=limits, width=st.integers(1, 6), penalty=penalties)
def test_outputs_are_distinct_and_ranked_and_their_probabilities_are_the_models(
    source: int, limit: int, width: int, penalty: float
):
    model = RandomModel()
    (found,) = run_beam(model, [source], [limit], width, penalty)
    assert 1 <= len(found) <= width
    assert len({tuple(written.tokens) for written in found}) == len(found)
    for written in found:
        assert len(written.tokens) < limit if written.finished else len(written.tokens) == limit
        assert END not in written.tokens
        assert written.log_probability == pytest.approx(
            model.log_probability(source, written.tokens, written.finished), abs=1e-4
        )
    order = [(not written.finished, -written.score(penalty)) for written in found]
    assert order == sorted(order)


@settings(deadline=None, max_examples=60)
@given(source=seeds, limit=limits, width=st.integers(1, 6))
def test_a_beam_keeps_the_best_of_all_continuations(source: int, limit: int, width: int):
    """The same by the book: every continuation of every prefix is written down and sorted."""
    model, prefixes, done = RandomModel(), [Hypothesis([], 0.0, finished=False)], []
    while len(prefixes[0].tokens) < limit and len(done) < width:
        everything = [
            Hypothesis(
                [*one.tokens, token],
                model.log_probability(source, [*one.tokens, token], finished=False),
                finished=token == END,
            )
            for one in prefixes
            for token in range(TOKENS)
        ]
        everything.sort(key=lambda one: -one.log_probability)
        done += [one for one in everything[:width] if one.finished]
        prefixes = [one for one in everything if not one.finished][:width]
    done += prefixes if len(prefixes[0].tokens) == limit else []
    done.sort(key=lambda one: (not one.finished, -one.log_probability / ((5 + len(one.tokens)) / 6) ** 0.6))
    (found,) = run_beam(model, [source], [limit], width)
    assert [[*one.tokens, END] if one.finished else one.tokens for one in found] == [one.tokens for one in done[:width]]


@settings(deadline=None, max_examples=40)
@given(source=seeds, limit=st.integers(0, 8), penalty=penalties)
def test_a_beam_of_one_is_greedy(source: int, limit: int, penalty: float):
    (one,) = run_beam(RandomModel(), [source], [limit], 1, penalty)[0]
    (other,) = run_greedy(RandomModel(), [source], [limit])
    assert (one.tokens, one.finished) == (other.tokens, other.finished)
    assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)


@settings(deadline=None, max_examples=15)
@given(source=seeds, weaker=st.floats(0, 2), more=st.floats(0, 2))
def test_a_larger_length_penalty_never_makes_the_output_shorter(source: int, weaker: float, more: float):
    (short,), (long,) = (run_beam(RandomModel(), [source], [4], WIDE, penalty) for penalty in (weaker, weaker + more))
    assert len(short[0].tokens) <= len(long[0].tokens)


def test_without_a_length_penalty_the_most_probable_output_wins_and_with_one_a_longer_may():
    class Choice(RandomModel):
        """Ends at once with 0.3, or writes three tokens with 0.25 altogether."""

        def logits(self, source: int, prefix: Prefix) -> Tensor:
            steps = [[0.25, 0.45, 0, 0.3], [1.0, 0, 0, 0], [1.0, 0, 0, 0], [0, 0, 0, 1.0]]
            return (
                torch.tensor(steps[min(len(prefix), 4) - 1]).clamp(min=1e-9).log()
                if 1 not in prefix
                else torch.zeros(TOKENS)
            )

    lengths = {penalty: len(run_beam(Choice(), [0], [5], WIDE, penalty)[0][0].tokens) for penalty in (0.0, 0.6)}
    assert lengths == {0.0: 0, 0.6: 3}


@given(length=st.integers(0, 100))
def test_the_length_factor_is_the_published_one(length: int):
    assert length_factor(length, 0.6) == pytest.approx((5 + length) ** 0.6 / (5 + 1) ** 0.6)
    assert length_factor(length, 0.0) == 1


# --- rows of a batch --------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(rows=st.lists(st.tuples(seeds, st.integers(0, 5)), min_size=1, max_size=5), width=st.integers(1, 4))
def test_a_row_depends_on_no_other_and_keeps_its_own_limit(rows: list[tuple[int, int]], width: int):
    sources, limits = zip(*rows, strict=True)
    model = RandomModel()
    together, beams = run_greedy(model, sources, limits), run_beam(model, sources, limits, width)
    for row, (source, limit) in enumerate(rows):
        (alone,) = run_greedy(model, [source], [limit])
        assert together[row] == alone
        assert beams[row] == run_beam(model, [source], [limit], width)[0]
        assert all(len(written.tokens) <= limit for written in (alone, *beams[row]))


def test_a_limit_of_zero_writes_nothing_and_asks_nothing():
    model, nothing = RandomModel(), Hypothesis([], 0.0, finished=False)
    assert run_greedy(model, [1, 2], [0, 0]) == [nothing, nothing]
    assert run_beam(model, [1, 2], [0, 0], 3) == [[nothing], [nothing]]
    assert run_greedy(model, [], []) == []
    assert run_beam(model, [], [], 3) == []
    assert model.rows_at_each_step == []


def test_finished_says_whether_the_model_ended_or_the_limit():
    ended, cut, just_cut = run_greedy(Certain(0, 1, END), [1, 2, 3], [5, 1, 2])
    assert (ended.tokens, ended.finished) == ([0, 1], True)
    assert (cut.tokens, cut.finished) == ([0], False)
    assert (just_cut.tokens, just_cut.finished) == ([0, 1], False)
    for run in (run_greedy, lambda *arguments: [outputs[0] for outputs in run_beam(*arguments, width=3)]):
        (at_once,) = run(Certain(END), [1], [5])
        assert (at_once.tokens, at_once.finished) == ([], True)
        assert at_once.log_probability == pytest.approx(0, abs=1e-5)


def test_an_output_that_ended_stands_before_one_that_the_limit_ended():
    class Reluctant(RandomModel):
        def logits(self, source: int, prefix: Prefix) -> Tensor:
            return torch.tensor([0.7, 0.0, 0.0, 0.3]).clamp(min=1e-9).log()

    (found,) = run_beam(Reluctant(), [1], [4], 3)
    assert [written.finished for written in found] == sorted((written.finished for written in found), reverse=True)
    assert found[0].finished
    (outputs,) = run_beam(Certain(0), [1], [4], 1)
    assert [(written.tokens, written.finished) for written in outputs] == [([0] * 4, False)]


def test_rows_that_are_done_are_computed_no_more():
    model = Certain(0, 1, END)
    run_greedy(model, [1, 2, 3, 4], [1, 2, 9, 0])
    assert model.rows_at_each_step == [3, 2, 1]


def test_a_state_is_anything_that_can_be_reordered():
    assert isinstance(Prefixes([1]), DecoderState)
    assert not isinstance([1], DecoderState)
