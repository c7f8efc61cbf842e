"""Before a run: what was understood of its data, and how long it will take. It is asked of the command line in a
process of its own, so that data that does not fit into memory ends that process and not the lab."""

import json
import subprocess
import threading
from collections.abc import Mapping
from typing import Any

from neuropil.errors import InputError
from neuropil.lab.forms import FilledForm
from neuropil.lab.queue.job import PREFIX
from neuropil.lab.queue.jobs import PROGRAM

SECONDS = 120.0
NOT_KNOWN = {"seconds": None, "reason": "How long it takes is not known beforehand.", "preview": None}


class Planner:
    """One question at a time: a newer one ends the older, which nobody waits for any more."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def ask(self, form: FilledForm, *, with_data: bool) -> Mapping[str, Any]:
        """`with_data` of a system that learns from examples."""
        if form.command[1] != "train":
            return NOT_KNOWN
        words = [*PROGRAM, *form.command[1:], *(["--check-data"] if with_data else []), "--estimate", "--json"]
        with self.lock:
            if self.process is not None:
                self.process.kill()
            process = subprocess.Popen(  # noqa: S603
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
            )
            self.process = process
        try:
            out, complaint = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return NOT_KNOWN
        return _answer(process.returncode, out, complaint)


def _answer(code: int, out: str, complaint: str) -> Mapping[str, Any]:
    """What could be told, and what was refused where that is all."""
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    preview = next((each for each in found if "understood" in each), None)
    seconds = next((each for each in found if "seconds" in each), None)
    if preview is None and seconds is None and code == 2:
        said = [line for line in complaint.splitlines() if line.startswith(PREFIX)]
        raise InputError(said[-1].removeprefix(PREFIX).removesuffix(".") if said else "this cannot be trained")
    return {**NOT_KNOWN, **({} if seconds is None else seconds), "preview": preview}
