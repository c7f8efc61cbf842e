import functools
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from neuropil.errors import InputError, LostProcessError
from neuropil.training.distributed import processes
from neuropil.training.distributed.processes import World, first_to_end, is_restart, launch_of, place_in, resume_command

MET = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1"}


def test_the_place_is_what_torchrun_says():
    assert place_in({}) == place_in({"RANK": "3"}) == World(0, 1, 0)
    assert place_in({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", **MET}) == World(3, 4, 1)
    assert place_in({"RANK": "3", "WORLD_SIZE": "4", **MET}) == World(3, 4, 0)
    assert place_in({"RANK": "0", "WORLD_SIZE": "1"}).alone


@pytest.mark.parametrize("rank", ["2", "-1", "one", ""])
def test_a_place_that_there_is_not_is_refused(rank: str):
    with pytest.raises(InputError) as error:
        place_in({"RANK": rank, "WORLD_SIZE": "2", **MET})
    assert str(error.value) == (
        "RANK, WORLD_SIZE and LOCAL_RANK must be whole numbers as torchrun sets them, the rank below the size, "
        f"but got RANK={rank}, WORLD_SIZE=2: start with torchrun, or unset them."
    )


def test_processes_that_cannot_meet_are_refused():
    with pytest.raises(InputError) as error:
        place_in({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"})
    assert str(error.value) == "2 processes must know where to meet, but got no MASTER_PORT: start with torchrun."


def test_a_process_that_is_alone_sends_nothing(tmp_path: Path):
    alone, rows = World(), torch.arange(3)
    assert alone.first
    assert alone.sum([1.0, 2.0]) == [1.0, 2.0]
    assert alone.broadcast({"a": 1}) == {"a": 1}
    assert alone.gather_rows(rows) is rows
    alone.broadcast_tensors([rows])
    alone.barrier()
    (tmp_path / "there").write_text("x")
    with alone.copy_of(tmp_path / "there") as there, alone.copy_of(tmp_path / "not there") as missing:
        assert (there, missing) == (tmp_path / "there", None)
    assert first_to_end(2) == (True, 2)


def test_a_lost_connection_is_told_in_one_sentence():
    def fail(words: str, world: World, folder: Path | None = None) -> None:
        with world.watching(folder):
            raise RuntimeError(words)

    closed = "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"
    with pytest.raises(LostProcessError) as error:
        fail(closed, World(0, 2))
    assert str(error.value) == (
        "a run needs all of its processes, but got one that ended: see what it said, and start again."
    )
    with pytest.raises(LostProcessError) as error:
        fail(closed, World(0, 2), Path("runs/my vit"))
    assert str(error.value) == (
        "a run needs all of its processes, but got one that ended: see what it said, and go on with "
        "`neuropil resume 'runs/my vit'`."
    )
    with pytest.raises(RuntimeError, match="sizes do not match"):
        fail("sizes do not match", World(0, 2))
    with pytest.raises(RuntimeError, match="Connection closed"):
        fail(closed, World())


@pytest.mark.parametrize(
    ("size", "on_host", "launch"),
    [
        ("1", "1", "neuropil"),
        ("2", "2", "torchrun --standalone --nproc-per-node 2 -m neuropil"),
        ("2", "", "torchrun --standalone --nproc-per-node 2 -m neuropil"),
        (
            "16",
            "8",
            "torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint HOST:29400 --rdzv-id NAME --nproc-per-node 8 "
            "-m neuropil",
        ),
    ],
)
def test_a_run_of_several_processes_is_resumed_by_as_many(size: str, on_host: str, launch: str):
    environment = {"RANK": "0", "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": on_host, **MET}
    assert resume_command(Path("my run"), environment) == f"{launch} resume 'my run'"
    assert resume_command(Path("my run"), {}) == "neuropil resume 'my run'"


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> HashStore:
    store = HashStore()
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", **MET}.items():
        monkeypatch.setenv(name, value)
    joined = functools.cache(lambda: store)
    joined()
    monkeypatch.setattr(processes, "_store", joined)
    return store


def test_where_all_end_together_the_first_says_why(second_of_two: HashStore):
    """It has the display, which is gone by then."""
    first = threading.Timer(0.2, lambda: second_of_two.compare_set(processes.ENDED, "", "0 130"))
    first.start()
    assert first_to_end(130, together=True) == (False, 130)
    first.join()


def test_where_the_first_was_killed_another_says_it(second_of_two: HashStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "WAIT_FOR_FIRST", timedelta(seconds=0.1))
    assert first_to_end(130, together=True) == (True, 130)


def test_where_one_fails_alone_it_says_it_at_once(second_of_two: HashStore):
    assert first_to_end(2) == (True, 2)
    assert second_of_two.get(processes.ENDED) == b"1 2"


def test_a_launch_is_known_again_when_it_is_restarted():
    assert launch_of({}) is None
    assert launch_of({"TORCHELASTIC_RUN_ID": "job-7"}) == "job-7"
    agent = launch_of({"TORCHELASTIC_RUN_ID": "none"})
    assert agent is not None
    assert agent.endswith(f":{os.getppid()}")
    assert not is_restart({})
    assert not is_restart({"TORCHELASTIC_RESTART_COUNT": "0"})
    assert is_restart({"TORCHELASTIC_RESTART_COUNT": "2"})
