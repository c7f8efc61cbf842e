"""The expression graph in a report, and networks that learn by it."""

import base64
import hashlib
import re
from pathlib import Path

import pytest

import neuropil
from neuropil.inspection.report.page import Html, Table
from neuropil.recipes.autodiff import AutodiffOptions, build
from neuropil.runs.run import Run
from neuropil.tasks.study import Study


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return neuropil.train(
        "autodiff", out=tmp_path_factory.mktemp("autodiff") / "run", show_progress=False, epochs=4, pixels=30
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = build(AutodiffOptions(epochs=1, pixels=5, x=0.3, w=2.0, b=-0.4), seed=0)
    study.train(tmp_path_factory.mktemp("autodiff"), show_progress=False)
    return study


def test_gradients_agree_with_difference_quotients(study: Study):
    (table,) = [block for block in study.findings.sections[0].blocks if isinstance(block, Table)]
    assert [row[0] for row in table.rows] == ["∂f/∂x", "∂f/∂w", "∂f/∂b"]
    assert all(float(str(apart)) < 1e-8 for *_, apart in table.rows)


def test_each_op_of_the_expression_is_one_frame(study: Study):
    (frames,) = [block.markup for block in study.findings.sections[1].blocks if isinstance(block, Html)]
    assert re.findall(r"<figcaption>(.*?)</figcaption>", frames) == [
        "step 1: mul",
        "step 2: tanh",
        "step 3: add",
        "step 4: mul",
    ]


def test_a_network_that_reads_pixels_one_by_one_has_twelve_nodes_for_each(run: Run):
    (count,) = {
        int(number.replace(",", "")) for number in re.findall(r"a graph of ([\d,]+) nodes", run.report.read_text())
    }
    assert count == 12 * 30 + 13


def test_the_whole_graph_stands_beside_the_report(run: Run):
    assert (run.folder / "graph.svg").read_text().startswith("<svg")


def test_the_browser_is_allowed_to_run_the_scripts_of_the_drawings(run: Run):
    """A page's policy names the hash of every script as the browser sees it, without the CDATA marks around it."""
    page = run.report.read_text()
    scripts = re.findall(r"<script><!\[CDATA\[(.*?)\]\]></script>", page, flags=re.DOTALL)
    assert scripts
    for script in scripts:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in page


def test_four_networks_learn_and_stand_beside_a_linear_model(run: Run):
    accuracy = {result.name: result.metrics["accuracy"] for result in run.results}
    assert list(accuracy)[:5] == ["mlp", "logistic regression", "cnn", "rnn", "attention head"]
    assert all(accuracy[name] > 0.8 for name in ("mlp", "cnn", "rnn", "attention head"))


@pytest.mark.slow
def test_with_its_defaults_the_graph_is_large_and_the_networks_are_good(tmp_path: Path):
    run = neuropil.train("autodiff", out=tmp_path / "run", show_progress=False)
    accuracy = {result.name: result.metrics["accuracy"] for result in run.results}
    assert all(
        accuracy[name] > accuracy["logistic regression"] - 0.01 for name in ("mlp", "cnn", "rnn", "attention head")
    )
    (count,) = {
        int(number.replace(",", "")) for number in re.findall(r"a graph of ([\d,]+) nodes", run.report.read_text())
    }
    assert count > 3000
