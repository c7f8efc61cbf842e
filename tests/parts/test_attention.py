"""Attention beside its formula, written out pair by pair in NumPy."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.parts import attention
from neuropil.parts.attention import (
    Additive,
    Hard,
    ScaledDot,
    Score,
    Smoothing,
    attend,
    attention_weights,
    causal_mask,
    padding_mask,
)
from neuropil.parts.kernels import Boxcar, Epanechnikov, Gaussian, Laplacian
from parts.attention_problems import (
    DOUBLE,
    HIDDEN,
    INNER_PRODUCTS,
    LIMITS,
    NAMES,
    SOFT,
    Problem,
    make_problem,
    make_score,
    problems,
    written_out,
)

# --- the operation and its formula ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=25)
@given(problem=problems())
def test_weights_and_mixture_equal_the_written_formula(name: str, problem: Problem):
    score = make_score(name, problem.query.shape[-1])
    expected = written_out(problem, name, score)
    with torch.no_grad():
        weights = attention_weights(problem.query, problem.key, score=score, **problem.limits)
        mixed = attend(problem.query, problem.key, problem.value, score=score, **problem.limits)
    np.testing.assert_allclose(weights, expected, atol=1e-10)
    np.testing.assert_allclose(mixed, expected @ problem.value.numpy(), atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=15)
@given(problem=problems(), scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_weights_lie_between_zero_and_one_and_sum_to_one_or_are_nothing(name: str, problem: Problem, scale: float):
    score = make_score(name, problem.query.shape[-1])
    if isinstance(score, torch.nn.Module):
        score.float()
    elif isinstance(score, Hard) and isinstance(score.score, torch.nn.Module):
        score.score.float()
    query, key = scale * problem.query.float(), scale * problem.key.float()
    with torch.no_grad():
        weights = attention_weights(query, key, score=score, **problem.limits)
    sums = weights.sum(-1)
    assert weights.min() >= 0
    assert weights.max() <= 1
    assert torch.where(sums < 0.5, sums == 0, (sums - 1).abs() < 1e-5).all()


@pytest.mark.parametrize("name", SOFT)
def test_attending_and_weighing_have_the_same_gradients(name: str):
    torch.manual_seed(0)
    for limit in LIMITS:
        problem = make_problem((2, 3), 5, 4, 3, 2, limit)
        score = make_score(name, 3)
        learned = list(score.parameters()) if isinstance(score, torch.nn.Module) else []
        inputs = [
            problem.query.requires_grad_(),
            problem.key.requires_grad_(),
            problem.value.requires_grad_(),
            *learned,
        ]
        outward = torch.randn(2, 3, 5, 2, dtype=DOUBLE)
        whole = attend(problem.query, problem.key, problem.value, score=score, **problem.limits)
        explicit = attention_weights(problem.query, problem.key, score=score, **problem.limits) @ problem.value
        ours, expected = (
            torch.autograd.grad(mixed, inputs, outward, materialize_grads=True) for mixed in (whole, explicit)
        )
        torch.testing.assert_close(ours, expected)
        assert all(gradient.isfinite().all() for gradient in ours)


@pytest.mark.parametrize("name", [name for name in SOFT if name != "Boxcar"])
def test_gradients_agree_with_finite_differences(name: str):
    torch.manual_seed(1)
    problem = make_problem((2,), 2, 3, 2, 2, "causal")
    score = make_score(name, 2)
    inputs = tuple(x.requires_grad_() for x in (problem.query, problem.key, problem.value))
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, score=score, causal=True), inputs)


@settings(deadline=None, max_examples=20)
@given(problem=problems(), chosen=st.lists(st.integers(0, 5), max_size=5))
def test_some_rows_of_the_weights_are_those_rows_of_all(problem: Problem, chosen: list[int]):
    rows = torch.tensor([row % problem.query.shape[-2] for row in chosen], dtype=torch.int64)
    for score in (ScaledDot(), Smoothing(Laplacian())):
        whole = attention_weights(problem.query, problem.key, score=score, **problem.limits)
        some = attention_weights(problem.query, problem.key, score=score, rows=rows, **problem.limits)
        torch.testing.assert_close(some, whole[..., rows, :])


def test_limits_may_leave_out_the_axes_that_they_do_not_depend_on():
    torch.manual_seed(0)
    problem = make_problem((2, 3), 4, 5, 3, 2, "none")
    rows = torch.rand(4, 5) < 0.5
    for score in (ScaledDot(), Additive(3, 3, HIDDEN).double()):
        for mask in (rows[0], rows[:1], rows, rows[None], rows.expand(2, 1, 4, 5)):
            mixed = attend(problem.query, problem.key, problem.value, score=score, mask=mask)
            whole = attend(problem.query, problem.key, problem.value, score=score, mask=mask.expand(2, 3, 4, 5))
            torch.testing.assert_close(mixed, whole)


# --- nothing to attend to ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", ["mask", "bias"])
def test_a_query_with_nothing_to_attend_to_gets_zeros_and_finite_gradients(name: str, limit: str):
    torch.manual_seed(0)
    score = make_score(name, 3)
    query, key, value = (torch.randn(2, 4, 3, dtype=DOUBLE, requires_grad=True) for _ in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[1:3] = False
    limits: dict[str, Any] = (
        {"mask": mask} if limit == "mask" else {"bias": torch.zeros(4, 4, dtype=DOUBLE).masked_fill(~mask, -torch.inf)}
    )
    mixed = attend(query, key, value, score=score, **limits)
    assert not mixed[:, 1:3].any()
    assert not attention_weights(query, key, score=score, **limits)[:, 1:3].any()
    gradients = torch.autograd.grad(mixed, (query, key, value), 1e200 * torch.ones_like(mixed), materialize_grads=True)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][:, 1:3].any()


@pytest.mark.parametrize("kernel", [Epanechnikov(1.0), Boxcar(1.0)])
def test_a_point_with_nobody_near_is_smoothed_to_zero_and_one_on_the_edge_has_a_gradient(kernel: Epanechnikov | Boxcar):
    query, key = (
        torch.tensor([[0.0], [9.0]], requires_grad=True),
        torch.tensor([[0.0], [1.0], [2.0]], requires_grad=True),
    )
    mixed = attend(query, key, torch.ones(3, 1, requires_grad=True), score=Smoothing(kernel))
    assert mixed.flatten().tolist() == [1.0, 0.0]
    gradients = torch.autograd.grad(mixed.sum(), (query, key), materialize_grads=True)
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("name", NAMES)
def test_no_keys_at_all_and_no_queries_at_all_are_no_special_cases(name: str):
    score = make_score(name, 3)
    empty, some = torch.randn(2, 0, 3, dtype=DOUBLE), torch.randn(2, 4, 3, dtype=DOUBLE)
    assert torch.equal(attend(some, empty, empty[..., :2], score=score), torch.zeros(2, 4, 2, dtype=DOUBLE))
    assert attention_weights(some, empty, score=score).shape == (2, 4, 0)
    assert attend(empty, some, some[..., :2], score=score).shape == (2, 0, 2)


# --- symmetries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=12)
@given(problem=problems(("none", "arbitrary", "bias")))
def test_shuffled_queries_shuffle_the_answer_and_shuffled_pairs_of_key_and_value_change_nothing(
    name: str, problem: Problem
):
    query, key, value, mask, _, bias = problem
    score = make_score(name, query.shape[-1])
    order, pairs = torch.randperm(query.shape[-2]), torch.randperm(key.shape[-2])
    mixed = attend(query, key, value, score=score, mask=mask, bias=bias)
    moved = attend(
        query[..., order, :],
        key[..., pairs, :],
        value[..., pairs, :],
        score=score,
        mask=None if mask is None else mask[..., order, :][..., pairs],
        bias=None if bias is None else bias[..., order, :][..., pairs],
    )
    torch.testing.assert_close(moved, mixed[..., order, :])


@pytest.mark.parametrize("name", ["ScaledDot", "Additive"])
@settings(deadline=None, max_examples=15)
@given(keys=st.integers(1, 8), queries=st.integers(1, 8))
def test_causal_queries_are_the_last_of_the_keys(name: str, keys: int, queries: int):
    score = make_score(name, 3)
    query, key, value = (torch.randn(2, 8, 3, dtype=DOUBLE) for _ in range(3))
    whole = attend(query[:, :keys], key[:, :keys], value[:, :keys], score=score, causal=True)
    last = min(queries, keys)
    tail = attend(query[:, keys - last : keys], key[:, :keys], value[:, :keys], score=score, causal=True)
    torch.testing.assert_close(tail, whole[:, keys - last :])
    if queries > keys:
        more = attend(query[:, :queries], key[:, :keys], value[:, :keys], score=score, causal=True)
        assert not more[:, : queries - keys].any()


def test_causal_answers_do_not_depend_on_what_comes_later():
    query, key, value = (torch.randn(2, 6, 3) for _ in range(3))
    before = attend(query, key, value, causal=True)
    key[:, 4:], value[:, 4:] = 100.0, -100.0
    torch.testing.assert_close(attend(query, key, value, causal=True)[:, :4], before[:, :4])


def test_masks_are_true_where_there_is_something_to_see():
    expected = [[[[True, True, False]]], [[[False, False, False]]], [[[True, True, True]]]]
    assert padding_mask(torch.tensor([2, 0, 3]), 3).tolist() == expected
    assert causal_mask(2, 3).tolist() == [[True, True, False], [True, True, True]]
    assert causal_mask(3, 2).tolist() == [[False, False], [True, False], [True, True]]


# --- how it is computed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name not in INNER_PRODUCTS])
@pytest.mark.parametrize("limit", LIMITS)
def test_some_queries_at_a_time_give_the_same_as_all_at_once(name: str, limit: str, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    problem, score = make_problem((2, 2), 7, 5, 3, 2, limit), make_score(name, 3)
    learned = list(score.parameters()) if isinstance(score, torch.nn.Module) else []
    inputs = [problem.query.requires_grad_(), problem.key.requires_grad_(), problem.value.requires_grad_(), *learned]
    outward = torch.randn(2, 2, 7, 2, dtype=DOUBLE)

    def run() -> tuple[Tensor, ...]:
        mixed = attend(problem.query, problem.key, problem.value, score=score, **problem.limits)
        return mixed, *torch.autograd.grad(mixed, inputs, outward, materialize_grads=True)

    whole = run()
    monkeypatch.setattr(attention, "NUMBERS_AT_ONCE", 2 * 2 * 5 * score.numbers_per_pair * 3)  # three queries at a time
    torch.testing.assert_close(run(), whole)
    with torch.no_grad():
        torch.testing.assert_close(
            attend(problem.query, problem.key, problem.value, score=score, **problem.limits), whole[0]
        )


@pytest.mark.parametrize("name", ["ScaledDot", "Laplacian"])
def test_dropout_silences_weights_and_keeps_their_mean(name: str, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    monkeypatch.setattr(attention, "NUMBERS_AT_ONCE", 4000 * 5)  # one query at a time
    score = make_score(name, 3)
    query, key, value = (torch.randn(1, 5, 3, dtype=DOUBLE).expand(4000, 5, 3) for _ in range(3))
    dropped = attend(query, key, value, score=score, dropout=0.4)
    expected = attend(query[:1], key[:1], value[:1], score=score)[0]
    assert dropped.std(0).min() > 0.05
    torch.testing.assert_close(dropped.mean(0), expected, atol=0.1, rtol=0)
    silenced = attend(query, key, torch.eye(5, dtype=DOUBLE).expand(4000, 5, 5), score=score, dropout=0.4)
    assert abs((silenced == 0).double().mean().item() - 0.4) < 0.01


def test_dropout_silences_the_same_weights_on_the_way_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention, "NUMBERS_AT_ONCE", 2 * 9)
    query, key, value = (torch.randn(2, 9, 3, dtype=DOUBLE) for _ in range(3))
    value.requires_grad_()
    mixed = attend(query, key, value, score=Smoothing(Laplacian()), dropout=0.5)
    outward = torch.randn_like(mixed)
    (gradient,) = torch.autograd.grad(mixed, value, outward)
    torch.testing.assert_close(
        (mixed * outward).sum(), (gradient * value).sum()
    )  # for the mixture is linear in the values


@pytest.mark.parametrize("score", [ScaledDot(), Smoothing(Gaussian()), Smoothing(Laplacian())])
def test_precision_is_that_of_the_values(score: Score):
    query, key, value = (torch.randn(2, 4, 3) for _ in range(3))
    assert attend(query, key, value, score=score, bias=torch.zeros(4, 4, dtype=DOUBLE)).dtype == torch.float32


def test_a_tap_is_told_of_everything_before_it_happens():
    told = []
    query, key, value, mask, bias = (
        *(torch.randn(2, 4, 3) for _ in range(3)),
        torch.ones(4, 4, dtype=torch.bool),
        torch.zeros(4, 4),
    )
    attend(
        query,
        key,
        value,
        mask=mask,
        causal=True,
        bias=bias,
        tap=lambda query, key, mask, bias, causal: told.append((query, key, mask, bias, causal)),
    )
    ((q, k, m, b, causal),) = told
    assert (q is query, k is key, m is mask, b is bias, causal) == (True, True, True, True, True)


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [ScaledDot(), Smoothing(Laplacian())])
def test_a_limit_that_fits_no_pairs_is_refused(score: Score):
    x = torch.randn(2, 4, 3)
    mask, bias = padding_mask(torch.tensor([2, 3]), 4), torch.zeros(3, 4)
    for name, wrong, shape in (("mask", mask, "[2, 1, 1, 4]"), ("bias", bias, "[3, 4]")):
        for select in (
            lambda **limit: attend(x, x, x, score=score, **limit),
            lambda **limit: attention_weights(x, x, score=score, **limit),
        ):
            with pytest.raises(InputError) as error:
                select(**{name: wrong})
            assert (
                str(error.value)
                == f"an attention {name} must broadcast to [*batch query key] = [2, 4, 4], but got {shape}."
            )


def test_a_mask_of_numbers_is_refused_where_no_annotation_is_executed():
    program = "import torch; from neuropil.parts.attention import attend; x = torch.randn(4, 3)\n"
    program += "attend(x, x, x, mask=torch.ones(4, 4))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.stderr.splitlines()[-1] == (
        "neuropil.errors.InputError: an attention mask is boolean, true where a query may look, "
        "but got a mask of torch.float32: "
        "pass scores as bias."
    )


def test_a_kernel_without_length_is_refused():
    with pytest.raises(InputError) as error:
        Gaussian(0.0)
    assert str(error.value) == "Gaussian needs a length above zero, but got 0."
