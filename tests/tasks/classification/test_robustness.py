"""Risks and curves of classifiers whose robustness is known."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from neuropil.adversarial.gradient_attack import GradientAttackConfig
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.tasks.classification import robustness
from neuropil.tasks.classification.robustness import RobustnessTest, robustness_section

SCHEMA = Schema(kind="image", shape=(1, 1, 1), classes=("dark", "light"))


class Threshold(nn.Module):
    """Light from a grey of 127.5 on: a pixel at distance d is lost to ε ≥ d / 255."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.slope * (x.flatten(1).float() - 127.5)
        return torch.cat([-z, z], 1)


@pytest.fixture
def test() -> RobustnessTest:
    shades = torch.tensor([0, 100, 120, 135, 160, 255, 130], dtype=torch.uint8).reshape(-1, 1, 1, 1)
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 0])  # the last is wrong without an attack
    pixels = Examples(shades, labels, SCHEMA, "pixels")
    return RobustnessTest(pixels, None, "linf", 0.08, seed=0)


def test_risks_are_shares_of_what_is_wrong_and_of_what_can_be_made_wrong(test: RobustnessTest):
    # ε = 0.08 are 20.4 shades: 120 and 135 are nearer to the threshold
    assert test.risks(Threshold()) == pytest.approx({"natural_risk": 1 / 7, "robust_risk": 3 / 7})


def test_a_curve_falls_where_examples_come_into_reach(test: RobustnessTest):
    # radii in shades: 0, 5.1, 10.2, 15.3, 20.4, 30.6, 40.8; distances: 127.5, 27.5, 7.5, 7.5, 32.5, 127.5
    expected = [6 / 7, 6 / 7, 4 / 7, 4 / 7, 4 / 7, 3 / 7, 2 / 7]
    assert test.curve(Threshold()) == pytest.approx(expected)


def test_radii_end_at_white(test: RobustnessTest):
    wide = RobustnessTest(test.examples, None, "linf", 0.6, seed=0)
    assert wide.radii == pytest.approx([0, 0.15, 0.3, 0.45, 0.6, 0.9])


def test_the_section_says_what_was_measured(test: RobustnessTest):
    section = robustness_section(test, {"this model": Threshold()})
    assert "At ε = 0.08, this model has 57.1 % of 85.7 % without an attack." in str(section.blocks[0])


def test_the_time_of_an_attack_is_told_without_changing_the_model(
    test: RobustnessTest, monkeypatch: pytest.MonkeyPatch
):
    """Three steps on all seven pixels take a second here: so many more are made for the risks and for seven radii."""
    clock = iter([10.0, 11.0])
    monkeypatch.setattr(robustness, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    model = Threshold().train()
    assert test.seconds(model) == pytest.approx(GradientAttackConfig().steps / robustness.TIMED_STEPS * (1 + 7))
    assert model.training
    assert model.slope.requires_grad
