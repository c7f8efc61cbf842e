import pytest
import torch
from torch import nn

from neuropil.errors import InputError
from neuropil.parts.objectives import Classification, Regression
from neuropil.protocols import Learner


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def test_objectives_are_learners(net: nn.Module):
    for learner in (Classification(net), Regression(net)):
        assert isinstance(learner, Learner)
        (phase,) = learner.phases()
        assert dict(phase.parameters) == dict(net.named_parameters())


def test_a_classifier_is_measured_without_smoothing_and_penalty(net: nn.Module):
    batch = {"input": torch.randn(8, 4), "target": torch.randint(0, 3, (8,))}
    plain, regularised = Classification(net), Classification(net, label_smoothing=0.1, l1=0.01)
    cross_entropy = nn.functional.cross_entropy(net(batch["input"]), batch["target"])
    torch.testing.assert_close(plain.loss(batch), cross_entropy)
    torch.testing.assert_close(regularised.metrics(batch)["loss"].mean(), cross_entropy)
    smoothed = nn.functional.cross_entropy(net(batch["input"]), batch["target"], label_smoothing=0.1)
    torch.testing.assert_close(regularised.loss(batch), smoothed + 0.01 * net.get_parameter("weight").abs().sum())


def test_accuracy_counts_the_largest_logit():
    batch = {"input": torch.eye(3), "target": torch.tensor([0, 1, 0])}
    assert Classification(nn.Identity()).metrics(batch)["accuracy"].tolist() == [1, 1, 0]


def test_a_regressor_learns_in_units_of_scale_and_reports_in_the_targets_own():
    batch = {"input": torch.tensor([[100.0], [200.0]]), "target": torch.tensor([110.0, 240.0])}
    learner = Regression(nn.Identity(), scale=20.0)
    metrics = learner.metrics(batch)
    assert metrics["absolute_error"].tolist() == [10, 40]
    assert metrics["squared_error"].tolist() == [100, 1600]
    assert metrics["loss"].tolist() == [0.125, 2]
    assert learner.loss(batch).item() == 1.0625


def test_targets_of_one_axis_do_not_broadcast_into_all_pairs():
    batch = {"input": torch.arange(4.0)[:, None], "target": torch.arange(4)}
    assert Regression(nn.Identity()).loss(batch).item() == 0


def test_constant_targets_leave_the_loss_finite():
    batch = {"input": torch.zeros(4, 1), "target": torch.ones(4)}
    assert Regression(nn.Identity(), scale=batch["target"][:, None].std(0)).loss(batch).item() == 0.5


def test_several_outputs_have_each_their_scale():
    batch = {"input": torch.tensor([[1.0, 100.0]]), "target": torch.tensor([[2.0, 200.0]])}
    learner = Regression(nn.Identity(), scale=torch.tensor([1.0, 100.0]))
    assert learner.loss(batch).item() == 1
    assert learner.metrics(batch)["absolute_error"].item() == 50.5


def test_targets_with_too_many_axes_are_refused():
    with pytest.raises(InputError) as error:
        Regression(nn.Identity()).loss({"input": torch.zeros(2, 3), "target": torch.zeros(2, 3, 1)})
    assert str(error.value) == "Regression needs targets of shape [batch] or [batch, outputs], but got (2, 3, 1)."
