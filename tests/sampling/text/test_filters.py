"""Choosing a token: what may be drawn, and how often."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.randomness import seeded
from neuropil.sampling.text.filters import (
    SamplingConfig,
    draw,
    filter_logits,
    keep_top_p,
    probabilities,
    sample_tokens,
    skip_draws,
)

LOGITS = torch.tensor([[1.0, 0.0, -1.0, 2.0]])


def chosen(logits: Tensor, sampling: SamplingConfig, seed: int = 0, never: tuple[int, ...] = ()) -> list[int]:
    return sample_tokens(logits, sampling, [seeded(seed, row) for row in range(len(logits))], never=never).tolist()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_tokens_come_as_often_as_the_softened_logits_say(temperature: float):
    tokens = sample_tokens(
        LOGITS.expand(4_000, 4), SamplingConfig(temperature=temperature), [torch.Generator().manual_seed(0)] * 4_000
    )
    counts = torch.bincount(tokens, minlength=4) / 4_000
    torch.testing.assert_close(counts, (LOGITS[0] / temperature).softmax(0), atol=0.03, rtol=0)


def test_a_token_is_chosen_by_where_one_number_falls_among_the_sums_of_the_probabilities():
    probabilities = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    for seed in range(50):
        chance = torch.rand(1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).item()
        (token,) = draw(probabilities.log()[None], [torch.Generator().manual_seed(seed)]).tolist()
        assert token == (1 if chance < 0.25 else 3 if chance < 0.75 else 4)


@settings(deadline=None)
@given(
    p=st.lists(st.floats(0.01, 1), min_size=1, max_size=8).map(lambda weights: [w / sum(weights) for w in weights]),
    share=st.floats(0, 0.999),
)
def test_top_p_keeps_the_smallest_set_that_is_probable_enough(p: list[float], share: float):
    """By trying all sets. Sums that are the share itself, but for rounding, may fall on either side."""
    kept = keep_top_p(torch.tensor([p]).log(), share)[0].isfinite()
    together = sum(x for x, stays in zip(p, kept.tolist(), strict=True) if stays)
    smaller = [sum(some) for count in range(int(kept.sum())) for some in itertools.combinations(p, count)]
    assert together >= share - 1e-5
    assert max(smaller) <= share + 1e-5


def test_of_equally_likely_tokens_no_more_than_needed_are_kept():
    assert int(keep_top_p(torch.zeros(1, 8), 0.5)[0].isfinite().sum()) == 4
    assert (
        int(filter_logits(torch.zeros(1, 8), SamplingConfig(top_k=3))[0].isfinite().sum()) == 8
    )  # top-k has no way to tell them apart


@settings(deadline=None)
@given(
    z=st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=10),
    top_k=st.integers(0, 5),
    top_p=st.floats(0, 1),
    min_p=st.floats(0, 1),
    temperature=st.floats(0, 3),
    seed=st.integers(0, 100),
)
def test_what_is_drawn_was_left_and_the_likeliest_always_is(
    z: list[float], top_k: int, top_p: float, min_p: float, temperature: float, seed: int
):
    logits = torch.tensor([z])
    sampling = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    remaining = filter_logits(logits, sampling)[0]
    (token,) = chosen(logits, sampling, seed)
    assert remaining[token].isfinite()
    assert remaining[int(logits[0].argmax())].isfinite() or z.count(max(z)) > 1


def test_the_strictest_settings_are_greedy():
    for sampling in (
        SamplingConfig(temperature=0),
        SamplingConfig(temperature=5e-324),
        SamplingConfig(top_k=1),
        SamplingConfig(top_p=0),
        SamplingConfig(min_p=1),
    ):
        assert {chosen(LOGITS, sampling, seed)[0] for seed in range(20)} == {3}


def test_forbidden_tokens_never_come_and_logits_stay_as_they_are():
    logits = torch.tensor([[9.0, 0.0, -1.0, 8.0]])
    drawn = {
        chosen(logits, SamplingConfig(temperature=t), seed, never=(0, 3))[0]
        for t in (0.0, 1.0, 5.0)
        for seed in range(20)
    }
    assert drawn == {1, 2}
    assert logits.tolist() == [[9.0, 0.0, -1.0, 8.0]]


def test_a_repeated_token_loses_whichever_sign_its_logit_has():
    z, seen = torch.tensor([[2.0, -2.0, 2.0, -2.0]]), torch.tensor([[True, True, False, False]])
    assert filter_logits(z, SamplingConfig(temperature=1, repetition_penalty=2.0), seen=seen).tolist() == [
        [1.0, -4.0, 2.0, -2.0]
    ]


@settings(deadline=None)
@given(rows=st.integers(1, 4), seed=st.integers(0, 50))
def test_a_row_draws_from_its_own_generator_whatever_stands_beside_it(rows: int, seed: int):
    logits = torch.randn(rows, 9, generator=torch.Generator().manual_seed(seed))
    together = chosen(logits, SamplingConfig(), seed)
    alone = [sample_tokens(logits[row : row + 1], SamplingConfig(), [seeded(seed, row)]).item() for row in range(rows)]
    assert together == alone


def test_half_precision_is_chosen_from_as_it_is():
    for kind in (torch.bfloat16, torch.float16, torch.float64):
        assert chosen(LOGITS.to(kind), SamplingConfig(), 5) == chosen(LOGITS, SamplingConfig(), 5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("logits", [[float("nan"), 1.0], [float("-inf"), float("-inf")], [float("inf"), 0.0]])
def test_without_a_token_to_choose_it_is_said_so(logits: list[float], temperature: float):
    with pytest.raises(InputError) as error:
        chosen(torch.tensor([[0.0, 0.0], logits]), SamplingConfig(temperature=temperature))
    assert str(error.value) == "some token must be possible next, but got logits that are all masked, or NaN."


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperature": -1.0}, "temperature must be at least 0, but got -1.0."),
        ({"temperature": float("nan")}, "temperature must be at least 0, but got nan."),
        ({"top_k": -1}, "top_k must be at least 0, but got -1."),
        ({"top_p": 1.5}, "top_p must be at most 1, but got 1.5."),
        ({"min_p": -0.1}, "min_p must be at least 0, but got -0.1."),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be at least 0.01, but got 0.0."),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], sentence: str):
    with pytest.raises(InputError) as error:
        SamplingConfig(**settings)  # type: ignore[arg-type]  # what a user may type
    assert str(error.value) == sentence


def test_the_smallest_number_never_chooses_a_token_without_probability(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "rand", lambda *sizes, **options: torch.zeros(sizes, dtype=torch.float64))
    probabilities = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    assert draw(probabilities.log()[None], [torch.Generator()]).tolist() == [1]


def test_the_largest_number_chooses_the_last_token_though_the_sums_are_rounded(monkeypatch: pytest.MonkeyPatch):
    """Ten tenths, added up, are 1 − 2⁻⁵³."""
    monkeypatch.setattr(torch, "rand", lambda *sizes, **options: torch.full(sizes, 1 - 2.0**-53, dtype=torch.float64))
    assert draw(torch.zeros(1, 10), [torch.Generator()]).tolist() == [9]


def test_min_p_compares_each_row_with_its_own_likeliest_token():
    z = torch.tensor([[0.0, -1.0, -5.0], [0.0, 0.0, -1.0], [4.0, 0.0, 0.0]])
    left = filter_logits(z, SamplingConfig(temperature=1.0, min_p=0.3)).isfinite()
    assert left.tolist() == [[True, True, False], [True, True, True], [True, False, False]]


def test_probabilities_are_what_tokens_are_drawn_with():
    z = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    assert torch.equal(probabilities(z, SamplingConfig(temperature=0.0)), torch.tensor([[1.0, 0, 0, 0]]))
    left = probabilities(z, SamplingConfig(temperature=0.5, top_k=2), never=[1])
    assert left[0].tolist() == pytest.approx(torch.tensor([4.0, -torch.inf, 0.0, -torch.inf]).softmax(0).tolist())


def test_skipped_draws_are_those_that_would_have_come():
    z, one, other = torch.zeros(1, 1000), seeded(3), seeded(3)
    for _ in range(20):
        draw(z, [one])
    skip_draws(other, 20)
    assert torch.equal(draw(z, [one]), draw(z, [other]))
