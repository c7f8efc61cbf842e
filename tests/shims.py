"""What the system says otherwise than it does: C functions that a process finds before those of its library."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def preloaded(code: str, folder: Path) -> dict[str, str]:
    """The environment of a process in which these functions are the first to be found."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not Path("/proc/self/maps").exists():
        pytest.skip("no C compiler, or no Linux")
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(code)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(library)}
