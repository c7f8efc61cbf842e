"""A forward pass of a run, whose numbers are those that the run predicts."""

from pathlib import Path

import pytest
import torch

import neuropil
from neuropil.errors import InputError, RunError
from neuropil.inspection.products.opened import NumberPlace
from neuropil.runs.products import trace_run
from neuropil.runs.run import Run


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("table")
    rows = [f"{number},{number % 7},{3 * number + 100}" for number in range(60)]
    (folder / "table.csv").write_text("\n".join(["a,b,price", *rows]), encoding="utf-8")
    options = {"target": "price", "hidden_sizes": (4,), "epochs": 1, "show_progress": False, "report": False}
    return neuropil.train("mlp", data=folder / "table.csv", out=folder / "run", **options)


def test_numbers_to_predict_are_opened_in_their_own_units(regression: Run, tmp_path: Path):
    (tmp_path / "one.csv").write_text("a,b\n5,2\n", encoding="utf-8")
    found = trace_run(regression, tmp_path / "one.csv")
    last = list(found.traced.stages.values())[-1]
    offset = regression.predictor.schema.target_offset
    assert last.name == "outputs"
    assert regression.predict(tmp_path / "one.csv").values[0].item() == pytest.approx(last.values[0].item() + offset)
    assert (found.tokens, found.class_name(0)) == ((), "price")
    opened = found.traced.open(NumberPlace("outputs", (0,)))
    assert opened.recomputed() == pytest.approx(opened.value)


def test_several_examples_are_refused(regression: Run, tmp_path: Path):
    (tmp_path / "two.csv").write_text("a,b\n5,2\n6,3\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        trace_run(regression, tmp_path / "two.csv")
    assert str(error.value) == "the numbers of one example are opened, but got 2 examples."


def test_other_models_are_refused(tmp_path: Path):
    run = neuropil.train("hopfield", out=tmp_path / "run", show_progress=False, report=False)
    with pytest.raises(RunError) as error:
        trace_run(run, torch.zeros(1, 1, 8, 8))
    assert str(error.value) == (
        f"{tmp_path / 'run'} must hold a model whose numbers can be opened, but got a run of hopfield: train an mlp."
    )
