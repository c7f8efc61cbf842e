"""Short trainings inside a study, and what a simulation writes."""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import neuropil
from neuropil.data.examples.files import DataConfig
from neuropil.errors import InputError
from neuropil.parts.objectives import Classification
from neuropil.progress import Display
from neuropil.protocols import Batch, Phase
from neuropil.tasks.study import (
    alone,
    compare,
    in_order,
    leading,
    new_mlp,
    prepare_classes,
    prepare_parts,
    score,
    shuffled,
    train_trial,
    write_arrays,
)
from neuropil.training.config import TrainingConfig
from neuropil.training.interruption import Interrupted

CONFIG = TrainingConfig(epochs=2, batch_size=256, keep="last")


class Stopped:
    """A learner whose user presses Ctrl-C in update number `stop`."""

    def __init__(self, learner: Classification, stop: int):
        self.learner, self.model, self.stop, self.updates = learner, learner.model, stop, 0

    def phases(self) -> Sequence[Phase]:
        return [Phase("classification", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Tensor:
        self.updates += 1
        if self.updates == self.stop:
            os.kill(os.getpid(), signal.SIGINT)
        return self.learner.loss(batch)

    def metrics(self, batch: Batch) -> Mapping[str, Tensor]:
        return self.learner.metrics(batch)


def test_a_study_that_is_stopped_in_a_trial_goes_on_to_the_same_weights(tmp_path: Path):
    splits = prepare_classes(DataConfig(), 0)
    batches, validation = shuffled(splits.train, CONFIG.batch_size, 0), in_order(splits.validation)
    learners = [Classification(new_mlp(splits.train, 0, hidden_sizes=(8,))) for _ in range(3)]
    whole, broken, resumed = learners
    train_trial(tmp_path / "whole", "one", whole, batches, validation, CONFIG, seed=0)
    with pytest.raises(Interrupted) as stop:
        train_trial(tmp_path / "broken", "one", Stopped(broken, stop=3), batches, validation, CONFIG, seed=0)
    assert stop.value.folder == tmp_path / "broken", "it is the study that is resumed, not the trial"
    train_trial(tmp_path / "broken", "one", resumed, batches, validation, CONFIG, seed=0)
    for own, other in zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(own, other)
    assert score(whole, splits.test) == score(resumed, splits.test)


def test_first_weights_depend_on_the_seed_alone():
    train = prepare_classes(DataConfig(), 0).train
    first, again, other = (new_mlp(train, seed, hidden_sizes=(8,)).output.weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with alone():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_a_study_needs_a_validation_part():
    with pytest.raises(InputError) as error:
        prepare_parts(DataConfig(validation=0.0), 0)
    assert str(error.value) == "this study needs a validation part, but got validation 0: give --validation 0.1."


def test_a_study_of_accuracies_needs_classes(tmp_path: Path):
    table = tmp_path / "numbers.csv"
    table.write_text("a,b\n" + "".join(f"{i},{i * 0.37}\n" for i in range(40)))
    with pytest.raises(InputError) as error:
        prepare_classes(DataConfig(data=table, target="b"), 0)
    assert str(error.value) == (
        "this study needs data with classes, but got 40 rows of 1 feature (numbers.csv): "
        "leave --data out to use the embedded digits."
    )


def test_arrays_and_tensors_come_back_by_their_names(tmp_path: Path):
    times = torch.rand(3, requires_grad=True)
    write_arrays(tmp_path / "spikes.npz", times=times, neurons=np.arange(3))
    with np.load(tmp_path / "spikes.npz", allow_pickle=False) as found:
        assert found.files == ["times", "neurons"]
        np.testing.assert_array_equal(found["times"], times.detach().numpy())
    assert [path.name for path in tmp_path.iterdir()] == ["spikes.npz"]


def test_variants_are_compared_in_their_order_and_results_led_by_those_named():
    shown: list[tuple[float | str | None, ...]] = []

    class Screen(Display):
        def update(self, share: float | None, *figures: str, **_: Any) -> None:
            shown.append((share, *figures))

    outcomes = compare({"a": 1, "b": 2}, lambda name, value: name * value, Screen("study", show=False), str.upper)
    assert outcomes == {"a": "a", "b": "bb"}
    assert shown == [(0.5, "a: A"), (1.0, "b: BB")]
    assert list(leading({"a": 1, "b": 2, "c": 3}, "c", "b")) == ["c", "b", "a"]


def test_a_study_counts_every_example_the_same():
    with pytest.raises(InputError) as error:
        neuropil.train("activations", data=(np.zeros((4, 2)), [0, 1, 0, 1], [1, 2, 3, 4]), show_progress=False)
    rule = "activations counts every example the same, but got weights in the arrays in memory: give a pair (X, y)."
    assert str(error.value) == rule
