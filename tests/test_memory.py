import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from neuropil import memory
from neuropil.errors import InputError, written
from neuropil.memory import available_memory, refused_memory, require_room
from neuropil.randomness import initialised

SMALLER = r"choose smaller batches or a smaller model\."


@pytest.fixture
def megabyte(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with one free."""
    (tmp_path / "meminfo").write_text("MemTotal:  4000 kB\nMemAvailable:  1000 kB\n")
    monkeypatch.setattr(memory, "MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CONTAINER", tmp_path / "memory.max")


def test_free_memory_is_that_of_the_machine_or_of_the_container(megabyte: None, tmp_path: Path):
    assert available_memory() == 1_024_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory() == 1_024_000
    (tmp_path / "memory.max").write_text("1000\n")
    assert available_memory() == 1_000


@pytest.mark.usefixtures("megabyte")
def test_what_does_not_fit_is_refused_with_an_estimate():
    require_room("the table", 1_024_000)
    with pytest.raises(InputError) as error:
        require_room("the table", 3.7e13)
    assert str(error.value) == (
        "the table must fit into memory, but got at least 37 TB, of 1.02 MB free: choose smaller sizes."
    )


def test_sizes_are_written_for_a_person():
    sizes = (0, 999, 1_000, 12_345_678, 10**30)
    assert [*map(written, sizes)] == ["0 bytes", "999 bytes", "1 kB", "12.3 MB", "1e+12 EB"]


@pytest.mark.usefixtures("megabyte")
@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Linear(10**9, 10**9),
        lambda: nn.Embedding(size := 10**15, size),
        lambda: nn.Sequential(*(nn.Linear(100, 100) for _ in range(7))),
        lambda: nn.Bilinear(40, 40, 41),
    ],
    ids=["one tensor", "more than can be counted", "many tensors", "one tensor that could be had"],
)
def test_a_model_that_could_not_be_trained_is_refused_before_it_is_allocated(build):
    with pytest.raises(InputError) as error:
        initialised(build, seed=0)
    assert str(error.value).startswith(
        "a model, its gradients and Adam's moments must fit into memory, but got at least "
    )
    assert str(error.value).endswith(", of 1.02 MB free: choose smaller sizes.")


@pytest.mark.usefixtures("megabyte")
def test_a_model_that_fits_is_built():
    """60,600 numbers of 16 bytes."""
    assert len(initialised(lambda: nn.Sequential(*(nn.Linear(100, 100) for _ in range(6))), seed=0)) == 6


@pytest.mark.usefixtures("megabyte")
def test_what_several_processes_train_need_only_be_built_by_each(monkeypatch: pytest.MonkeyPatch):
    """242,400 numbers of 4 bytes, and then 262,600."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(initialised(lambda: nn.Sequential(*(nn.Linear(100, 100) for _ in range(24))), seed=0)) == 24
    with pytest.raises(InputError) as error:
        initialised(lambda: nn.Sequential(*(nn.Linear(100, 100) for _ in range(26))), seed=0)
    assert (
        str(error.value)
        == "a model must fit into memory, but got at least 1.05 MB, of 1.02 MB free: choose smaller sizes."
    )


def test_a_large_model_is_counted_first_and_built_as_if_it_were_small(monkeypatch: pytest.MonkeyPatch):
    def build() -> nn.Module:
        model = nn.Sequential(nn.Linear(30, 30), nn.LSTM(30, 30), nn.BatchNorm1d(30))
        nn.init.orthogonal_(model[0].get_parameter("weight"))
        return model

    small = initialised(build, seed=3).state_dict()
    monkeypatch.setattr(memory, "MOST_SMALL", 1_000)
    large = initialised(build, seed=3).state_dict()
    assert all(torch.equal(large[name], value) for name, value in small.items())
    assert not any(value.is_meta for value in large.values())


def test_a_model_of_endless_layers_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "MOST_TENSORS", 100)
    with pytest.raises(InputError) as error:
        initialised(lambda: nn.Sequential(*(nn.Linear(1, 1) for _ in range(10**9))), seed=0)
    assert str(error.value) == "a model must have at most 100 tensors, but got more: choose fewer layers."


def test_what_could_not_be_allocated_after_all_is_refused_too():
    with pytest.raises(InputError) as error, refused_memory():
        torch.empty(10**16)
    free = r"[0-9.]+ [MG]B"
    asked = f"a run must fit into memory, but got 40 PB asked for at once, of {free} free: {SMALLER}"
    assert re.fullmatch(asked, str(error.value))
    with pytest.raises(InputError, match=asked.replace("40 PB", "80.1 PB")), refused_memory():
        np.empty(10**16)
    unknown = f"a run must fit into memory, but got more than the {free} that are free: {SMALLER}"
    with pytest.raises(InputError, match=unknown), refused_memory():
        raise MemoryError
    with pytest.raises(InputError) as error, refused_memory():  # as it is said of a graphics card
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has …")
    got = "2.15 GB asked for at once, on the accelerator"
    assert str(error.value) == f"a run must fit into memory, but got {got}: {SMALLER[:-2]}."
    with pytest.raises(RuntimeError, match="another reason"), refused_memory():
        raise RuntimeError("another reason")
