"""Smoothing, attention and a Gaussian process on a row of pixels, and on what a user brings."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import neuropil
from neuropil.errors import InputError
from neuropil.inspection.report.page import Picture, Table, Text
from neuropil.models.gaussian_process import LearnedAttention
from neuropil.recipes.gaussian_process import (
    MOST_POINTS,
    GaussianProcessOptions,
    LeaveOneOut,
    RowBatches,
    build,
    rule_of_thumb,
)
from neuropil.tasks.study import Study


def study_of(folder: Path, **options: Any) -> Study:
    study = build(GaussianProcessOptions(**options), seed=0)
    study.train(folder, show_progress=False)
    return study


def error_of(study: Study, name: str) -> float:
    (result,) = [result for result in study.evaluate() if result.name == name]
    return result.metrics["root_mean_square_error"]


def table_of(study: Study, title: str) -> Table:
    (table,) = [
        block
        for section in study.findings.sections
        if section.title == title
        for block in section.blocks
        if isinstance(block, Table)
    ]
    return table


def write_wave(path: Path, count: int, noise: float = 0.1) -> Path:
    generator = torch.Generator().manual_seed(0)
    x = 10 * torch.rand(count, generator=generator)
    y = 3 + torch.sin(2 * math.pi * x / 2.5) + noise * torch.randn(count, generator=generator)
    rows = [f"{a}\t{b}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    path.write_text("\n".join(["hour\ttide", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def photograph(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_of(tmp_path_factory.mktemp("photograph"))


def test_on_the_photograph_each_step_foretells_better_than_the_one_before(photograph: Study):
    steps = [
        "linear regression",
        "smoothing, fixed kernel",
        "smoothing, length fitted",
        "attention, learned projections",
    ]
    errors = [error_of(photograph, name) for name in steps]
    assert errors == sorted(errors, reverse=True)
    assert error_of(photograph, "Gaussian process") < 0.9 * error_of(photograph, "smoothing, length fitted")


def test_the_band_holds_about_what_it_promises(photograph: Study):
    own = photograph.evaluate()[0]
    assert 0.9 < own.metrics["coverage_share"] < 0.99
    assert math.isfinite(own.metrics["log_likelihood"])


def test_weights_of_attention_are_shares_and_those_of_the_process_are_not(photograph: Study):
    rows = {str(name): (smallest, total) for name, smallest, _, total in table_of(photograph, "Their weights").rows}
    assert rows["smoothing"][1] == rows["attention"][1] == "1 to 1"
    assert str(rows["process"][0]).startswith("−")


def test_with_noise_the_process_becomes_smoothing(photograph: Study):
    differences = [
        float(str(row[-1]).replace("−", "-")) for row in table_of(photograph, "When a process is smoothing").rows
    ]
    assert differences == sorted(differences, reverse=True)
    assert differences[0] > 0.1
    assert differences[-1] < 1e-3


def test_each_projection_is_learned_by_itself_and_its_error_told(photograph: Study):
    (section,) = [each for each in photograph.findings.sections if each.title == "Where W^Q, W^K and W^V enter"]
    words = next(block.text for block in section.blocks if isinstance(block, Text))
    for name in ("none", "W^Q and W^K", "W^V"):
        assert f"{error_of(photograph, f'attention, {name} learned'):.3g} with" in words
    assert error_of(photograph, "attention, W^Q and W^K learned") < error_of(photograph, "attention, none learned")


def test_parameters_that_are_not_learned_stay_as_smoothing_has_them():
    x, y = torch.linspace(0, 4, 9, dtype=torch.double)[:, None], torch.arange(9, dtype=torch.double) ** 2
    (phase,) = LeaveOneOut(LearnedAttention(x, y, 0.6), ("value",)).phases()
    assert set(phase.parameters) == {"value"}


def test_one_operation_is_each_formula(photograph: Study):
    rows = {str(row[0]): float(str(row[-1]).replace("−", "-")) for row in table_of(photograph, "One operation").rows}
    assert set(rows) == {"smoothing", "attention", "process"}
    assert max(rows.values()) < 1e-8


def test_the_report_has_its_five_pictures(photograph: Study):
    drawn = [
        block for section in photograph.findings.sections for block in section.blocks if isinstance(block, Picture)
    ]
    assert len(drawn) == 5


def test_a_table_of_two_columns_is_learned_from_in_its_own_units(tmp_path: Path):
    study = study_of(tmp_path, data=write_wave(tmp_path / "tide.tsv", 120), target="tide", updates=100)
    assert study.facts()["source"] == "120 rows of 1 feature (tide.tsv)"
    assert error_of(study, "Gaussian process") < 0.2
    assert error_of(study, "attention, learned projections") < 0.3
    found = {str(name): str(value) for name, value in table_of(study, "The process").rows}
    assert float(found["deviation of the noise σ"]) == pytest.approx(0.1, rel=0.3)
    assert found["jitter on the diagonal"] == "none"


def test_a_known_period_is_made_use_of(tmp_path: Path):
    data = write_wave(tmp_path / "tide.tsv", 40, noise=0.3)
    study = study_of(tmp_path, data=data, target="tide", kernel="periodic", period=2.5, updates=1)
    assert error_of(study, "Gaussian process") < 0.4  # the noise itself is 0.3


def test_a_length_that_is_given_is_taken(tmp_path: Path):
    study = study_of(tmp_path, data=write_wave(tmp_path / "tide.tsv", 40), target="tide", length=50.0, updates=1)
    assert error_of(study, "smoothing, fixed kernel") == pytest.approx(error_of(study, "always the mean"), rel=0.02)


def test_a_large_table_is_cut_and_says_so(tmp_path: Path):
    study = build(GaussianProcessOptions(data=write_wave(tmp_path / "tide.tsv", 2000), target="tide"), seed=0)
    assert (
        study.facts()["source"]
        == f"2,000 rows of 1 feature (tide.tsv), of which {MOST_POINTS:,} drawn at random are known"
    )


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            "a,b,c\n" + "1,2,3\n4,5,7\n" * 9,
            {"target": "c"},
            "this study needs one column of numbers beside the target, but got 2 beside it: give a file with two "
            "columns.",
        ),
        (
            "a,b\n" + "x,2\ny,5\n" * 9,
            {"target": "b"},
            "this study needs one column of numbers beside the target, but got 18 rows of 2 features (data.csv): "
            "give a file with two columns.",
        ),
        (
            "a,b\n1,2\n2,3\n3,5\n",
            {"target": "b"},
            "this study needs at least 5 points to learn from, but got 2: hold fewer out.",
        ),
        ("a,b\n" + "1,2\n1,5\n" * 9, {"target": "b"}, "'a' must differ between rows, but got 1 in all of them."),
        (
            "a,b\n" + "".join(f"{a},2\n" for a in range(18)),
            {"target": "b"},
            "'b' must differ between rows, but got 2 in all of them.",
        ),
        ("a,b\n1,2\n", {}, "the table data.csv needs a target, the column to predict: choose from a, b."),
        (
            None,
            {"kernel": "boxcar"},
            "a Gaussian process needs a kernel that is positive definite, but got 'boxcar': choose gaussian or matern.",
        ),
        (
            None,
            {"target": "b"},
            "a target is a column of a CSV or TSV, but got 'b' for the embedded photograph: leave it out.",
        ),
        ("a,b\n1,2\n", {"line": 9}, "--line has no effect on data of your own: leave it out."),
    ],
    ids=["three columns", "texts", "too few", "one x", "one y", "no target", "boxcar", "target without data", "line"],
)
def test_what_does_not_fit_gets_its_sentence_and_leaves_no_folder(
    rows: str | None, options: dict[str, Any], message: str, tmp_path: Path
):
    if rows is not None:
        (tmp_path / "data.csv").write_text(rows)
        options = options | {"data": tmp_path / "data.csv"}
    with pytest.raises(InputError) as error:
        neuropil.train("gaussian_process", out=tmp_path / "run", show_progress=False, **options)
    assert str(error.value) == message
    assert not (tmp_path / "run").exists()


def test_leaving_one_out_is_the_error_of_foretelling_from_the_others():
    x, y = torch.linspace(0, 4, 9, dtype=torch.double)[:, None], torch.arange(9, dtype=torch.double) ** 2
    attention = LearnedAttention(x, y, 0.6)
    losses = LeaveOneOut(attention).metrics({"row": torch.tensor([2, 5])})["loss"]
    for row, loss in zip((2, 5), losses.tolist(), strict=True):
        others = [i for i in range(9) if i != row]
        weights = attention.weights(x[row : row + 1])[0, others]
        expected = (weights @ y[others] / weights.sum() - y[row]) / y.std()
        assert loss == pytest.approx(0.5 * expected.item() ** 2)


def test_every_row_comes_once_in_a_pass_and_a_pass_can_be_joined_midway():
    rows = RowBatches(600, seed=1)
    batches = [batch["row"] for batch in rows.epoch(4)]
    assert len(batches) == len(rows) == 3
    assert torch.cat(batches).sort().values.tolist() == list(range(600))
    assert torch.equal(torch.cat([batch["row"] for batch in rows.epoch(4, start=1)]), torch.cat(batches[1:]))
    assert not torch.equal(next(rows.epoch(5))["row"], batches[0])


def test_the_rule_of_thumb_is_silvermans():
    x = np.random.default_rng(0).normal(size=500) * 3
    quartiles = np.quantile(x, [0.25, 0.75])
    expected = 0.9 * min(x.std(ddof=1), (quartiles[1] - quartiles[0]) / 1.34) * 500**-0.2
    assert rule_of_thumb(torch.from_numpy(x)[:, None], "gaussian") == pytest.approx(expected)
