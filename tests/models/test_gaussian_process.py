"""What is true of Gaussian processes, and how they differ from attention and smoothing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.gaussian_process import (
    GaussianProcess,
    GaussianProcessConfig,
    LearnedAttention,
    attended_mean,
    fit_length,
    smooth,
)
from neuropil.parts.attention import Smoothing, attention_weights
from neuropil.parts.kernels import Epanechnikov, Gaussian, KernelName, build_kernel

NAMES: list[KernelName] = ["gaussian", "laplacian", "matern", "rational_quadratic", "periodic"]


def noisy_sine(count: int = 30, width: int = 1, seed: int = 0, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = 6 * torch.rand(count, width, dtype=torch.double, generator=generator)
    return x, torch.sin(x.sum(1)) + noise * torch.randn(count, dtype=torch.double, generator=generator)


def process(x: Tensor, y: Tensor, **options: float | str) -> GaussianProcess:
    return GaussianProcess(GaussianProcessConfig(**options)).fit(x, y)  # type: ignore[arg-type]


# --- the process ------------------------------------------------------------------------------------------------------


def test_before_any_observation_it_is_the_prior():
    prior, x = (
        GaussianProcess(GaussianProcessConfig(mean=3.0, height=2.5)),
        torch.linspace(-1, 1, 5, dtype=torch.double)[:, None],
    )
    mean, variance = prior.predict(x)
    assert mean.tolist() == [3.0] * 5
    torch.testing.assert_close(variance, torch.full((5,), 2.5, dtype=torch.double))
    assert prior.log_likelihood().item() == 0
    assert prior.sample(x, 7, torch.Generator().manual_seed(0)).shape == (7, 5)


@pytest.mark.parametrize("name", NAMES)
def test_without_noise_it_passes_through_its_observations_and_is_sure_of_them(name: KernelName):
    x, y = (
        torch.tensor([[0.0], [0.7], [1.6], [2.1]], dtype=torch.double),
        torch.tensor([1.0, -1.0, 0.5, 2.0], dtype=torch.double),
    )
    exact = process(x, y, kernel=name, length=0.8, period=5.0, noise=0.0)
    mean, variance = exact.predict(x)
    torch.testing.assert_close(mean, y, atol=1e-8, rtol=0)
    torch.testing.assert_close(variance, torch.zeros(4, dtype=torch.double), atol=1e-8, rtol=0)
    samples = exact.sample(x, 5, torch.Generator().manual_seed(0))
    torch.testing.assert_close(samples, y.expand(5, 4), atol=1e-4, rtol=0)


def test_far_from_all_observations_it_knows_only_the_prior():
    x, y = noisy_sine()
    mean, variance = process(x, y, mean=5.0, height=2.0).predict(torch.tensor([[1e4]], dtype=torch.double))
    assert mean.item() == pytest.approx(5.0)
    assert variance.item() == pytest.approx(2.0)


@settings(deadline=None, max_examples=25)
@given(count=st.integers(1, 20), width=st.integers(1, 3), noise=st.floats(1e-4, 10), seed=st.integers(0, 1000))
def test_an_observation_more_never_makes_it_less_sure(count: int, width: int, noise: float, seed: int):
    x, y = noisy_sine(count + 1, width, seed)
    query = noisy_sine(8, width, seed + 1)[0]
    before = process(x[:-1], y[:-1], noise=noise).predict(query).variance
    after = process(x, y, noise=noise).predict(query).variance
    assert (after <= before + 1e-9).all()
    assert (after >= 0).all()


def test_the_order_of_the_observations_does_not_matter():
    x, y = noisy_sine()
    turned = process(x.flip(0), y.flip(0)).predict(x)
    for ours, theirs in zip(process(x, y).predict(x), turned, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_many_queries_are_answered_as_few_are():
    x, y = noisy_sine()
    query = torch.linspace(0, 6, 2500, dtype=torch.double)[:, None]
    whole, part = process(x, y).predict(query), process(x, y).predict(query[1200:1300])
    torch.testing.assert_close(whole.variance[1200:1300], part.variance)
    torch.testing.assert_close(whole.mean[1200:1300], part.mean)


def test_the_mean_has_a_slope_by_x():
    x, y = noisy_sine()
    gp, query = process(x, y), torch.rand(3, 1, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(gp, query)


def test_answers_have_the_precision_of_the_question_and_are_computed_in_double():
    x, y = noisy_sine()
    gp, query = process(x.float(), y.float()), torch.rand(4, 1)
    assert gp(query).dtype == gp.predict(query).variance.dtype == torch.float32
    assert gp.x.dtype == torch.double


def test_what_was_learned_is_kept_with_the_observations():
    x, y = noisy_sine()
    learned = process(x, y).learn()
    restored = GaussianProcess(GaussianProcessConfig.from_dict(learned.config.to_dict()))
    restored.load_state_dict(learned.state_dict())
    assert torch.equal(restored(x), learned(x))
    assert GaussianProcess(learned.found()).predict(x).variance.tolist() == pytest.approx([learned.height] * len(x))


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["epanechnikov", "boxcar"])
def test_a_kernel_that_is_not_positive_definite_is_refused(name: KernelName):
    with pytest.raises(InputError) as error:
        GaussianProcessConfig(kernel=name)
    assert str(error.value) == (
        f"a Gaussian process needs a kernel that is positive definite, but got {name!r}: choose gaussian or matern."
    )


def test_the_periodic_kernel_is_refused_in_a_plane():
    with pytest.raises(InputError) as error:
        process(*noisy_sine(5, width=2), kernel="periodic")
    assert str(error.value) == (
        "the periodic kernel is positive definite on a line only, but got x of 2 numbers: choose gaussian or matern."
    )


@pytest.mark.parametrize("name", ["length", "height", "period"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf])
def test_what_must_be_positive_is(name: str, value: float):
    with pytest.raises(InputError) as error:
        GaussianProcessConfig().override(**{name: value})
    assert str(error.value) == f"{name} must be above zero and finite, but got {value:g}."


def test_the_same_point_twice_without_noise_needs_a_jitter_that_is_reported():
    x, y = torch.tensor([[0.0], [1.0], [1.0]], dtype=torch.double), torch.tensor([2.0, 3.0, 3.0], dtype=torch.double)
    twice, once = process(x, y, noise=0.0), process(x[:2], y[:2], noise=0.0)
    assert 0 < twice.jitter <= 1e-10
    assert once.jitter == 0
    torch.testing.assert_close(twice(x), y, atol=1e-6, rtol=0)
    query = torch.tensor([[0.4], [2.0]], dtype=torch.double)
    for ours, theirs in zip(twice.predict(query), once.predict(query), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


def test_a_covariance_that_is_singular_by_rounding_is_handled():
    x = torch.linspace(0, 1, 200, dtype=torch.double)[:, None]
    smooth_one = process(x, torch.sin(6 * x[:, 0]), kernel="gaussian", length=1.0, noise=0.0)
    assert smooth_one.jitter > 0
    torch.testing.assert_close(smooth_one(x), torch.sin(6 * x[:, 0]), atol=1e-4, rtol=0)


def test_two_values_at_one_point_need_noise():
    x, y = torch.tensor([[0.0, 1.0], [2.0, 3.0], [2.0, 3.0]]), torch.tensor([1.0, 2.0, 2.5])
    with pytest.raises(InputError) as error:
        process(x, y, noise=0.0)
    assert (
        str(error.value)
        == "observations of the same x that differ need a noise above zero, but got 2 and 2.5 at x = 2, 3."
    )
    assert process(x, y, noise=1e-4)(x[1:2]).item() == pytest.approx(2.25, abs=1e-3)


@pytest.mark.parametrize(("x", "y"), [((2, 1), (3,)), ((0, 1), (0,)), ((4,), (4,)), ((4, 1), (4, 1))])
def test_observations_of_another_shape_are_refused(x: tuple[int, ...], y: tuple[int, ...]):
    with pytest.raises(InputError) as error:
        process(torch.zeros(x), torch.zeros(y))
    assert str(error.value) == (
        f"GaussianProcess.fit needs x of shape [points, numbers] and y of shape [points], "
        f"but got {list(x)} and {list(y)}."
    )


def test_observations_that_are_not_finite_are_refused():
    with pytest.raises(InputError) as error:
        process(torch.ones(2, 1), torch.tensor([1.0, math.nan]))
    assert str(error.value) == "GaussianProcess.fit needs finite observations, but got infinity or nan: remove them."


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "matern"])
def test_learning_finds_the_numbers_that_the_data_were_made_with(name: KernelName):
    truth = GaussianProcess(GaussianProcessConfig(kernel=name, length=0.5, height=4.0, mean=10.0))
    x = torch.linspace(0, 30, 300, dtype=torch.double)[:, None]
    generator = torch.Generator().manual_seed(1)
    y = truth.sample(x, 1, generator)[0] + 0.3 * torch.randn(300, dtype=torch.double, generator=generator)
    learned = process(x, y, kernel=name).learn()
    assert learned.length == pytest.approx(0.5, rel=0.5)
    assert math.sqrt(learned.height) == pytest.approx(2.0, rel=0.35)
    assert math.sqrt(learned.noise) == pytest.approx(0.3, rel=0.35)
    assert learned.prior.mean.item() == pytest.approx(y.mean().item())


def test_learning_is_repeatable_and_ends_on_a_peak():
    x, y = noisy_sine()
    first, second = process(x, y, kernel="gaussian").learn(), process(x, y, kernel="gaussian").learn()
    assert (first.length, first.height, first.noise) == (second.length, second.height, second.noise)
    first.log_likelihood().backward()
    for parameter in (first.prior.log_length, first.prior.log_height, first.prior.log_noise):
        assert parameter.grad is not None
        assert abs(parameter.grad.item()) < 1e-2


def test_learning_does_not_depend_on_units():
    x, y = noisy_sine()
    here, there = process(x, y).learn(), process(1000 * x, 7 + 0.01 * y).learn()
    assert there.length == pytest.approx(1000 * here.length, rel=1e-3)
    assert there.noise == pytest.approx(1e-4 * here.noise, rel=1e-3)


def test_exact_observations_stay_exact():
    x, y = noisy_sine(15, noise=0.0)
    learned = process(x, y, kernel="gaussian", noise=0.0).learn()
    assert learned.noise == 0
    assert learned.length > 0.5
    torch.testing.assert_close(learned(x), y, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_learning_survives_points_that_nearly_coincide(name: KernelName, noise: float):
    x, y = torch.tensor([[0.0], [1e-7], [1.0]], dtype=torch.double), torch.tensor([0.3, -1.0, 2.0], dtype=torch.double)
    learned = process(x, y, kernel=name, noise=noise).learn()
    assert math.isfinite(learned.log_likelihood().item())
    assert learned.predict(x).mean.isfinite().all()


def test_the_period_of_a_periodic_process_is_kept_and_its_length_learned():
    x = torch.linspace(0, 10, 80, dtype=torch.double)[:, None]
    y = torch.sin(2 * math.pi * x[:, 0] / 2.5)
    learned = process(x, y, kernel="periodic", period=2.5).learn()
    assert learned(x + 25)[10].item() == pytest.approx(y[10].item(), abs=1e-2)


@pytest.mark.parametrize(("x", "y", "what"), [([[1.0], [1.0]], [0.0, 1.0], "x"), ([[1.0], [2.0]], [3.0, 3.0], "y")])
def test_nothing_is_learned_from_what_does_not_differ(x: list[list[float]], y: list[float], what: str):
    with pytest.raises(InputError) as error:
        process(torch.tensor(x), torch.tensor(y)).learn()
    assert (
        str(error.value) == f"GaussianProcess.learn needs observations that differ, but got the same {what} in all 2."
    )


# --- beside attention -------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(
    count=st.integers(1, 15),
    width=st.integers(1, 3),
    length=st.floats(0.1, 3),
    noise=st.floats(1e-3, 5),
    seed=st.integers(0, 1000),
)
def test_the_mean_is_the_weights_times_the_observations(count: int, width: int, length: float, noise: float, seed: int):
    x, y = noisy_sine(count, width, seed)
    query = noisy_sine(6, width, seed + 1)[0]
    gp = process(x, y, length=length, noise=noise, mean=0.7)
    torch.testing.assert_close(gp(query), 0.7 + gp.weights(query) @ (y - 0.7))


def test_its_weights_may_be_negative_and_need_not_sum_to_one_while_those_of_smoothing_do():
    x, y = noisy_sine()
    query = torch.linspace(-2, 8, 60, dtype=torch.double)[:, None]
    weights, smoothed = (
        process(x, y, length=1.0).weights(query),
        attention_weights(query, x, score=Smoothing(build_kernel("matern", 1.0))),
    )
    assert weights.min() < -0.05
    assert weights.sum(1).min() < 0.5
    assert ((smoothed >= 0) & (smoothed <= 1)).all()
    torch.testing.assert_close(smoothed.sum(1), torch.ones(60, dtype=torch.double))


def test_smoothing_stays_within_the_values_and_a_process_may_go_beyond():
    x, y = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.double), torch.tensor([0.0, 1.0, 1.0], dtype=torch.double)
    query = torch.linspace(-3, 5, 90, dtype=torch.double)[:, None]
    smoothed = smooth(query, x, y, Gaussian(1.0))
    assert ((smoothed >= 0) & (smoothed <= 1)).all()
    assert process(x, y, kernel="gaussian", noise=1e-6)(query).max() > 1.05


@pytest.mark.parametrize("name", NAMES)
def test_with_overwhelming_noise_its_weights_become_those_of_smoothing_up_to_their_sum(name: KernelName):
    x, y = noisy_sine()
    query = noisy_sine(9, seed=1)[0]
    smoothed = attention_weights(query, x, score=Smoothing(build_kernel(name, 0.7, period=2.0)))
    apart = []
    for noise in (1.0, 1e3, 1e6):
        weights = process(x, y, kernel=name, length=0.7, period=2.0, noise=noise).weights(query)
        apart.append((weights / weights.sum(1, keepdim=True) - smoothed).abs().max().item())
    assert apart[0] > 1e-2
    assert apart[1] < apart[0]
    assert apart[2] < 1e-4


def test_with_points_far_apart_its_weights_are_those_of_smoothing_up_to_their_sum():
    x = 100.0 * torch.arange(5, dtype=torch.double)[:, None]
    query = x + torch.tensor([[0.3]], dtype=torch.double)
    weights = process(x, torch.randn(5, dtype=torch.double), kernel="gaussian", height=3.0, noise=0.5).weights(query)
    torch.testing.assert_close(
        weights / weights.sum(1, keepdim=True), attention_weights(query, x, score=Smoothing(Gaussian(1.0)))
    )
    # h k / (h + σ²): the sum is the share of the variance that is not noise, less what is lost with distance
    torch.testing.assert_close(weights.sum(1), torch.full((5,), 3.0 * math.exp(-0.045) / 3.5, dtype=torch.double))


def test_far_from_all_points_smoothing_takes_the_nearest_and_a_process_its_mean():
    x, y = torch.tensor([[0.0], [1.0]], dtype=torch.double), torch.tensor([5.0, 9.0], dtype=torch.double)
    far = torch.tensor([[200.0]], dtype=torch.double)
    assert smooth(far, x, y, Gaussian(1.0)).item() == pytest.approx(9.0)
    assert process(x, y, mean=1.0)(far).item() == pytest.approx(1.0)


def test_smoothing_without_anyone_near_gives_the_mean():
    x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([5.0, 9.0])
    assert smooth(torch.tensor([[50.0], [0.1]]), x, y, Epanechnikov(0.5)).tolist() == pytest.approx([7.0, 5.0])


def test_the_fitted_length_is_the_best_of_leaving_one_out():
    x, y = noisy_sine(40)

    def left_out(length: float) -> float:
        errors = []
        for i in range(40):
            others = [j for j in range(40) if j != i]
            weights = [math.exp(-((x[i, 0] - x[j, 0]).item() ** 2) / (2 * length**2)) for j in others]
            foretold = sum(w * y[j].item() for w, j in zip(weights, others, strict=True)) / sum(weights)
            errors.append((foretold - y[i].item()) ** 2)
        return sum(errors) / 40

    length = fit_length(x, y, "gaussian")
    assert left_out(length) <= min(left_out(length * factor) for factor in (0.5, 0.8, 1.25, 2.0))


def test_learned_attention_begins_as_smoothing():
    x, y = noisy_sine(40)
    query = torch.linspace(0.2, 5.8, 30, dtype=torch.double)[:, None]
    apart = [
        (LearnedAttention(x, y, 0.4, waves=64, sharpness=sharpness)(query) - smooth(query, x, y, Gaussian(0.4)))
        .abs()
        .max()
        .item()
        for sharpness in (8.0, 32.0, 128.0)
    ]
    assert apart[0] > apart[1] > apart[2]
    assert apart[2] < 0.02


def test_learned_attention_is_attention():
    x, y = noisy_sine(20, width=2)
    attention = LearnedAttention(x, y, 0.5, waves=4)
    with torch.no_grad():
        for projection in (attention.query, attention.key):
            projection += 0.3 * torch.randn(
                projection.shape, generator=torch.Generator().manual_seed(0), dtype=torch.double
            )
    query = noisy_sine(7, width=2, seed=1)[0]
    weights = attention.weights(query)
    assert ((weights >= 0) & (weights <= 1)).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(7, dtype=torch.double))
    torch.testing.assert_close(attention(query), weights @ y)
    q, k = attention.project(query)
    torch.testing.assert_close(weights, (q @ k.T / math.sqrt(q.shape[1])).softmax(-1))


def test_the_value_projection_changes_what_is_mixed_and_no_weight():
    """Σ_j a_j W^V t_j = W^V Σ_j a_j t_j with t_j = [z_j, φ(x_j)]; at first W^V = [1, 0], kernel regression of y."""
    x, y = noisy_sine(20, width=2)
    attention, query = LearnedAttention(x, y, 0.5, waves=4), noisy_sine(7, width=2, seed=1)[0]
    weights, unit = attention.weights(query), y.std(correction=0)
    assert torch.equal(attention.values(), y)
    torch.testing.assert_close(attention(query), weights @ y)
    with torch.no_grad():
        attention.value.add_(torch.randn(17, generator=torch.Generator().manual_seed(0), dtype=torch.double))
    assert torch.equal(attention.weights(query), weights)
    tokens = torch.cat([((y - y.mean()) / unit)[:, None], attention.waves(x)], 1)
    first = torch.eye(17, dtype=torch.double)[0]
    torch.testing.assert_close(attention(query), y.mean() + unit * (weights @ tokens) @ (first + attention.value))
    assert not torch.allclose(attention(query), weights @ y)


def test_the_mean_of_a_process_is_attention_with_values_that_mix_the_points():
    x, y = noisy_sine()
    query = torch.linspace(-1, 7, 40, dtype=torch.double)[:, None]
    gp = process(x, y, kernel="matern", length=0.8, height=2.0, noise=0.05, mean=0.4)
    torch.testing.assert_close(attended_mean(gp, query), gp(query))
    assert attended_mean(gp, query.float()).dtype == torch.float32


def test_a_point_that_is_left_out_does_not_see_itself():
    x, y = noisy_sine(12)
    others = ~torch.eye(12, dtype=torch.bool)
    changed = y.clone()
    changed[4] += 100
    before, after = (LearnedAttention(x, values, 0.5)(x, others) for values in (y, changed))
    assert before[4] == after[4]
    assert (before != after).sum() == 11


def test_learning_the_projections_foretells_better_than_any_one_length():
    x = torch.linspace(0, 6, 80, dtype=torch.double)[:, None]
    y = torch.where(x[:, 0] < 3, torch.sin(12 * x[:, 0]), torch.sin(x[:, 0]))  # rough on the left, smooth on the right
    y = y + 0.2 * torch.randn(80, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    others = ~torch.eye(80, dtype=torch.bool)
    length = fit_length(x, y, "gaussian")
    attention = LearnedAttention(x, y, length)
    optimizer = torch.optim.AdamW(attention.parameters(), lr=3e-3, weight_decay=10.0)
    for _ in range(100):
        optimizer.zero_grad()
        (attention(x, others) - y).square().mean().backward()
        optimizer.step()
    learned = (attention(x, others) - y).square().mean()
    assert learned < 0.8 * (smooth(x, x, y, Gaussian(length), others) - y).square().mean()
