"""The command that torchrun starts: a worker that is killed, and hosts that share nothing but a wire."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from neuropil.training.checkpoint import saved_step
from neuropil.training.history import read_history
from neuropil.training.weights import read_tensors

pytestmark = pytest.mark.slow

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TRAIN = ["train", "mlp", "--hidden-sizes", "16", "--dropout", "0", "--optimizer", "sgd", "--learning-rate", "0.05"]
MOST_SECONDS = 300.0


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    return read_tensors(run / "model.safetensors")[0]


def require_same(run: Path, other: Path) -> None:
    for name, weight in weights_of(run).items():
        torch.testing.assert_close(weight, weights_of(other)[name], rtol=1e-4, atol=1e-5)


def worker(agent: int, rank: int) -> int:
    """The process of this rank, among the children of torchrun."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return next(int(each) for each in children if f"\0RANK={rank}\0" in Path(f"/proc/{each}/environ").read_text())


@pytest.mark.parametrize("rank", [0, 1])
def test_a_run_whose_worker_is_killed_goes_on_in_its_folder_to_the_same_weights(rank: int, tmp_path: Path):
    require_restarted_alike([*TRAIN, "--epochs", "80"], "checkpoint.safetensors", rank, tmp_path)


@pytest.mark.parametrize("way", ["--parallel=fsdp", "--tensor-parallel=2"])
def test_a_divided_run_whose_worker_is_killed_goes_on_from_its_shares_to_the_same_weights(way: str, tmp_path: Path):
    text = "".join(
        f"the {number % 7} men sang of {number % 5} ships, and {number % 3} came home\n" for number in range(900)
    )
    (tmp_path / "text.txt").write_text(text)
    words = ["train", "gpt2", "--data", "text.txt", "--width", "16", "--heads", "2", "--layers", "2", "--context", "16"]
    words += ["--dropout", "0", "--attention-dropout", "0", "--optimizer", "sgd", "--learning-rate", "0.05"]
    require_restarted_alike([*words, "--epochs", "4"], "checkpoint/step-*", 1, tmp_path, way)


def require_restarted_alike(words: Sequence[str], checkpoint: str, rank: int, folder: Path, *way: str) -> None:
    """The process of this rank is killed after the first checkpoint; `way` is not for the one process beside which the
    run is held."""
    words = [*words, "--no-report"]
    launch = [*TORCHRUN, "--nproc-per-node", "2", "--max-restarts", "1", "-m", "neuropil", *words, *way]
    with (folder / "said").open("w") as said:
        running = subprocess.Popen(
            [*launch, "--checkpoint-seconds", "0.1"], cwd=folder, env=environment(), stdout=said, stderr=said
        )
        deadline = time.monotonic() + MOST_SECONDS
        while not list(folder.glob(f"runs/*/{checkpoint}")) and time.monotonic() < deadline:
            assert running.poll() is None, (folder / "said").read_text()
            time.sleep(0.05)
        os.kill(worker(running.pid, rank), signal.SIGKILL)
        assert running.wait() == 0, (folder / "said").read_text()
    (run,) = (folder / "runs").iterdir()
    subprocess.run(
        [sys.executable, "-m", "neuropil", *words, "--out", "one"], cwd=folder, env=environment(), check=True
    )
    require_same(run, folder / "one")
    rows = [read_history(each / "metrics.jsonl") for each in (run, folder / "one")]
    steps = [[row["step"] for row in part if row["kind"] == "train"] for part in rows]
    assert steps[0] == steps[1]


def said_until(stop: Callable[[subprocess.Popen[bytes]], None], launch: list[str], folder: Path) -> str:
    """What a launch printed that was stopped so, once `my run` had a checkpoint, and ended with an error."""
    with (folder / "said").open("w") as said:
        running = subprocess.Popen(launch, cwd=folder, env=environment(), stdout=said, stderr=said)
        deadline = time.monotonic() + MOST_SECONDS
        while not (folder / "my run/checkpoint.safetensors").exists() and time.monotonic() < deadline:
            assert running.poll() is None, (folder / "said").read_text()
            time.sleep(0.05)
        stop(running)
        assert running.wait() == 1
    return (folder / "said").read_text()


@pytest.mark.parametrize("rank", [0, 1])
def test_where_a_worker_is_killed_another_says_once_how_to_go_on(rank: int, tmp_path: Path):
    words = [*TRAIN, "--epochs", "2000", "--no-report", "--checkpoint-seconds", "0.1", "--out", "my run"]
    launch = [*TORCHRUN, "--nproc-per-node", "2", "-m", "neuropil", *words]
    printed = said_until(lambda running: os.kill(worker(running.pid, rank), signal.SIGKILL), launch, tmp_path)
    lines = [line for line in printed.splitlines() if "neuropil: " in line]
    assert [line[line.index("neuropil: ") :] for line in lines] == [
        "neuropil: a run needs all of its processes, but got one that ended: see what it said, "
        "and go on with `torchrun --standalone --nproc-per-node 2 -m neuropil resume 'my run'`."
    ]


@pytest.mark.parametrize(("to", "last"), [("agent", "SignalException"), ("worker", "ChildFailedError")])
def test_a_signal_stops_all_with_a_checkpoint_and_rank_0_says_so(to: str, last: str, tmp_path: Path):
    """As docs/guide/many-machines.md says: what torchrun itself prints at the end depends on who got the signal."""
    words = [*TRAIN, "--epochs", "2000", "--no-report", "--checkpoint-seconds", "0.1", "--out", "my run"]
    launch = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", "-m", "neuropil", *words]

    def stop(running: subprocess.Popen[bytes]) -> None:
        os.kill(running.pid if to == "agent" else worker(running.pid, 1), signal.SIGTERM)

    printed = said_until(stop, launch, tmp_path)
    (line,) = [each for each in printed.splitlines() if each.startswith("neuropil: ")]
    step = saved_step(tmp_path / "my run")
    assert line == (
        f"neuropil: stopped at step {step}; go on with: "
        "torchrun --standalone --nproc-per-node 2 -m neuropil resume 'my run'"
    )
    assert {each for each in ("SignalException", "ChildFailedError") if f"{each}:" in printed} == {last}


# --- two hosts --------------------------------------------------------------------------------------------------------

NAMES, ADDRESSES = ("neuropil-a", "neuropil-b"), ("10.93.7.1", "10.93.7.2")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[Sequence[str]]:
    """Two network namespaces, joined by a virtual cable."""
    try:
        for name in NAMES:
            ip("netns", "add", name)
        ip("link", "add", "wire0", "netns", NAMES[0], "type", "veth", "peer", "name", "wire0", "netns", NAMES[1])
        for name, address in zip(NAMES, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "wire0")
            ip("-n", name, "link", "set", "wire0", "up")
            ip("-n", name, "link", "set", "lo", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        remove_hosts()
        why = getattr(error, "stderr", b"") or str(error).encode()
        pytest.skip(f"network namespaces are not permitted here: {why.decode().strip()}")
    yield NAMES
    remove_hosts()


def remove_hosts() -> None:
    for name in NAMES:
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def test_two_hosts_that_share_no_disk_learn_what_one_process_would(hosts: Sequence[str], tmp_path: Path):
    words = [*TRAIN, "--epochs", "3", "--no-report", "--out", "run"]
    running = []
    for number, host in enumerate(hosts):
        (tmp_path / host).mkdir()
        launch = ["--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "1"]
        launch += ["--master-addr", ADDRESSES[0], "--master-port", "29400"]
        command = ["ip", "netns", "exec", host, *TORCHRUN, *launch, "-m", "neuropil", *words]
        own = {**environment(), "GLOO_SOCKET_IFNAME": "wire0"}
        running.append(subprocess.Popen(command, cwd=tmp_path / host, env=own))
    assert [process.wait() for process in running] == [0, 0]
    alone = [sys.executable, "-m", "neuropil", *words]
    subprocess.run(alone, cwd=tmp_path, env=environment(), check=True)
    require_same(tmp_path / hosts[0] / "run", tmp_path / "run")
    assert list((tmp_path / hosts[1]).iterdir()) == []
