from pathlib import Path
from typing import Any

import pytest
import torch

from neuropil.errors import RunError
from neuropil.protocols import Batch
from neuropil.training import checkpoint
from neuropil.training.averages import WeightAverage
from neuropil.training.loop import State
from neuropil.training.optimizers import Optimizer, build_optimizer
from neuropil.training.weights import read_tensors, write_tensors
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


def test_the_step_of_the_latest_checkpoint_is_known_without_its_tensors(tmp_path: Path):
    learner, optimizers, phases, average = trained(0)
    assert checkpoint.saved_step(tmp_path) is None
    checkpoint.save(tmp_path / checkpoint.FILE, {"step": 954}, learner.model, optimizers, phases, average, {})
    assert checkpoint.saved_step(tmp_path) == 954
    for name in ("step-960", ".step-970.part"):
        (tmp_path / checkpoint.SHARES / name).mkdir(parents=True)
    assert checkpoint.saved_step(tmp_path) == 960
    (tmp_path / checkpoint.FILE).write_bytes(b"half")
    assert checkpoint.saved_step(tmp_path) == 960
    (tmp_path / checkpoint.SHARES / "step-960").rmdir()
    assert checkpoint.saved_step(tmp_path) is None


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path):
    learner, *others = trained(0)
    write_tensors(tmp_path / "c", {"a": torch.zeros(1)}, {"format": 1, "state": {}})
    with pytest.raises(RunError) as error:
        checkpoint.load(tmp_path / "c", learner.model, *others)
    assert str(error.value) == (
        f"{tmp_path / 'c'} must be a checkpoint of format 2, but got format 1: use the neuropil version that wrote it."
    )


def test_half_a_checkpoint_is_refused_and_may_be_removed(tmp_path: Path):
    learner, *others = trained(0)
    (tmp_path / "c").write_bytes(b"half")
    with pytest.raises(RunError) as error:
        checkpoint.load(tmp_path / "c", learner.model, *others)
    assert error.value.fix == f"restore or remove {tmp_path / 'c'}"


def test_a_checkpoint_whose_parts_are_missing_or_of_other_sizes_is_refused(tmp_path: Path):
    path = tmp_path / "c"
    learner, optimizers, phases, average = trained(1)
    checkpoint.save(path, {"step": 1}, learner.model, optimizers, phases, average, {})
    tensors, facts = read_tensors(path)
    key, moment = "average/0.bias", "optimizer/classify/0.bias/exp_avg"
    for changed, what in (
        (({name: each for name, each in tensors.items() if name != key}, facts), "the average of 0.bias"),
        (({**tensors, key: torch.zeros(3)}, facts), "the average of 0.bias"),
        (({**tensors, moment: torch.zeros(3)}, facts), "the averages of 0.bias"),
        ((tensors, {"format": 2, "state": [1]}), "where the run stands"),
        ((tensors, {"format": 2}), "where the run stands"),
    ):
        write_tensors(path, *changed)
        with pytest.raises(RunError) as error:
            checkpoint.load(path, learner.model, optimizers, phases, average)
        sentence = f"{path} must say {what}, as neuropil wrote it, but got something else: restore or remove it."
        assert str(error.value) == sentence


@pytest.mark.parametrize(
    "change",
    [
        {"step": -1},
        {"step": 1.5},
        {"finished": 1},
        {"elapsed": float("nan")},
        {"loss_sums": []},
        {"x": 1},
        {"best": "a"},
        {"rows": 1.5},
        {"step": True},
    ],
)
def test_where_a_run_stands_is_of_numbers_that_can_be(change: dict[str, Any]):
    whole = vars(State(step=3, best=0.5, loss_sums={"fit": 1.0}))
    assert checkpoint.restored(State, whole, Path("c")) == State(**whole)
    with pytest.raises(RunError) as error:
        checkpoint.restored(State, whole | change, Path("c"))
    sentence = "c must say where the run stands, as neuropil wrote it, but got something else: restore or remove it."
    assert str(error.value) == sentence
