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
BLOCKS = re.findall(r'^```(?:python|text) title="(.*?/.*?)"\n(.*?)^```$', PAGE, flags=re.MULTILINE | re.DOTALL)
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


BREAK = "--- the next command ---"


def neuropil(package: Path, *commands: str) -> list[str]:
    """What each command prints; they share a process, which takes longer to start than they do to run."""
    program = f"from neuropil.cli import main\nfor words in {commands!r}: main(words.split()); print({BREAK!r})"
    environment = os.environ | {"PYTHONPATH": str(package)}
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=package, env=environment, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split(f"{BREAK}\n")[:-1]


@pytest.mark.parametrize(("name", "metric", "least"), [("rbf", "accuracy", 0.9), ("linear_autoencoder", "auroc", 0.95)])
def test_a_system_of_the_page_learns_and_is_opened_again(name: str, metric: str, least: float, package: Path):
    (trained,) = neuropil(package, f"train {name} --out runs/{name}")
    header, own, baseline, *_ = trained.splitlines()
    column = header.split("\t").index(metric)
    scores = [float(row.split("\t")[column].removesuffix(" %")) / 100 for row in (own, baseline)]
    assert scores[0] > max(least, scores[1] if name == "linear_autoencoder" else 0)
    shown, resumed, explained = neuropil(package, f"show runs/{name}", f"resume runs/{name}", f"show {name}")
    assert f"neuropil predict runs/{name} FILE" in shown
    assert resumed.splitlines()[1] == own
    assert FILES[f"neuropil/models/{name}.py"].splitlines()[2] in explained


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
