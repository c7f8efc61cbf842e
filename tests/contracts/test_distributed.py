"""What holds of every system that several processes train together: it learns what one process would, and only rank 0
writes. Processes are started once for all systems."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contracts.distributed_worker import CARRYING, NOISY
from contracts.test_recipes import SMALL
from neuropil import recipes
from neuropil.training.chunk_loop import ChunkTrainingConfig
from neuropil.training.config import TrainingConfig

OPTIONS = {each.name: getattr(recipes.recipe(each.name).options, "training", None) for each in recipes.SYSTEMS}
TOGETHER = [name for name, training in OPTIONS.items() if isinstance(training, TrainingConfig)]
TABLE = "x,y,label\n" + "".join(f"{number % 7},{number % 5},{'ab'[number % 2]}\n" for number in range(60))
TRAINED = ["train", "mlp", "--data", "table.csv", "--target", "label", "--hidden-sizes", "4", "--epochs", "1"]
COMMANDS = [
    [*TRAINED, "--no-report", "--out", "run"],
    ["resume", "run"],
    [*TRAINED[:-2], "--minutes", "0.02", "--patience", "3", "--no-report", "--out", "limited"],
    ["train", "optimizers", "--steps", "10", "--no-report", "--out", "study"],
    ["train", "mlp", "--data", "only_here.csv", "--target", "label", "--out", "refused"],
]
"""The last is refused by rank 1 alone, and ends all processes."""


@dataclass(frozen=True)
class Outcome:
    folder: Path
    found: Mapping[str, Any]
    exit_codes: Sequence[int]
    said: Sequence[str]


def small(name: str, batch_size: int) -> dict[str, Any]:
    options = {**SMALL[name], "batch_size": batch_size}
    options |= {"classifier_updates": 1} if "classifier_updates" in options else {}
    return {key: value for key, value in options.items() if key not in ("epochs", "updates")}


def started(folder: Path, systems: Mapping[str, Any], commands: Sequence[Sequence[str]], processes: int) -> Outcome:
    (folder / "given.json").write_text(json.dumps({"systems": systems, "commands": commands}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **place}
    running = []
    for rank in range(processes):
        (folder / f"host-{rank}").mkdir()
        (folder / f"host-{rank}" / "table.csv").write_text(TABLE)
        own = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        words = [sys.executable, "-m", "contracts.distributed_worker", str(folder)]
        with (folder / f"host-{rank}.out").open("w") as out, (folder / f"host-{rank}.err").open("w") as err:
            running.append(subprocess.Popen(words, env=own, stdout=out, stderr=err))
    (folder / "host-0" / "only_here.csv").write_text(TABLE)
    exit_codes = [process.wait() for process in running]
    said = [(folder / f"host-{rank}.err").read_text() for rank in range(processes)]
    assert (folder / "found.json").exists(), "\n".join(said)
    return Outcome(folder, json.loads((folder / "found.json").read_text()), exit_codes, said)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    systems = {name: small(name, 7) for name in TOGETHER}
    return started(tmp_path_factory.mktemp("two"), systems, COMMANDS, 2)


def test_what_has_no_gradients_is_the_work_of_one_process():
    assert isinstance(OPTIONS["word2vec"], ChunkTrainingConfig)
    assert {"hopfield", "population", "lif", "optimizers"}.isdisjoint(TOGETHER)
    assert set(CARRYING) | set(NOISY) < set(TOGETHER)


def require_like_one(found: Mapping[str, Any], name: str) -> None:
    for accumulate in ("1", "2"):
        trial = found[accumulate]
        assert trial["equal"], "every process must have the same weights"
        assert trial["moved"] > 1e-4
        if name not in NOISY:
            assert trial["apart"] < 1e-5
        else:
            assert trial["apart"] < trial["moved"]


@pytest.mark.parametrize("name", TOGETHER)
def test_two_processes_learn_what_one_would(name: str, two: Outcome):
    require_like_one(two.found["systems"][name], name)


@pytest.mark.parametrize("name", sorted({*NOISY, *CARRYING}))
def test_random_numbers_are_those_of_the_seed_the_update_and_the_rank(name: str, two: Outcome):
    assert two.found["systems"][name]["repeated"]


@pytest.mark.parametrize("name", CARRYING)
def test_a_stop_of_one_process_is_one_of_all_and_they_go_on_to_the_same_bits(name: str, two: Outcome):
    resumed = two.found["systems"][name]["resumed"]
    assert resumed["stopped"] == "stopped at step 2"
    assert resumed["same"]
    assert resumed["alone"] < (1e-5 if name not in NOISY else 0.01)


def test_batch_normalisation_is_that_of_the_whole_batch(two: Outcome):
    assert len(two.found["normalised"]) == 8
    assert max(two.found["normalised"].values()) < 1e-5


def test_rank_0_alone_writes_and_prints(two: Outcome):
    printed = [(two.folder / f"host-{rank}.out").read_text() for rank in range(2)]
    assert [line for line in printed[0].splitlines() if line.startswith(("Run: ", "Report: "))] == [
        "Run: run",
        "Report: run/report.html",
        "Run: limited",
        "Run: study",
    ]
    assert printed[1] == ""
    assert {path.name for path in (two.folder / "host-0" / "run").iterdir()} == {
        "checkpoint.safetensors",
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
        "report.html",
        "training_examples.npy",
    }
    assert [path.name for path in (two.folder / "host-1").iterdir()] == ["table.csv"]


def test_what_one_process_refuses_ends_all_with_one_sentence_and_leaves_nothing(two: Outcome):
    assert two.exit_codes == [2, 2]
    sentence = "neuropil: the data must be a file or folder that exists, but got 'only_here.csv'.\n"
    assert two.said[1] == sentence
    assert "neuropil: " not in two.said[0]
    assert not (two.folder / "host-0" / "refused").exists()


@pytest.mark.slow
def test_four_processes_learn_what_one_would(tmp_path: Path):
    systems = {
        name: small(name, 10) for name in ("cnn", "rnn", "gru", "lstm", "clip", "gan", "predictive_coding", "rbm")
    }
    four = started(tmp_path, systems, [], 4)
    assert four.exit_codes == [0] * 4
    for name in systems:
        require_like_one(four.found["systems"][name], name)
    for name in CARRYING:
        assert four.found["systems"][name]["resumed"]["same"]
