from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

from neuropil.errors import DivergedError
from neuropil.protocols import Phase
from neuropil.training.loop import TrainingConfig, fit
from neuropil.training.stepwise import StepwiseTraining
from training.learners import DigitBatches, DigitLearner


def test_updates_are_those_of_the_loop(tmp_path: Path):
    batches = DigitBatches(0, 200, seed=3)
    whole, stepped = DigitLearner(), DigitLearner()
    config = TrainingConfig(
        epochs=1, learning_rate=3e-3, weight_decay=0.1, schedule="constant", warmup=0.0, keep="last", device="cpu"
    )
    fit(whole, batches, None, config, seed=5, folder=tmp_path, show_progress=False)
    training = StepwiseTraining(stepped, optimizer="adamw", seed=5)
    before = torch.default_generator.get_state()
    for batch in batches.epoch(0):
        training.update(batch, learning_rate=3e-3, weight_decay=0.1)
    assert torch.equal(torch.default_generator.get_state(), before)
    for ours, loops in zip(stepped.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(ours, loops, rtol=0, atol=0)


class EveryOther(DigitLearner):
    def phases(self) -> Sequence[Phase]:
        return [replace(phase, every=2) for phase in super().phases()]


def test_a_phase_is_played_as_often_as_it_says():
    training = StepwiseTraining(EveryOther(), optimizer="sgd")
    played = [list(training.update(batch, learning_rate=0.1)) for batch in DigitBatches(0, 200).epoch(0)]
    assert played == [[], ["classify"], [], ["classify"]]


def test_a_loss_that_is_not_finite_is_refused_and_leaves_the_weights():
    learner, (batch,) = DigitLearner(), islice(DigitBatches(0, 50).epoch(0), 1)
    before = [weight.clone() for weight in learner.model.parameters()]
    with pytest.raises(DivergedError) as refused:
        StepwiseTraining(learner, optimizer="sgd").update({**batch, "input": batch["input"] / 0}, learning_rate=0.1)
    assert str(refused.value) == (
        "the loss of the phase classify must stay finite, but got nan in update 1: "
        "begin again with a smaller learning rate."
    )
    assert all(torch.equal(a, b) for a, b in zip(before, learner.model.parameters(), strict=True))
