import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from neuropil.errors import RunError
from neuropil.training.distributed.sharded_checkpoint import (
    finished,
    read_state,
    remove_unfinished,
    require_shared_disk,
    save,
)
from training.distributed.forked import ForkedGroups


@pytest.fixture(scope="module")
def run_of_two(groups: ForkedGroups, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    groups.run("go_on", 2, system="gpt2", folder=str(folder), data=2, tensor=1, optimizer="adamw")
    return folder


@pytest.fixture
def saved(run_of_two: Path, tmp_path: Path) -> Path:
    """A checkpoint of two processes."""
    shutil.copytree(run_of_two, tmp_path, dirs_exist_ok=True)
    return tmp_path / "checkpoint" / "step-2"


def numbers_in(folder: Path) -> int:
    """Of the weights, in all shares."""
    tensors = [(name, x) for path in folder.glob("*.safetensors") for name, x in load_file(path).items()]
    return sum(x.numel() for name, x in tensors if name.startswith("model/"))


@pytest.mark.parametrize(
    ("system", "optimizer"), [("gpt2", "muon"), pytest.param("transformer", "adamw", marks=pytest.mark.slow)]
)
def test_a_run_goes_on_with_other_processes_divided_in_another_way(
    groups: ForkedGroups, tmp_path: Path, system: str, optimizer: str
):
    run = {"system": system, "folder": str(tmp_path), "optimizer": optimizer}
    unpickled = groups.run("go_on", 2, data=2, tensor=1, **run)
    numbers = numbers_in(tmp_path / "checkpoint" / "step-2")
    unpickled += groups.run("go_on", 4, data=2, tensor=2, **run)
    assert numbers_in(tmp_path / "checkpoint" / "step-4") == numbers  # what two processes have is written by one
    unpickled += groups.run("go_on", 2, data=1, tensor=2, **run)
    [alone] = groups.run("went_on", 1, **run)
    assert alone["steps"] == 6
    # A gradient that is zero but for rounding, as that of a key's bias, is 1e-16; Adam makes 0.01 · 1e-16 / 1e-8 of it.
    assert alone["difference"] < 1e-10
    assert not any(unpickled)
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".safetensors", ".json"}
    assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == ["step-6"]  # those before are gone


def test_an_unfinished_checkpoint_is_not_picked_up(saved: Path):
    run = saved.parents[1]
    shutil.copytree(saved, saved.with_name(".step-4.part"))
    assert finished(run) == [saved]
    remove_unfinished(run)
    assert list(saved.parent.iterdir()) == [saved]


def test_a_process_that_is_killed_while_it_replaces_a_step_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trained: Any = (torch.nn.Linear(2, 2), {}, [], None)
    save(tmp_path, {"step": 7}, trained, {}, {})
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if path.suffix == ".part":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, {"step": 7, "finished": True}, trained, {}, {})
    monkeypatch.undo()
    remove_unfinished(tmp_path)
    (folder,) = (tmp_path / "checkpoint").iterdir()
    assert read_state(folder) == {"step": 7}
    save(tmp_path, {"step": 7, "finished": True}, trained, {}, {})
    (folder,) = (tmp_path / "checkpoint").iterdir()
    assert read_state(folder) == {"step": 7, "finished": True}


def test_a_full_disk_is_said_in_a_sentence_and_the_checkpoint_before_is_kept(groups: ForkedGroups, saved: Path):
    run = saved.parents[1]
    assert set(groups.run("without_room", 2, folder=str(run))) == {
        f"{saved.parent} must have room for step-1, but got some free of 115 kB needed: make room on that disk."
    }
    assert finished(run) == [saved]


def test_the_latest_of_several_is_the_last(tmp_path: Path):
    for step in (9, 10, 100):
        (tmp_path / "checkpoint" / f"step-{step}").mkdir(parents=True)
    assert [path.name for path in finished(tmp_path)] == ["step-9", "step-10", "step-100"]


def test_a_file_that_was_cut_off_is_named(saved: Path):
    name = "shard-00002-model-00001-of-00001.safetensors"
    content = (saved / name).read_bytes()
    (saved / name).write_bytes(content[:-1])
    with pytest.raises(RunError) as error:
        read_state(saved)
    assert str(error.value) == (
        f"{saved} must hold the files of which it tells, whole, but got {name} missing, cut off or strange: restore or "
        f"remove {saved}."
    )


def test_a_checkpoint_of_another_format_is_refused(saved: Path):
    facts = json.loads((saved / "state.json").read_text())
    (saved / "state.json").write_text(json.dumps(facts | {"format": 99}))
    with pytest.raises(RunError) as error:
        read_state(saved)
    assert str(error.value) == (
        f"{saved} must be a checkpoint of format 1, but got format 99: use the neuropil version that wrote it."
    )


def test_a_checkpoint_without_its_facts_is_refused(saved: Path):
    (saved / "state.json").write_text("[]")
    with pytest.raises(RunError) as error:
        read_state(saved)
    assert str(error.value) == f"{saved} must be a whole checkpoint, but got one whose state.json tells of no files."


def test_the_weights_of_another_model_are_refused(groups: ForkedGroups, saved: Path):
    [message] = groups.run("loaded_into", 1, system="vit", folder=str(saved.parents[1]))
    assert message.startswith(f"{saved} must hold the weights of ViT, but got model/")


def test_processes_that_share_no_disk_are_told_so(tmp_path: Path):
    with pytest.raises(RunError) as error:
        require_shared_disk(tmp_path, 1, 2)
    assert str(error.value) == (
        "sharded checkpoints need a run folder on a disk that all processes share, but got 1 of 2 files in "
        f"{tmp_path}: choose --runs on such a disk, or train with --parallel ddp."
    )
