"""Defences: losses as published, written out anew; and what the learner is given."""

from collections.abc import Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.adversarial.defences import (
    DefenceConfig,
    DefenceName,
    DefendedLearner,
    binary_trades_loss,
    trades_loss,
)
from neuropil.adversarial.threat_model import ThreatModel
from neuropil.errors import InputError
from neuropil.parts.objectives import Classification

THREAT = ThreatModel("linf", 0.1)


def batch_of(seed: int, classes: int = 3) -> Mapping[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(16, 5, generator=generator)
    return {"input": x, "target": torch.randint(classes, (16,), generator=generator)}


def model_of(seed: int, classes: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, classes))


@given(seed=st.integers(0, 99), beta=st.floats(0, 20))
def test_trades_is_the_published_loss(seed: int, beta: float):
    """As the authors' code has it: cross-entropy, and β / N times the summed KL divergence of the attacked from the
    clean probabilities."""
    generator = torch.Generator().manual_seed(seed)
    clean, attacked = (3 * torch.randn(8, 4, generator=generator, dtype=torch.double) for _ in range(2))
    y = torch.randint(4, (8,), generator=generator)
    natural = -clean.log_softmax(1)[torch.arange(8), y].mean()
    robust = nn.KLDivLoss(reduction="sum")(attacked.log_softmax(1), clean.softmax(1)) / 8
    torch.testing.assert_close(trades_loss(clean, attacked, y, beta).mean(), natural + beta * robust)


@given(seed=st.integers(0, 99), beta=st.floats(0, 20))
def test_binary_trades_is_the_margin_form_of_the_paper(seed: int, beta: float):
    """φ(f(x) y) + φ(f(x) f(x') / λ) with φ(m) = ln(1 + e^{−m}), y = ±1 and 1 / λ = β."""
    generator = torch.Generator().manual_seed(seed)
    clean, attacked = (torch.randn(8, 2, generator=generator, dtype=torch.double) for _ in range(2))
    y = torch.randint(2, (8,), generator=generator)
    f, moved = (clean @ torch.tensor([[-1.0], [1.0]]).double())[:, 0], (attacked[:, 1] - attacked[:, 0])
    sign = torch.where(y == 1, 1.0, -1.0)
    expected = (1 + (-f * sign).exp()).log() + (1 + (-beta * f * moved).exp()).log()
    torch.testing.assert_close(binary_trades_loss(clean, attacked, y, beta), expected)


def test_binary_trades_with_logistic_loss_is_cross_entropy_on_clean_examples():
    clean, y = torch.randn(8, 2), torch.randint(2, (8,))
    expected = F.cross_entropy(clean, y, reduction="none") + torch.log(torch.tensor(2.0))
    torch.testing.assert_close(binary_trades_loss(clean, torch.zeros(8, 2), y, 1.0), expected)


def test_adversarial_training_learns_from_attacked_examples_with_their_right_labels():
    seen: list[Mapping[str, Tensor]] = []

    class Watched(Classification):
        def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
            seen.append(batch)
            return super().loss(batch)

    model, batch = model_of(0), batch_of(0)
    config = DefenceConfig(defence="adversarial", eps_warmup=0.0)
    (phase,) = DefendedLearner(Watched(model), THREAT, config).phases()
    loss = phase.loss(batch)
    assert torch.equal(seen[0]["target"], batch["target"])
    moved = (seen[0]["input"] - batch["input"]).abs()
    assert 0.05 < moved.mean() <= moved.max() <= 0.1
    assert loss > Classification(model).loss(batch)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("defence", ["adversarial", "trades", "binary_trades"])
def test_the_attack_raises_what_training_then_lowers(defence: DefenceName):
    """Of the inner maximum, the loss of each defence is higher than at the examples themselves and at random points of
    their balls."""
    model, batch = model_of(1, classes=2), batch_of(1, classes=2)
    learner = DefendedLearner(Classification(model), THREAT, DefenceConfig(defence=defence, eps_warmup=0.0))
    moved = learner.attacked(batch)
    model.eval()

    def second_term(x: Tensor) -> Tensor:
        if defence == "adversarial":
            return F.cross_entropy(model(x), batch["target"])
        loss = trades_loss if defence == "trades" else binary_trades_loss
        return loss(model(batch["input"]), model(x), batch["target"], 6.0).mean()

    random = (batch["input"] + 0.2 * torch.rand(16, 5) - 0.1).clamp(0, 1)
    assert second_term(moved) > second_term(random) + 1e-3
    assert second_term(moved) > second_term(batch["input"]) + 1e-3


def test_epsilon_grows_with_the_run():
    learner = DefendedLearner(Classification(model_of(2)), THREAT, DefenceConfig(defence="adversarial", eps_warmup=0.5))
    batch, found = batch_of(2), []
    for share in (0.0, 0.25, 0.5, 1.0):
        learner.begin_update(share)
        found.append((learner.attacked(batch) - batch["input"]).abs().max().item())
    assert found == pytest.approx([0, 0.05, 0.1, 0.1], abs=1e-6)


def test_the_inner_attack_leaves_batch_norms_modes_and_gradients_alone():
    model, batch = model_of(3), batch_of(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    learner = DefendedLearner(Classification(model), THREAT, DefenceConfig(defence="trades", eps_warmup=0.0))
    learner.attacked(batch)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_metrics_have_the_accuracy_on_attacked_examples_at_the_whole_epsilon():
    """A threshold at 0.5: examples within ε of it are lost, those farther are not."""
    model = nn.Linear(1, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-10.0], [10.0]]))
        model.bias.copy_(torch.tensor([5.0, -5.0]))
    x = torch.tensor([[0.1], [0.45], [0.55], [0.9]])
    batch = {"input": x, "target": torch.tensor([0, 0, 1, 1])}
    learner = DefendedLearner(Classification(model), THREAT, DefenceConfig(defence="adversarial"))
    with torch.no_grad():
        metrics = learner.metrics(batch)
    assert metrics["accuracy"].tolist() == [1, 1, 1, 1]
    assert metrics["robust_accuracy"].tolist() == [1, 0, 0, 1]


def test_without_a_defence_the_learner_learns_as_it_is():
    learner = Classification(model_of(4))
    (phase,), batch = DefendedLearner(learner, THREAT, DefenceConfig()).phases(), batch_of(4)
    assert torch.equal(phase.loss(batch), learner.loss(batch))


def test_the_margin_form_refuses_more_classes():
    with pytest.raises(InputError) as error:
        binary_trades_loss(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2, dtype=torch.long), 1.0)
    assert str(error.value) == "binary_trades is for two classes, but got 3: take trades."
