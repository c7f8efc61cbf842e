"""Alignment with the gradient, and what changes depend on, for rules of which both are known."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from neuropil.inspection.gradient_alignment import (
    LayerWeights,
    MeasuredLearner,
    change_with_examples_apart,
    change_with_later_weights,
    cosine,
)
from neuropil.models.learning_rules.evolution_strategies import EvolutionStrategies
from neuropil.models.learning_rules.feedback_alignment import FeedbackAlignment
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.objectives import Classification
from neuropil.protocols import Learner
from neuropil.tasks import study
from neuropil.training.loop import fit
from real_data import few_digits

LAYERS = {"first": LayerWeights("hidden.0.weight"), "last": LayerWeights("output.weight")}


def network() -> MLP:
    torch.manual_seed(0)
    model = MLP(MLPConfig(hidden_sizes=(24, 32), activation="tanh", dropout=0.0))
    model.standardize.fit(few_digits(100)[0])
    return model


def batch(count: int = 4) -> dict[str, torch.Tensor]:
    inputs, targets = few_digits(count)
    return {"input": inputs, "target": targets}


def later(model: MLP) -> list[nn.Module]:
    return [*list(model.hidden)[1:], model.output]


def test_cosine():
    a, b = torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])
    assert cosine(a, b) == pytest.approx(24 / 25)
    assert cosine(a, -2 * a) == pytest.approx(-1)
    assert math.isnan(cosine(a, torch.zeros(2)))


def test_back_propagation_is_aligned_and_its_changes_are_not_touched():
    model = network()
    learner = MeasuredLearner(Classification(model), model, LAYERS, updates=[0, 2])
    expected = torch.autograd.grad(Classification(model).loss(batch()), list(model.parameters()))
    for _ in range(3):
        loss = learner.phases()[0].loss(batch())
        for own, other in zip(torch.autograd.grad(loss, list(model.parameters())), expected, strict=True):
            torch.testing.assert_close(own, other)
    assert learner.updates == [0, 2]
    assert [pytest.approx(row) for row in learner.cosines] == [[1, 1, 1]] * 2


def test_the_cosine_is_that_of_the_change_and_of_the_gradient_of_the_cross_entropy():
    model = network()
    rule = FeedbackAlignment(model)
    learner = MeasuredLearner(rule, model, LAYERS, updates=[0])
    learner.loss(batch())
    weights = [model.hidden[0].get_parameter("weight"), model.output.weight]
    change, gradient = (torch.autograd.grad(each.loss(batch()), weights) for each in (rule, Classification(model)))
    expected = [
        torch.cosine_similarity(a.flatten(), b.flatten(), dim=0).item() for a, b in zip(change, gradient, strict=True)
    ]
    assert learner.cosines[0][:2] == pytest.approx(expected, abs=1e-6)
    together = [torch.cat([each.flatten() for each in every]) for every in (change, gradient)]
    assert learner.cosines[0][2] == pytest.approx(torch.cosine_similarity(*together, dim=0).item(), abs=1e-6)
    assert -0.5 < expected[0] < 0.5 < expected[1]


def test_rows_of_a_parameter_are_a_layer_of_their_own():
    tensors = {"w": torch.arange(6.0).reshape(3, 2)}
    assert LayerWeights("w", slice(1, None)).of(tensors).tolist() == [[2, 3], [4, 5]]


def test_what_was_measured_survives_in_the_checkpoint(tmp_path: Path):
    def trained() -> MeasuredLearner:
        model = network()
        learner = MeasuredLearner(FeedbackAlignment(model), model, LAYERS, updates=[0, 1])
        batches = study.shuffled(study.prepare_classes(study.DataConfig(), 0).train, 1_000, 0)
        fit(
            learner,
            batches,
            None,
            study.constant_rate("sgd", 0.1, epochs=1),
            seed=0,
            folder=tmp_path,
            show_progress=False,
        )
        return learner

    first, again = trained(), trained()
    assert first.updates == again.updates == [0, 1]
    assert first.cosines == again.cosines


@pytest.mark.parametrize(
    ("rule", "reads"),
    [
        (Classification, True),
        (FeedbackAlignment, False),
        (lambda model: FeedbackAlignment(model, "direct"), False),
        (EvolutionStrategies, True),
    ],
    ids=["back-propagation", "feedback alignment", "direct", "evolution strategies"],
)
def test_later_weights_matter_where_errors_go_through_them(rule, reads: bool):
    model = network()
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    change = change_with_later_weights(rule(model), model, LAYERS["first"], later(model), batch())
    assert change is not None
    assert (change > 0.1) if reads else (change < 1e-4)
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())


def test_a_change_that_no_activity_shows_leaves_the_answers():
    model, given = network(), batch()
    before, answers = model(given["input"]), []

    class Watched(Classification):
        def loss(self, batch):
            answers.append(self.model(batch["input"]).detach())
            return super().loss(batch)

    change_with_later_weights(Watched(model), model, LAYERS["first"], later(model), given)
    torch.testing.assert_close(answers[1], before.detach(), rtol=0, atol=1e-4)


def test_layers_of_fewer_units_than_examples_leave_no_room_for_unseen_changes():
    model = MLP(MLPConfig(hidden_sizes=(3, 2), activation="tanh", dropout=0.0))
    model.standardize.fit(few_digits(100)[0])
    assert change_with_later_weights(Classification(model), model, LAYERS["first"], later(model), batch()) is None


@pytest.mark.parametrize("rule", [Classification, FeedbackAlignment])
def test_examples_add_up_where_a_change_is_a_mean_over_them(rule):
    learner: Learner = rule(network())
    assert change_with_examples_apart(learner, LAYERS["first"], batch()) < 1e-4


def test_examples_do_not_add_up_where_losses_are_ranked():
    assert change_with_examples_apart(EvolutionStrategies(network()), LAYERS["first"], batch()) > 0.1
