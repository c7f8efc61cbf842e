"""Balls and ranges, to the last bit of floating point."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from neuropil.adversarial.threat_model import Norm, ThreatModel
from neuropil.errors import DataWarning, InputError


@st.composite
def perturbations(draw: st.DrawFn) -> tuple[Tensor, Tensor, float, float, float]:
    """Originals within a range, points anywhere, and an ε from below the spacing of numbers to the whole range."""
    precision = draw(st.sampled_from([torch.float32, torch.float64]))
    low, high = draw(
        st.sampled_from([(0.0, 1.0), (0.0, 255.0), (-1.0, 1.0), (-3e4, 1e-3), (100.0, 101.0), (0.0, 1e-30)])
    )
    low, high = (torch.tensor(end, dtype=precision).item() for end in (low, high))
    eps = draw(st.floats(0, 1)) * (high - low) * draw(st.sampled_from([1, 1e-3, 1e-7, 1e-12]))
    features = draw(st.sampled_from([1, 3, 64, 1000]))
    numbers = st.floats(low, high, width=32 if precision == torch.float32 else 64)
    shape = draw(st.integers(1, 3)), features
    if draw(st.booleans()):  # few values many times, so that roundings add up
        original = torch.tensor(draw(numbers), dtype=precision).expand(shape).clone()
        x = original + draw(st.floats(-2, 2)) * eps / (math.sqrt(features) if draw(st.booleans()) else 1)
    else:
        generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
        original = low + (high - low) * torch.rand(shape, generator=generator, dtype=precision)
        x = original + draw(st.floats(0, 9)) * eps * torch.randn(shape, generator=generator, dtype=precision)
        original.clamp_(low, high)
    return original, x, eps, low, high


def assert_within(found: Tensor, original: Tensor, norm: Norm, eps: float, low: float, high: float) -> None:
    """By every expression that a reader would try."""
    assert found.min() >= low
    assert found.max() <= high
    if norm == "linf":
        assert (found - original).abs().max() <= eps
        assert (found - original).abs().max().item() <= eps
        return
    assert ((found - original).flatten(1).norm(dim=1) <= eps).all()
    for each, start in zip(found, original, strict=True):
        assert (each - start).norm() <= eps
        assert (each - start).norm().item() <= eps
        assert (each - start).square().sum().sqrt().item() <= eps
        assert (each - start).double().norm().item() <= eps


@pytest.mark.parametrize("norm", ["linf", "l2"])
@given(perturbations())
def test_a_projected_point_is_in_its_ball_and_range_to_the_last_bit(norm: Norm, drawn: Any):
    original, x, eps, low, high = drawn
    threat = ThreatModel(norm, eps, low, high)
    assert_within(threat.project(x, original), original, norm, eps, low, high)
    assert_within(threat.ball(original).uniform(torch.Generator().manual_seed(0)), original, norm, eps, low, high)
    if original.dtype == torch.float32:
        edge = original + eps * (1 if norm == "linf" else 1 / math.sqrt(original.shape[1]))
        assert_within(threat.project(edge, original), original, norm, eps, low, high)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7, 1e-3])
def test_many_equal_steps_stay_in_an_l2_ball_though_their_squares_are_rounded(value: float):
    """The roundings of equal summands do not cancel."""
    original = torch.full((2, 150_000), 0.5)
    threat = ThreatModel("l2", value * math.sqrt(150_000), -2, 3)
    found = threat.project(original + 1.5 * value, original)
    assert_within(found, original, "l2", threat.eps, -2, 3)
    assert (found - original).double().norm(dim=1).min() > 0.998 * threat.eps


@given(perturbations())
def test_a_projection_gives_away_no_more_than_rounding(drawn: Any):
    original, x, eps, low, high = drawn
    spacing = torch.finfo(original.dtype).eps * max(abs(low), abs(high))
    found = ThreatModel("linf", eps, low, high).project(x, original)
    expected = torch.maximum(torch.minimum(x.double(), original.double() + eps), original.double() - eps).clamp(
        low, high
    )
    assert (found - expected).abs().max() <= 2 * spacing + 1e-7 * eps


def test_points_inside_are_not_moved():
    generator = torch.Generator().manual_seed(0)
    original = torch.rand(50, 20, generator=generator)
    x = (original + 0.01 * torch.randn(50, 20, generator=generator)).clamp(0, 1)
    assert torch.equal(ThreatModel("l2", 0.5).project(x, original), x)
    assert torch.equal(ThreatModel("linf", 0.5).project(x, original), x)


def test_features_are_measured_in_their_units_and_those_of_unit_zero_stay():
    original, scale = torch.zeros(1, 3), torch.tensor([1.0, 10.0, 0.0])
    low, high = torch.tensor([-5.0, -100.0, -1.0]), torch.tensor([0.25, 100.0, 1.0])
    cube = ThreatModel("linf", 0.5, low, high, scale=scale)
    assert cube.project(torch.full((1, 3), 50.0), original).tolist() == [[0.25, 5.0, 0.0]]
    sphere = ThreatModel("l2", 5.0, low, high, scale=scale)
    found = sphere.project(torch.tensor([[-3.0, 40.0, 1.0]]), original)
    assert found == pytest.approx(torch.tensor([[-3.0, 40.0, 0.0]]), rel=1e-5)
    assert sphere.distance(found, original).item() == pytest.approx(5, rel=1e-5)
    assert sphere.distance(found, original).item() <= 5
    assert sphere.distance(torch.ones(1, 3), original).item() == math.inf


def test_random_starts_fill_the_ball():
    original = torch.full((4000, 3), 0.5)
    generator = torch.Generator().manual_seed(0)
    cube = ThreatModel("linf", 0.2).ball(original).uniform(generator) - original
    assert cube.std(0) == pytest.approx(torch.full((3,), 0.4 / math.sqrt(12)), rel=0.05)
    sphere = (ThreatModel("l2", 0.2).ball(original).uniform(generator) - original).norm(dim=1)
    # P(‖δ‖ ≤ r) = (r / ε)³
    assert (sphere <= 0.1).double().mean().item() == pytest.approx(1 / 8, rel=0.15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "l2", "eps": -1.0}, "eps must be at least 0 and finite, but got -1.0."),
        ({"norm": "l2", "eps": math.nan}, "eps must be at least 0 and finite, but got nan."),
        (
            {"norm": "l2", "eps": 1.0, "low": 1.0, "high": 0.0},
            "the input range must be finite, with low at most high, but got from 1 to 0.",
        ),
        (
            {"norm": "linf", "eps": 8.0},
            "eps of the L∞ norm must be at most the width of the input range, 1, but got 8: "
            "give eps in units of the input: from 0 to 1.",
        ),
        (
            {"norm": "linf", "eps": 0.1, "scale": torch.tensor([1.0, -1.0])},
            "scale must be at least 0 and finite, but got -1.",
        ),
    ],
)
def test_a_threat_that_means_nothing_is_refused(options: Any, message: str):
    with pytest.raises(InputError) as error:
        ThreatModel(**options)
    assert str(error.value) == message


def test_inputs_that_were_normalised_outside_of_the_model_are_refused():
    x = torch.linspace(-2, 2.5, 100).reshape(4, 25)
    with pytest.raises(InputError) as error:
        ThreatModel("linf", 0.1).require_units(x)
    assert str(error.value) == (
        "inputs must lie in the input range of the threat model, from 0 to 1, but got values from -2 to 2.5: if they "
        "were normalised, give them as they were before, to a model that normalises them itself, or give low and high "
        "as they are."
    )
    with pytest.raises(InputError):
        ThreatModel("linf", 0.1).project(x, x)


def test_inputs_that_do_not_fill_the_range_are_named():
    x = torch.linspace(0, 1, 100).reshape(4, 25)
    with pytest.warns(DataWarning) as seen:
        ThreatModel("linf", 8, high=255).require_units(x)
    assert str(seen[0].message) == (
        "the inputs have values from 0 to 1 and fill little of the input range, from 0 to 255: "
        "if that is not the range of their unit, give low and high as it is"
    )
    ThreatModel("linf", 0.1).require_units(x)


def test_nan_is_not_in_any_range():
    with pytest.raises(InputError):
        ThreatModel("linf", 0.1).project(torch.zeros(1, 2), torch.tensor([[0.0, math.nan]]))


def test_a_range_of_columns_is_widened_by_inputs_beyond_it_and_that_of_a_unit_is_not():
    threat = ThreatModel("linf", 0.1, torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1.0]), scale=torch.ones(2))
    wider = threat.including(torch.tensor([[0.5, 3.0], [-2.0, 0.5]]))
    assert torch.equal(torch.as_tensor(wider.low), torch.tensor([-2.0, 0.0]))
    assert torch.equal(torch.as_tensor(wider.high), torch.tensor([1.0, 3.0]))
    pixels = ThreatModel("linf", 0.1)
    assert pixels.including(torch.full((1, 2), 7.0)) is pixels
