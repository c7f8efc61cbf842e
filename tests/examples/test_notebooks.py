"""The notebooks in examples/ run from top to bottom, in a folder of their own."""

import shutil
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
FAST = ("population",)


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is a process of its own."""
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent / "src"))


def executed(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def outputs(notebook: nbformat.NotebookNode) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.stem in FAST else pytest.mark.slow, id=path.stem) for path in NOTEBOOKS],
)
def test_a_notebook_runs_and_shows_its_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPDATES", "4")
    shutil.copy(EXAMPLES / "network.toml", tmp_path)
    shown = outputs(executed(nbformat.read(path, as_version=4), tmp_path))
    html = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    if "hugging_face" not in path.stem:  # where transformers complains of what a notebook lacks
        assert not [output.text for output in shown if output.get("name") == "stderr"]
        assert any("report.html</a>" in each for each in html)
        assert "" in html  # progress, which is gone at the end
    assert not any("<progress" in each for each in html)
    assert any("image/png" in output.get("data", {}) for output in shown) or path.stem in ("arrays", "gpt2_from_a_text")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs_and_teaches(path: Path):
    notebook = nbformat.read(path, as_version=4)
    assert outputs(notebook) == []
    assert all(cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    assert notebook.cells[0].cell_type == "markdown"
    assert sum(cell.cell_type == "markdown" for cell in notebook.cells) >= 3


def test_progress_is_shown_in_the_cell_and_cleared_at_the_end(tmp_path: Path):
    cell = """
from neuropil.progress import Display
display = Display("a < b").__enter__()
display.update(0.25, "loss 1.5")
with Display("done") as other:
    other.update(0.5)
"""
    shown = outputs(executed(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)]), tmp_path))
    under_way, done = (output.data["text/html"] for output in shown)
    assert under_way.startswith("<b>a &lt; b</b> <progress value=0.250></progress> 25 %  loss 1.5  ")
    assert done == ""


def test_there_are_six():
    assert [path.stem for path in NOTEBOOKS] == [
        "arrays",
        "attention_of_a_hugging_face_model",
        "forecast",
        "gpt2_from_a_text",
        "population",
        "spiking_network",
    ]
