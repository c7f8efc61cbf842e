"""A view of the lab inside a notebook: the lab runs beside it as a process of its own, until the notebook ends."""

import atexit
import html
import json
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from neuropil.errors import InputError, RunError, nearest

HEIGHT = 720
SECONDS = 10.0
"""In which a lab answers that is there."""


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
    known = [each["name"] for each in views_at(lab_of(folder.parent))]
    if view not in known:
        raise InputError("a view must be one of the lab's", got=f"{view!r}", fix=nearest(view, known))
    return LabFrame(f"{lab_of(folder.parent)}#/view/{quote(view)}?run={quote(folder.name)}&embedded=1", height)


def views_at(address: str) -> list[dict[str, Any]]:
    with urlopen(f"{address}api/views", timeout=SECONDS) as answer:  # noqa: S310  # on this machine
        return json.load(answer)


@cache
def lab_of(runs: Path) -> str:
    """The address of the lab that has a folder of runs open, or of one that is started for it."""
    with suppress(OSError, ValueError):
        address = (runs / ".lab" / "address").read_text(encoding="utf-8")
        views_at(address)
        return address
    words = [sys.executable, "-m", "neuropil", "lab", "--runs", str(runs), "--port", "0", "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    atexit.register(process.terminate)
    assert process.stdout is not None  # noqa: S101  # it is a pipe
    found = re.search(r"http://\S+", process.stdout.readline())
    if found is None:
        _, complaint = process.communicate()
        raise RunError("the lab could not be started", got=complaint.strip().removesuffix(".") or "no address")
    return found[0]
