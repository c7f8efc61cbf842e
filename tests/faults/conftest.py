"""Disks that are small or read-only for as long as a test takes, and processes that are killed."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kill_points import KillPoints

Mount = Callable[[str], Path]
IMPORTS = """
import warnings
warnings.filterwarnings("error")
import neuropil.runs.start, neuropil.runs.trash, neuropil.runs.tuning.folder
import neuropil.recipes.mlp, neuropil.tasks.classification.report, sklearn.linear_model
import neuropil.lab.queue.job, neuropil.lab.uploads, neuropil.data.tokenizers.learned
"""


@pytest.fixture(scope="session")
def mortal() -> Iterator[KillPoints]:
    with KillPoints(IMPORTS) as server:
        yield server


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a new file system in memory, with options such as size=20k; called again, changes them."""
    folder, mounted = tmp_path / "disk", False

    def mount(options: str) -> Path:
        nonlocal mounted
        folder.mkdir(exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"remount,{options}" if mounted else options, "neuropil", str(folder)]
        made = subprocess.run(words, capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"no right to mount a file system: {made.stderr.strip()}")
        mounted = True
        return folder

    if shutil.which("mount") is None:
        pytest.skip("no program to mount a file system with")
    yield mount
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)
