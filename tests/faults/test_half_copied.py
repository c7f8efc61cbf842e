"""A run folder that was copied half-way: every file missing in turn, and cut off at several places. Each door says in
one sentence which file it is and what to do, or opens the very run; the other runs in the directory are listed as
ever."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import neuropil
from neuropil.errors import NeuropilError
from neuropil.files import locked
from neuropil.runs.comparison import compare
from neuropil.runs.listing import list_runs
from neuropil.runs.run import Run, load
from neuropil.runs.start import complete, resume, rewrite_report

TEXT = {"hidden_size": 8, "embedding_size": 8, "batch_size": 8, "steps": 16, "epochs": 1}
OPTIONS: dict[str, dict[str, Any]] = {
    "mlp": {"updates": 12, "hidden_sizes": (8,), "batch_size": 512, "previews": True},
    "rnn": TEXT,
    "forecaster": {"updates": 4, "members": 1, "hidden_size": 8},
    "word2vec": {"width": 8, "epochs": 1, "threads": 1, "min_count": 2, "test": 0.2},
    "hopfield": {},
}
LONGER, SLOW = ("rnn", "forecaster", "word2vec"), pytest.mark.slow
MENTIONED = {"config.json", "metrics.jsonl", "model.safetensors", "checkpoint.safetensors"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small runs that are finished, but for their reports."""
    folder = tmp_path_factory.mktemp("runs")
    text = folder / "text.txt"
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "dogs", "ran", "to", "trees", "by", "it"]
    lines = (random.Random(line).choices(words, k=9) for line in range(300))  # noqa: S311
    text.write_text(".\n".join(map(" ".join, lines)))
    train(folder, "mlp")
    return folder


def train(runs: Path, name: str) -> Path:
    """A run of that system among the others, if it is not there yet."""
    if not (runs / name).exists():
        given: dict[str, Any] = OPTIONS[name] | ({"data": runs / "text.txt"} if name in ("rnn", "word2vec") else {})
        neuropil.train(name, out=runs / name, report=False, show_progress=False, **given)
    return runs / name


def damaged(folder: Path) -> Iterator[tuple[Path, int | None]]:
    """Each file, and how many bytes of it are left; at the end of a line too. None is all of it gone."""
    for path in sorted(folder.iterdir()):
        size, lines = path.stat().st_size, path.read_bytes().splitlines(keepends=True)
        ends = {sum(map(len, lines[: len(lines) // 2]))} if path.suffix in (".jsonl", ".tsv") else set()
        for left in (None, *sorted({0, 1, size // 2, size - 1} | ends)):
            yield path, left


def weights(run: Run) -> dict[str, Tensor]:
    return dict(run.predictor.model.state_dict())


def said(door: Callable[[], object]) -> str:
    """The sentence with which a door stays closed; any other error is one of ours."""
    try:
        door()
    except NeuropilError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[SLOW] * (name in LONGER)) for name in OPTIONS])
def test_a_run_that_was_copied_half_way_opens_as_it_was_or_says_what_is_missing(name: str, runs: Path, tmp_path: Path):
    known, tried = weights(load(train(runs, name))), 0
    for path, left in damaged(runs / name):
        work, tried = tmp_path / str(tried), tried + 1
        shutil.copytree(runs / name, work / "half")
        shutil.copytree(runs / "mlp", work / "other")
        if left is None:
            (work / "half" / path.name).unlink()
        else:
            os.truncate(work / "half" / path.name, left)
        listed = {each.name: each for each in list_runs(work)}
        assert listed["other"].state == "finished"
        opened = said(lambda folder=work / "half": load(folder).predictor)
        if opened:
            assert path.name in opened, opened
        else:
            found = weights(load(work / "half"))
            assert all(torch.equal(found[each], known[each]) for each in known), (path.name, left)
        compared = said(lambda work=work: compare([work / "half", work / "other"]))
        assert not compared or path.name in compared
        if "half" in listed and listed["half"].state == "damaged":
            assert path.name in listed["half"].reason
            assert path.name in said(lambda folder=work / "half": resume(folder))
        shutil.rmtree(work)
    assert tried > 15


def unfinished(runs: Path, folder: Path) -> Path:
    """A run that was killed before it was evaluated."""
    shutil.copytree(runs / "mlp", folder)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(line for line in lines if '"result"' not in line))
    return folder


def go_on(folder: Path) -> Run:
    run = load(folder)
    with locked(folder):
        return complete(run, run.experiment(), False, report=False)


def test_a_run_that_is_not_finished_goes_on_to_the_same_bits_or_is_refused_at_once(runs: Path, tmp_path: Path):
    whole = load(runs / "mlp")
    for number, (path, left) in enumerate(damaged(unfinished(runs, tmp_path / "cut"))):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "cut", folder)
        (folder / path.name).unlink() if left is None else os.truncate(folder / path.name, left)
        refused = said(lambda folder=folder: go_on(folder))
        if refused:
            assert path.name in refused
            assert path.name in MENTIONED
            continue
        run = load(folder)
        assert run.weights.read_bytes() == whole.weights.read_bytes(), (path.name, left)
        assert [row | {"seconds": 0} for row in run.rows] == [row | {"seconds": 0} for row in whole.rows]


def test_what_a_checkpoint_counts_on_must_be_there(runs: Path, tmp_path: Path):
    folder = unfinished(runs, tmp_path / "run")
    (folder / "model.safetensors").unlink()
    assert said(lambda: go_on(folder)) == (
        f"{folder}/model.safetensors must be there whole beside its checkpoint, but got none: "
        "restore it, or remove checkpoint.safetensors to train anew."
    )
    shutil.copyfile(runs / "mlp" / "model.safetensors", folder / "model.safetensors")
    rows = len((folder / "metrics.jsonl").read_text().splitlines())
    (folder / "metrics.jsonl").write_text("")
    assert said(lambda: go_on(folder)) == (
        f"{folder}/metrics.jsonl must hold the {rows} rows that its checkpoint counts, but got 0: "
        "restore it, or remove the checkpoint to train anew."
    )
    (folder / "checkpoint.safetensors").unlink()
    assert go_on(folder).weights.read_bytes() == (runs / "mlp" / "model.safetensors").read_bytes()


def test_a_finished_run_without_its_checkpoint_is_not_trained_anew_for_a_report(runs: Path, tmp_path: Path):
    shutil.copytree(runs / "mlp", tmp_path / "run")
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    run = load(tmp_path / "run")
    for door in (resume, rewrite_report):
        assert said(lambda door=door: door(run.folder, show_progress=False)) == (
            f"{run.folder} must hold checkpoint.safetensors for its report to be written, but got a run without it, "
            f"as a saved .zip is: restore it, or train again with `{run.settings['command']}`."
        )
    assert run.weights.read_bytes() == (runs / "mlp" / "model.safetensors").read_bytes()


def test_the_rest_of_a_run_asks_for_its_settings(runs: Path, tmp_path: Path):
    shutil.copytree(runs / "mlp", tmp_path / "run")
    (tmp_path / "run" / "config.json").unlink()
    assert said(lambda: load(tmp_path / "run")) == (
        f"a run is a folder with a config.json, but got {str(tmp_path / 'run')!r}: "
        "restore it beside metrics.jsonl and model.safetensors."
    )


def test_results_that_were_cut_off_are_not_taken_for_all_of_them(runs: Path, tmp_path: Path):
    shutil.copytree(runs / "mlp", tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    os.truncate(path, path.stat().st_size - 1)
    lines = len(path.read_text().splitlines())
    sentence = f"{path} must hold the JSON that neuropil wrote on each line, but got line {lines}, which is damaged: "
    assert [each.reason for each in list_runs(tmp_path)] == [f"{sentence}restore the file or remove the line."]
    assert said(lambda: load(tmp_path / "run").metrics) == f"{sentence}restore the file or remove the line."


def test_an_archive_that_was_copied_half_way_is_refused(runs: Path, tmp_path: Path):
    whole = load(runs / "mlp").save(tmp_path / "whole.zip").read_bytes()
    for left in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        path = tmp_path / f"{left}.zip"
        path.write_bytes(whole[:left])
        assert said(lambda path=path: load(path)).startswith(f"{path} must be a zip of one run, as run.save writes it")
    noise = tmp_path / "noise.zip"
    middle = len(whole) // 2
    noise.write_bytes(whole[:middle] + bytes(64) + whole[middle + 64 :])
    assert said(lambda: load(noise)).startswith(
        f"{noise} must be a zip of one run, as run.save writes it, but got a file"
    )
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
