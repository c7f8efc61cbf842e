"""Gradient attacks, beside closed forms for linear classifiers and what they must leave alone."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from digit_classifiers import cnn, held_out
from neuropil.adversarial.gradient_attack import GradientAttackConfig, gradient_attack
from neuropil.adversarial.threat_model import Norm, ThreatModel
from neuropil.errors import InputError

FGSM = GradientAttackConfig(steps=1, start="clean")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linear() -> tuple[nn.Linear, Tensor, Tensor]:
    """A classifier whose worst perturbation is known, and inputs far from the ends of their range."""
    model = nn.Linear(20, 2)
    with torch.no_grad():
        model.weight.copy_(torch.randn(2, 20, generator=generator()))
    x = 0.4 + 0.2 * torch.rand(30, 20, generator=generator(1))
    with torch.no_grad():
        y = model(x).argmax(1)
    return model, x, y


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.05), ("l2", 0.3)])
@pytest.mark.parametrize("steps", [1, 7])
def test_a_linear_classifier_loses_eps_times_the_dual_norm_of_its_weights(norm: Norm, eps: float, steps: int):
    model, x, y = linear()
    config = GradientAttackConfig(steps=steps, start="clean", early_stopping=False)
    found = gradient_attack(model, x, y, ThreatModel(norm, eps), config)
    with torch.no_grad():
        before, after = (
            model(each).gather(1, y[:, None]) - model(each).gather(1, 1 - y[:, None]) for each in (x, found)
        )
    w = (model.weight[0] - model.weight[1]).detach()
    expected = eps * (w.abs().sum() if norm == "linf" else w.norm()).item()
    assert (before - after).squeeze(1).tolist() == pytest.approx([expected] * len(x), rel=1e-3)


def test_a_step_in_units_of_features_is_that_of_a_rescaled_classifier():
    """x' = s z': the attack on z ↦ f(s z) with one ε for all features."""
    model, x, y = linear()
    scale = 0.5 + torch.rand(20, generator=generator(2))
    rescaled = nn.Sequential(Times(scale), model)
    sizes: dict[Norm, float] = {"linf": 0.02, "l2": 0.1}
    for norm, eps in sizes.items():
        found = gradient_attack(model, x, y, ThreatModel(norm, eps, scale=scale), FGSM)
        expected = scale * gradient_attack(rescaled, x / scale, y, ThreatModel(norm, eps, 0.0, 9.0), FGSM)
        assert torch.allclose(found, expected, atol=1e-5)


class Times(nn.Module):
    def __init__(self, scale: Tensor):
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


@pytest.mark.parametrize(("norm", "eps"), [("linf", 25.0), ("l2", 150.0)])
def test_more_steps_and_restarts_raise_the_loss(norm: Norm, eps: float):
    model, (x, y) = cnn(255.0), held_out(100, 255.0)
    threat = ThreatModel(norm, eps, high=255.0)

    def loss(**options: Any) -> float:
        config = GradientAttackConfig(early_stopping=False, **options)
        with torch.no_grad():
            return F.cross_entropy(model(gradient_attack(model, x, y, threat, config, generator=generator())), y).item()

    single, iterated, restarted = loss(steps=1, start="clean"), loss(steps=20), loss(steps=20, restarts=3)
    assert F.cross_entropy(model(x), y).item() < single < iterated <= restarted


def test_momentum_accumulates_normalised_gradients():
    """Two steps of MI-FGSM, written out."""
    model, (x, y) = cnn(), held_out(10)
    config = GradientAttackConfig(steps=2, step_size=0.5, momentum=0.7, start="clean", early_stopping=False)
    found = gradient_attack(model, x, y, ThreatModel("linf", 0.1), config)
    g, moved = torch.zeros_like(x), x
    for _ in range(2):
        moved = moved.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(moved), y, reduction="sum"), moved)
        g = 0.7 * g + gradient / gradient.abs().sum((1, 2, 3), keepdim=True)
        moved = (moved + 0.05 * g.sign()).clamp(0, 1)
    assert torch.allclose(found, moved, atol=1e-6)


def test_a_target_is_approached_and_others_are_not():
    model, (x, y) = cnn(), held_out(100)
    x, y = x[y != 3], y[y != 3]
    threat = ThreatModel("l2", 1.5, target=3)
    found = gradient_attack(model, x, y, threat, GradientAttackConfig(), generator=generator())
    with torch.no_grad():
        before, after = model(x).softmax(1)[:, 3].mean(), model(found).softmax(1)[:, 3].mean()
        assert (model(found).argmax(1) == 3).double().mean() > 0.5
    assert after > 10 * before


def test_early_stopping_leaves_the_first_point_that_is_misclassified():
    """The attack stops where it is; without early stopping it goes on to the edge of the ball."""
    model, (x, y) = cnn(), held_out(60)
    with torch.no_grad():
        right = model(x).argmax(1) == y
    x, y, threat = x[right], y[right], ThreatModel("l2", 2.0)
    stopped = gradient_attack(model, x, y, threat, GradientAttackConfig(start="clean"))
    on = gradient_attack(model, x, y, threat, GradientAttackConfig(start="clean", early_stopping=False))
    with torch.no_grad():
        fooled = model(stopped).argmax(1) != y
    assert fooled.double().mean() > 0.9
    assert threat.distance(stopped, x)[fooled].mean() < 0.7 * threat.distance(on, x)[fooled].mean()


def test_any_loss_of_logits_and_what_is_known_can_be_climbed():
    """As TRADES does: the KL divergence from the clean prediction, with probabilities in place of classes."""
    model, (x, _) = cnn(), held_out(40)
    with torch.no_grad():
        clean = model(x).softmax(1)

    def divergence(logits: Tensor, clean: Tensor) -> Tensor:
        return F.kl_div(logits.log_softmax(1), clean, reduction="none").sum(1)

    config = GradientAttackConfig(steps=5, early_stopping=False)
    found = gradient_attack(model, x, clean, ThreatModel("linf", 0.1), config, loss=divergence, generator=generator())
    with torch.no_grad():
        assert (divergence(model(found), clean) > divergence(model(x), clean)).all()
        assert divergence(model(found), clean).mean() > 0.5


def test_a_model_is_left_as_it_was():
    model, (x, y) = cnn().train(), held_out(20)
    kernel = next(model.parameters()).requires_grad_(False)
    layout = kernel.stride(), kernel.data_ptr()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [each.training for each in model.modules()]
    with torch.inference_mode():
        found = gradient_attack(model, x, y, ThreatModel("linf", 0.1), GradientAttackConfig(steps=2))
    assert [each.training for each in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == [False, *[True] * 7]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not found.requires_grad
    assert (kernel.stride(), kernel.data_ptr()) == layout
    kernel.requires_grad_(True)
    model.eval()


def test_a_model_is_left_as_it_was_also_by_an_attack_that_fails():
    model, (x, y) = cnn().train(), held_out(20)
    with pytest.raises(InputError):
        gradient_attack(model, x + 9, y, ThreatModel("linf", 0.1), FGSM)
    assert all(each.training for each in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    model.eval()


def test_any_callable_can_be_attacked_and_a_seed_means_the_same():
    model, (x, y) = cnn(), held_out(20)
    threat, config = ThreatModel("l2", 0.5), GradientAttackConfig(steps=3)
    by_module = gradient_attack(model, x, y, threat, config, generator=generator())
    by_function = gradient_attack(lambda x: model(x), x, y, threat, config, generator=generator())
    assert torch.allclose(by_module, by_function, atol=1e-5)  # kernels of a module are laid out otherwise
    assert torch.equal(by_module, gradient_attack(model, x, y, threat, config, generator=generator()))
    assert not torch.equal(by_module, gradient_attack(model, x, y, threat, config, generator=generator(1)))


def test_bytes_are_attacked_as_single_precision_and_double_stays_double():
    model, (x, y) = cnn(255.0), held_out(20, 255.0)
    threat = ThreatModel("linf", 8.0, high=255.0)
    found = gradient_attack(model, x.round().byte(), y, threat, FGSM)
    assert found.dtype == torch.float32
    assert torch.equal(found, gradient_attack(model, x.round(), y, threat, FGSM))
    linear_model, inputs, classes = linear()
    assert (
        gradient_attack(linear_model.double(), inputs.double(), classes, ThreatModel("l2", 0.1), FGSM).dtype
        == torch.float64
    )


def test_no_examples_are_no_error():
    model, (x, y) = cnn(), held_out(20)
    config = GradientAttackConfig(restarts=2)
    assert gradient_attack(model, x[:0], y[:0], ThreatModel("l2", 1.0), config).shape == (0, 1, 8, 8)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda x: (x.flatten(1)[:, :3] - 0.5).abs().sqrt().log(),
            "the logits of a classifier under attack must be finite, but got NaN or infinity for 2 of 2 examples: look "
            "for a division by zero, a root or logarithm of zero, or an overflow in the model.",
        ),
        (
            lambda x: (x.flatten(1)[:, :3] - 0.5).sqrt(),
            "the gradients with respect to the input of a classifier under attack must be finite, but got NaN or "
            "infinity for 2 of 2 examples: look for a division by zero, a root or logarithm of zero, or an overflow in "
            "the model; the attack square needs no gradients.",
        ),
        (
            lambda x: x.flatten(1)[:, :3].detach(),
            "a gradient attack needs logits that depend differentiably on the input, but got logits without a "
            "gradient: attack with square, which needs none.",
        ),
    ],
)
def test_what_is_not_finite_is_named_and_not_followed(model: Any, message: str):
    with pytest.raises(InputError) as error:
        gradient_attack(model, torch.full((2, 1, 2, 2), 0.5), torch.tensor([0, 1]), ThreatModel("linf", 0.1), FGSM)
    assert str(error.value) == message


def test_the_step_size_reaches_across_the_ball_by_default():
    assert [GradientAttackConfig(steps=steps).relative_step for steps in (1, 2, 10)] == [1, 1, 0.25]
    assert GradientAttackConfig(steps=10, step_size=0.1).relative_step == 0.1
    assert math.isclose(GradientAttackConfig().relative_step, 2.5 / 40)
