from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from neuropil.adversarial.defences import DefenceConfig, DefendedLearner
from neuropil.adversarial.threat_model import ThreatModel
from neuropil.errors import InputError
from neuropil.parts.objectives import Classification
from neuropil.training.distributed.placement import require_divisible_loss
from training.distributed.forked import ForkedGroups

WAYS = {
    "fsdp": (2, {"parallel": "fsdp"}),
    "tensor": (2, {"tensor_parallel": 2}),
    "both": (4, {"parallel": "fsdp", "tensor_parallel": 2, "recompute": True}),
    "ddp and tensor": (4, {"parallel": "ddp", "tensor_parallel": 2}),
}


@pytest.fixture(scope="module")
def alone(groups: ForkedGroups, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    folder = tmp_path_factory.mktemp("alone")
    return folder, groups.run("fitted", 1, folder=str(folder))[0]


def require_same(folder: Path, rows: list[Any], alone: tuple[Path, list[Any]]) -> None:
    expected, own = load_file(alone[0] / "model.safetensors"), load_file(folder / "model.safetensors")
    assert own.keys() == expected.keys()
    for name, weight in own.items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-11)
    assert [row.keys() for row in rows] == [row.keys() for row in alone[1]]
    for row, other in zip(rows, alone[1], strict=True):
        assert row == pytest.approx(other, abs=1e-11)


@pytest.mark.parametrize(
    "way", ["fsdp", *(pytest.param(way, marks=pytest.mark.slow) for way in ("tensor", "both", "ddp and tensor"))]
)
def test_a_divided_run_is_that_of_one_process(
    groups: ForkedGroups, tmp_path: Path, alone: tuple[Path, list[Any]], way: str
):
    processes, options = WAYS[way]
    for rows in groups.run("fitted", processes, folder=str(tmp_path), **options):
        require_same(tmp_path, rows, alone)


def test_a_run_goes_on_with_another_number_of_processes_divided_another_way(
    groups: ForkedGroups, tmp_path: Path, alone: tuple[Path, list[Any]]
):
    run = {"folder": str(tmp_path)}
    assert groups.run("fitted", 1, stop_after=3, **run) == [["stopped at step 2"]]
    assert (tmp_path / "checkpoint.safetensors").exists()
    assert groups.run("fitted", 2, stop_after=1, parallel="fsdp", **run) == [["stopped at step 3"]] * 2
    assert not (tmp_path / "checkpoint.safetensors").exists()
    assert groups.run("fitted", 2, stop_after=1, tensor_parallel=2, **run) == [["stopped at step 4"]] * 2
    [rows] = groups.run("fitted", 1, parallel="fsdp", **run)
    require_same(tmp_path, rows, alone)
    assert not (tmp_path / "checkpoint").exists()
    assert (tmp_path / "checkpoint.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("system", ["clip", "bert", "transformer", "vit"])
def test_a_divided_run_of_every_transformer_is_that_of_one_process(groups: ForkedGroups, tmp_path: Path, system: str):
    """Contrastive losses compare the rows of all shares of a batch, and not those of the processes that have the same
    share."""
    own, other, run = tmp_path / "own", tmp_path / "other", {"system": system}
    alone = own, groups.run("fitted", 1, folder=str(own), **run)[0]
    for rows in groups.run("fitted", 4, folder=str(other), parallel="fsdp", tensor_parallel=2, **run):
        require_same(other, rows, alone)


def test_a_penalty_on_whole_weights_is_refused_where_they_are_divided():
    model = torch.nn.Linear(2, 2)
    require_divisible_loss(Classification(model))
    penalised = Classification(model, l1=0.1)
    for learner in (penalised, DefendedLearner(penalised, ThreatModel("linf", 0.1), DefenceConfig())):
        with pytest.raises(InputError) as error:
            require_divisible_loss(learner)
        assert str(error.value) == (
            "--l1 needs a model that is whole in every process, but got one that is divided: "
            "leave --l1 out, or use --parallel ddp."
        )
