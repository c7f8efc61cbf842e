from dataclasses import replace

import pytest
import torch

from neuropil.errors import InputError
from neuropil.memory import written
from neuropil.models.gpt2 import GPT2, SIZES
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed import strategy
from neuropil.training.distributed.strategy import choose, state_bytes
from neuropil.training.optimizers import build_optimizer

CPU = torch.device("cpu")
MODEL = GPT2(replace(SIZES["tiny"], layers=1))
NUMBERS = sum(weight.numel() for weight in MODEL.parameters())


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "device_memory", lambda device: 8.0 * NUMBERS)


def test_what_fits_is_whole_in_every_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategy, "device_memory", lambda device: 10e9)
    chosen = choose(TrainingConfig(), MODEL, 2, CPU)
    assert (chosen.fsdp, chosen.tensor) == (False, 1)
    assert chosen.why == (
        f"DDP over 2 processes: weights, gradients and moments take {written(16 * NUMBERS)}, and a process has room "
        "for 8 GB"
    )


def test_what_does_not_fit_is_sharded(little_memory: None):
    chosen = choose(TrainingConfig(), MODEL, 4, CPU)
    assert (chosen.fsdp, chosen.tensor) == (True, 1)
    assert chosen.why == (
        f"FSDP2 over 4 processes: weights, gradients and moments take {written(16 * NUMBERS)}, of which a process "
        f"keeps about {written(4 * NUMBERS)}, and a process has room for {written(6.4 * NUMBERS)}"
    )


def test_layers_are_computed_by_as_many_processes_as_asked_for(little_memory: None):
    chosen = choose(TrainingConfig(tensor_parallel=2, parallel="ddp"), MODEL, 4, CPU)
    assert (chosen.fsdp, chosen.tensor) == (False, 2)
    assert chosen.why == (
        f"tensor parallel over 2 processes × DDP over 2 processes: weights, gradients and moments take "
        f"{written(16 * NUMBERS)}, of which a process keeps about {written(8 * NUMBERS)}"
    )


def test_a_model_without_a_plan_is_whole_though_it_is_large(monkeypatch: pytest.MonkeyPatch):
    model = MLP(MLPConfig())
    monkeypatch.setattr(strategy, "device_memory", lambda device: 1.1 * state_bytes(model, TrainingConfig()))
    assert not choose(TrainingConfig(), model, 2, CPU).divides


def test_what_no_process_can_keep_is_refused(little_memory: None):
    with pytest.raises(InputError) as error:
        choose(TrainingConfig(parallel="ddp"), MODEL, 2, CPU)
    assert str(error.value) == (
        f"the weights, gradients and moments that a process keeps must fit into its memory, but got "
        f"{written(16 * NUMBERS)}, of {written(8 * NUMBERS)}: start more processes with --parallel fsdp, or choose "
        "smaller sizes."
    )


def test_a_run_goes_on_with_any_number_of_processes():
    config = TrainingConfig(parallel="fsdp", tensor_parallel=4)
    assert choose(config, MODEL, 1, CPU, resumed=True) == strategy.Strategy()
    tensors = {processes: choose(config, MODEL, processes, CPU, resumed=True).tensor for processes in (2, 3, 8)}
    assert tensors == {2: 2, 3: 1, 8: 4}


@pytest.mark.parametrize("optimizer", strategy.MOMENTS)
def test_the_state_of_a_run_is_what_its_optimiser_keeps(optimizer):
    weights = dict(MODEL.named_parameters())
    made = build_optimizer(
        optimizer, weights, learning_rate=0.0, embeddings=[MODEL.tokens.weight, MODEL.positions.weight]
    )
    for weight in weights.values():
        weight.grad = torch.zeros_like(weight)
    made.step()
    moments = sum(x.numel() for state in made.state.values() for name, x in state.items() if name != "step")
    assert state_bytes(MODEL, TrainingConfig(optimizer=optimizer)) == 4 * (2 * NUMBERS + moments)
    assert state_bytes(MODEL, TrainingConfig(optimizer=optimizer, average=0.9)) == 4 * (3 * NUMBERS + moments)


@pytest.mark.parametrize(
    ("options", "processes", "message"),
    [
        (
            {"parallel": "fsdp"},
            1,
            "--parallel fsdp needs several processes, but got one: start them with: torchrun --nproc-per-node 2 -m "
            "neuropil train ….",
        ),
        (
            {"tensor_parallel": 2},
            1,
            "--tensor-parallel 2 needs several processes, but got one: start them with: torchrun --nproc-per-node 2 -m "
            "neuropil train ….",
        ),
        ({"tensor_parallel": 2}, 3, "--tensor-parallel 2 must divide the number of processes, but got 3 processes."),
        (
            {"tensor_parallel": 2, "compile": True},
            2,
            "--compile needs a model that is whole in every process, but got one that is divided: leave --compile out.",
        ),
        (
            {"parallel": "fsdp", "previews": True},
            2,
            "--previews needs a model that is whole in every process, but got one that is divided: leave --previews "
            "out.",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict, processes: int, message: str):
    with pytest.raises(InputError) as error:
        choose(TrainingConfig(**options), MODEL, processes, CPU)
    assert str(error.value) == message


def test_a_model_without_blocks_cannot_be_divided():
    with pytest.raises(InputError) as error:
        choose(TrainingConfig(parallel="fsdp"), MLP(MLPConfig()), 2, CPU)
    assert str(error.value) == (
        "--parallel fsdp and --tensor-parallel need a model of attention blocks, but got MLP: train it with --parallel "
        "ddp."
    )
