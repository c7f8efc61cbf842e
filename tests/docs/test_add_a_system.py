"""The page that adds two systems does: its files go into a copy of the package, both are trained, and lines counted."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "add-a-system.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r'^```python title="(.*?)"\n(.*?)^```$', PAGE, flags=re.MULTILINE | re.DOTALL)
FILES = {title.removeprefix("src/"): text for title, text in BLOCKS if not title.startswith("in ")}
ROWS = [(title.removeprefix("in src/"), text) for title, text in BLOCKS if title.startswith("in ")]
ENDS = {"neuropil/recipes/__init__.py": "\n)\n\nNETWORK_SYSTEM", "neuropil/metrics.py": "\n)\nMETRICS ="}
"""Where in a file a row is the last of its table."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as it would be after the page."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT / "src" / "neuropil", folder / "neuropil", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name, row in ROWS:
        whole = (folder / name).read_text(encoding="utf-8")
        assert whole.count(ENDS[name]) == 1
        (folder / name).write_text(whole.replace(ENDS[name], f"\n{row.rstrip()}{ENDS[name]}"), encoding="utf-8")
    return folder


def neuropil(package: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(package)}
    command = [sys.executable, "-m", "neuropil", *words]
    answer = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.parametrize(("name", "metric", "least"), [("rbf", "accuracy", 0.9), ("linear_autoencoder", "auroc", 0.95)])
def test_a_system_of_the_page_learns_and_is_opened_again(name: str, metric: str, least: float, package: Path):
    header, own, baseline, *_ = neuropil(package, "train", name, "--out", f"runs/{name}").splitlines()
    column = header.split("\t").index(metric)
    scores = [float(row.split("\t")[column].removesuffix(" %")) / 100 for row in (own, baseline)]
    assert scores[0] > max(least, scores[1] if name == "linear_autoencoder" else 0)
    assert f"neuropil predict runs/{name} FILE" in neuropil(package, "show", f"runs/{name}")
    assert neuropil(package, "resume", f"runs/{name}").splitlines()[1] == own
    assert FILES[f"neuropil/models/{name}.py"].splitlines()[2] in neuropil(package, "show", name)


def test_the_page_says_how_many_lines_they_are():
    lines = {name: len(text.splitlines()) for name, text in FILES.items()}
    task = sum(count for name, count in lines.items() if "/tasks/" in name)
    counted = [
        f"rbf: {lines['neuropil/models/rbf.py']} of the model, {lines['neuropil/recipes/rbf.py']} of the recipe, 1 row",
        f"anomaly detection: {lines['neuropil/models/linear_autoencoder.py']} of the model, {task} of the task, "
        f"{lines['neuropil/recipes/linear_autoencoder.py']} of the recipe, {len(ROWS) - 1} rows",
    ]
    assert f'```text title="lines"\n{chr(10).join(counted)}\n```' in PAGE
    assert all(count <= 45 for name, count in lines.items() if "/recipes/" in name)
