import json
from pathlib import Path

import pytest

import neuropil
from neuropil.runs.distributed.restart import begun_before
from neuropil.runs.run import Run

TABLE = "x,label\n" + "".join(f"{number % 7},{'ab'[number % 2]}\n" for number in range(40))


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As by `torchrun --rdzv-id job`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    Path("table.csv").write_text(TABLE)
    return monkeypatch


def train(out: str | None = None, epochs: int = 1) -> Run:
    options = {"data": "table.csv", "target": "label", "hidden_sizes": (4,), "epochs": epochs}
    return neuropil.train("mlp", out=out, report=False, show_progress=False, **options)


def cut_short(run: Run) -> None:
    """As if it had been killed before its results were written."""
    rows = [row for row in run.rows if row["kind"] != "result"]
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("out", [None, "run"])
def test_a_launch_that_is_started_again_goes_on_with_its_run(out: str | None, launched: pytest.MonkeyPatch):
    first = train(out)
    cut_short(first)
    weights = (first.folder / "model.safetensors").read_bytes()
    again = train(out)
    assert again.folder == first.folder
    assert again.finished
    assert (first.folder / "model.safetensors").read_bytes() == weights


def test_a_finished_run_is_begun_anew_unless_torchrun_itself_starts_it_again(launched: pytest.MonkeyPatch):
    first, second = train(), train()
    assert second.folder != first.folder
    launched.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert train().folder in (first.folder, second.folder)


def test_neither_another_launch_nor_another_command_goes_on_with_a_run(launched: pytest.MonkeyPatch):
    first = train()
    cut_short(first)
    assert train(epochs=2).folder != first.folder
    launched.setenv("TORCHELASTIC_RUN_ID", "another job")
    assert train().folder != first.folder
    launched.delenv("TORCHELASTIC_RUN_ID")
    assert "launch" not in train().settings


def test_a_folder_that_is_no_run_is_none_that_was_begun(launched: pytest.MonkeyPatch):
    Path("runs/other").mkdir(parents=True)
    Path("runs/other/config.json").write_text("{")
    assert begun_before("neuropil train mlp", None) is None
    assert begun_before("neuropil train mlp", "not there") is None
