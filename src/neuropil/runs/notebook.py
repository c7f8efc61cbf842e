"""A view of the lab inside a notebook: the lab runs beside it as a process of its own, until the notebook ends."""

import atexit
import html
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from neuropil.errors import RunError

HEIGHT = 720


@dataclass(frozen=True)
class LabFrame:
    """Shown by a notebook as the view itself, elsewhere as its link."""

    address: str
    height: int = HEIGHT

    def __str__(self) -> str:
        return self.address

    def _repr_html_(self) -> str:
        source = html.escape(self.address, quote=True)
        style = "border:1px solid #8884;border-radius:8px"
        return (
            f'<iframe src="{source}" width="100%" height="{self.height}" style="{style}" title="neuropil lab"></iframe>'
        )


def frame(run: Path, view: str, *, height: int = HEIGHT) -> LabFrame:
    folder = run.absolute()
    return LabFrame(f"{lab_of(folder.parent)}#/view/{quote(view)}?run={quote(folder.name)}&embedded=1", height)


@cache
def lab_of(runs: Path) -> str:
    """The address of a lab for a folder of runs, which is started once."""
    words = [sys.executable, "-m", "neuropil", "lab", "--runs", str(runs), "--port", "0", "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    atexit.register(process.terminate)
    assert process.stdout is not None  # noqa: S101  # it is a pipe
    found = re.search(r"http://\S+", process.stdout.readline())
    if found is None:
        _, complaint = process.communicate()
        raise RunError("the lab could not be started", got=complaint.strip().removesuffix(".") or "no address")
    return found[0]
