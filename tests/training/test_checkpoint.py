from pathlib import Path
from typing import Any

import pytest
import torch

from neuropil.errors import RunError
from neuropil.protocols import Batch
from neuropil.training import checkpoint
from neuropil.training.averages import WeightAverage
from neuropil.training.optimizers import Optimizer, build_optimizer
from neuropil.training.weights import write_tensors
from training.learners import DigitBatches, DigitLearner, same_weights, weights_of


def trained(steps: int) -> tuple[Any, ...]:
    """Model, optimisers, phases and average after so many updates."""
    learner = DigitLearner(dropout=0.0)
    (phase,) = learner.phases()
    optimizer = build_optimizer("adam", phase.parameters, learning_rate=0.01, weight_decay=0.0, momentum=0.9)
    average = WeightAverage(learner.model, 0.9)
    for step, batch in zip(range(steps), DigitBatches(0, 500).epoch(0), strict=False):
        update(learner, optimizer, batch)
        average.update(step + 1)
    return learner, {phase.name: optimizer}, [phase], average


def update(learner: DigitLearner, optimizer: Optimizer, batch: Batch) -> None:
    optimizer.zero_grad()
    learner.loss(batch).backward()
    optimizer.step()


def test_what_was_saved_goes_on_to_the_same_bits(tmp_path: Path):
    learner, first, its_phases, its_average = trained(5)
    carried = {"memory": torch.arange(3.0)}
    checkpoint.save(tmp_path / "c", {"step": 5}, learner.model, first, its_phases, its_average, carried)
    again, optimizers, phases, average = trained(0)
    state, found = checkpoint.load(tmp_path / "c", again.model, optimizers, phases, average)
    assert state == {"step": 5}
    assert same_weights(found, carried)
    assert same_weights(average.average, its_average.average)
    batch = next(DigitBatches(500, 550).epoch(0))
    for one, rules in ((learner, first), (again, optimizers)):
        update(one, rules["classify"], batch)
    assert same_weights(weights_of(learner), weights_of(again))


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path):
    learner, *others = trained(0)
    write_tensors(tmp_path / "c", {"a": torch.zeros(1)}, {"format": 1, "state": {}})
    with pytest.raises(RunError) as error:
        checkpoint.load(tmp_path / "c", learner.model, *others)
    assert str(error.value) == (
        f"{tmp_path / 'c'} must be a checkpoint of format 2, but got format 1: use the neuropil version that wrote it."
    )
