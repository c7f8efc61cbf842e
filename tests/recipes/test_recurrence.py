"""Gradients back through time, against wⁿ and against autograd."""

from pathlib import Path

import pytest
import torch

import neuropil
from neuropil.data.corpus.embedded import python_documentation
from neuropil.data.corpus.files import TextDataConfig
from neuropil.inspection.gradients import profile_time
from neuropil.inspection.report.page import Table
from neuropil.recipes.recurrence import (
    CLIPPED,
    EMBEDDING,
    OPEN,
    PLAIN,
    RecurrenceOptions,
    build,
    can_run,
    compare_by_hand,
    new_cell,
    opened,
    read,
    rotating,
)
from neuropil.tasks.study import Study

STEPS, UNITS = 60, 64
SENTENCES = 'It was the "best" of times, it was the (worst) of times.\n' * 60


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("recurrence")
    study = build(options_for(folder), seed=0)
    study.train(folder, show_progress=False)
    return study


def options_for(folder: Path) -> RecurrenceOptions:
    path = folder / "documentation.txt"
    path.write_text(python_documentation()[0][:40_000])
    return RecurrenceOptions(data=TextDataConfig(data=(path,)), hidden_size=UNITS, steps=STEPS, updates=60)


def table(study: Study, title: str) -> dict[str, list[str | float | int]]:
    (section,) = [section for section in study.findings.sections if section.title == title]
    (found,) = [block for block in section.blocks if isinstance(block, Table)]
    return {str(row[0]): list(row[1:]) for row in found.rows}


def test_gradients_by_hand_are_those_of_autograd():
    differences = compare_by_hand(read(SENTENCES, SENTENCES, STEPS, 0), units=12, seed=0)
    assert [row.name for row in differences] == ["V", "W", "U", "b", "c"]
    assert all(row.difference < 1e-12 < row.norm for row in differences)


@pytest.mark.parametrize("w", [0.8, 1.0, 1.25])
def test_an_rnn_with_a_factor_multiplies_the_gradient_by_it_at_each_step(w: float):
    x = torch.randn(4, STEPS, EMBEDDING)
    norms = torch.tensor(profile_time(rotating(w, UNITS, 0), x).norms)
    torch.testing.assert_close(norms / norms[0], w ** torch.arange(float(STEPS)), rtol=0.02, atol=0)


def test_open_gates_keep_the_gradient_of_a_scan_exactly():
    """Without an input the gates of minGRU stand at σ(−5), and each step keeps the rest."""
    cell = opened("mingru", 8, 0)
    norms = torch.tensor(profile_time(cell, torch.zeros(1, STEPS, EMBEDDING)).norms)
    torch.testing.assert_close(
        norms / norms[0], torch.tensor(OPEN).sigmoid() ** torch.arange(float(STEPS)), rtol=1e-3, atol=0
    )


def test_open_gates_keep_what_closed_ones_lose(study: Study):
    kept = {
        result.name: result.metrics["gradient_kept"] for result in study.evaluate() if "gradient_kept" in result.metrics
    }
    for name in ("LSTM", "GRU", "minGRU"):
        assert 0.2 < kept[f"{name}, open gates"] < 5
        assert kept[f"{name}, default initialisation"] < 0.1
    assert kept["RNN, w = 0.8"] == pytest.approx(0.8 ** (STEPS - 1), rel=0.05)
    assert kept["RNN, w = 1.25"] == pytest.approx(1.25 ** (STEPS - 1), rel=0.05)


def test_clipping_helps_against_a_gradient_that_explodes(study: Study):
    losses = {result.name: result.metrics["loss"] for result in study.evaluate() if "loss" in result.metrics}
    assert losses[CLIPPED] < losses[PLAIN] - 0.2


def test_the_formula_counts_what_the_cell_holds(study: Study):
    counts = table(study, "Parameters")
    n, m = UNITS, EMBEDDING
    assert counts["RNN"][1:] == [n + n * n + n * m] * 2
    assert counts["LSTM"][1:] == [4 * (n + n * n + n * m)] * 2
    assert all(row[1] == row[2] for row in counts.values())


def test_every_way_that_a_cell_has_is_timed_and_no_other(study: Study):
    ways = table(study, "How it is run")
    assert {name: [value == "–" for value in row[:3]] for name, row in ways.items()} == {
        "RNN": [False, False, True],
        "LSTM": [False, False, True],
        "GRU": [False, False, True],
        "minGRU": [False, True, False],
    }
    assert [row[3] for row in ways.values()] == ["fused", "fused", "fused", "scan"]
    assert can_run(new_cell("gru", 4, 0), "fused")


def test_timings_are_no_results(study: Study, tmp_path: Path):
    again = build(options_for(tmp_path), seed=0)
    again.train(tmp_path, show_progress=False)
    assert again.evaluate() == study.evaluate()


def test_it_reads_the_users_own_text(tmp_path: Path):
    path = tmp_path / "book.txt"
    path.write_text(SENTENCES)
    run = neuropil.train(
        "recurrence", data=path, hidden_size=8, steps=10, updates=10, out=tmp_path / "run", show_progress=False
    )
    assert "book.txt" in run.settings["facts"]["source"]
