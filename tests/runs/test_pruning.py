"""`neuropil prune`: heads go, what is left is a run like any other."""

from pathlib import Path
from typing import Any

import pytest

import neuropil
from neuropil.cli import main
from neuropil.errors import InputError, RunError
from neuropil.parts.multi_head import heads_of
from neuropil.runs.pruning import parse_share, prune
from neuropil.runs.run import Run
from neuropil.runs.start import rewrite_report
from tasks.translated_dates import train_small


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_small(tmp_path_factory.mktemp("pruned"))


@pytest.mark.parametrize("by", ["gradient", "leave_one_out"])
def test_a_pruned_run_is_smaller_and_works_like_any_other(run: Run, tmp_path: Path, by):
    pruned = prune(run, "50%", by=by, out=tmp_path / "pruned", show_progress=False)
    again = neuropil.load(pruned.folder)
    assert sum(again.settings["facts"]["model"]["kept_heads"]) == 3
    assert again.evaluate() == again.metrics
    assert isinstance(again.translate("5 November 2026"), str)
    assert (pruned.folder / "model.safetensors").stat().st_size < (run.folder / "model.safetensors").stat().st_size
    assert "What each head is worth" in pruned.report.read_text()
    assert [result.name for result in again.results] == ["transformer, 3 heads removed", "transformer, all heads"]
    assert dict(again.results[1].metrics) == run.metrics


SMALL: dict[str, dict[str, Any]] = {
    "gpt2": {
        "width": 16,
        "heads": 2,
        "layers": 2,
        "feed_forward": 16,
        "context": 32,
        "vocabulary_size": 300,
        "epochs": 1,
    },
    "bert": {
        "width": 16,
        "heads": 2,
        "layers": 2,
        "feed_forward": 16,
        "context": 32,
        "vocabulary_size": 300,
        "epochs": 1,
    },
    "vit": {"width": 16, "heads": 2, "layers": 2, "epochs": 1},
    "clip": {
        "vision_width": 16,
        "vision_heads": 2,
        "vision_layers": 2,
        "text_width": 16,
        "text_heads": 2,
        "text_layers": 2,
        "scenes": 300,
        "epochs": 1,
    },
}


@pytest.mark.parametrize("name", SMALL)
def test_every_model_that_attends_can_be_pruned_as_a_run(name: str, tmp_path: Path):
    given: dict[str, Any] = {}
    if name in ("gpt2", "bert"):
        (tmp_path / "book.txt").write_text("The cat sat on the mat, and the dog sat on the log. " * 80)
        given = {"data": tmp_path / "book.txt"}
    run = neuropil.train(name, out=tmp_path / "run", report=False, show_progress=False, **(SMALL[name] | given))
    pruned = prune(run, "50%", out=tmp_path / "pruned", show_progress=False)
    again = neuropil.load(pruned.folder)
    heads = sum(attention.heads for attention in heads_of(run.model).values())
    assert sum(attention.heads for attention in heads_of(again.model).values()) == heads // 2
    assert again.evaluate() == pytest.approx(again.metrics)


def test_a_pruned_run_can_be_pruned_again_until_no_head_is_left(run: Run, tmp_path: Path):
    once = prune(run, "2", out=tmp_path / "once", show_progress=False)
    none = prune(once, "100%", out=tmp_path / "none", show_progress=False)
    assert neuropil.load(none.folder).evaluate() == none.metrics
    assert sum(none.settings["facts"]["model"]["kept_heads"]) == 0


def test_the_command_makes_a_folder_beside_the_run(run: Run, capsys: pytest.CaptureFixture[str]):
    main(["prune", str(run.folder), "--heads", "1"])
    assert (run.folder.parent / "run-pruned" / "report.html").exists()
    assert "transformer, 1 head removed" in capsys.readouterr().out


def test_the_report_of_a_pruned_run_is_not_made_by_training_it_anew(run: Run, tmp_path: Path):
    pruned = prune(run, "1", out=tmp_path / "pruned", show_progress=False)
    with pytest.raises(RunError) as error:
        rewrite_report(pruned.folder)
    assert str(error.value) == (
        f"the report of a pruned run is written by neuropil prune, but got {str(pruned.folder)!r}: prune the first "
        "run again."
    )


def test_a_model_without_heads_is_refused(tmp_path: Path):
    run = neuropil.train("mlp", hidden_sizes=(4,), epochs=1, out=tmp_path / "run", report=False, show_progress=False)
    with pytest.raises(RunError) as error:
        prune(run, "50%")
    assert (
        str(error.value)
        == f"{run.folder} must hold a model with attention heads, but got a run of mlp: prune a transformer."
    )


@pytest.mark.parametrize(("text", "count"), [("50%", 6), ("0%", 0), ("100 %", 12), ("7", 7), ("0", 0), ("33.4%", 4)])
def test_a_share_or_a_number_of_heads(text: str, count: int):
    assert parse_share(text, 12) == count


@pytest.mark.parametrize("text", ["half", "120%", "-1", "13", "1.5", "", "nan%"])
def test_other_amounts_are_refused(text: str):
    with pytest.raises(InputError) as error:
        parse_share(text, 12)
    assert str(error.value) == f"heads must be a share such as 50% or a number from 0 to 12, but got {text!r}."
