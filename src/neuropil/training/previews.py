"""What a model makes of a fixed set while it learns, line by line: `previews.jsonl`.

A line is ``{"step": …, "epoch": …, "kind": "pictures" | "texts" | "pairs" | "curves", …}``. Looking changes nothing:
the model is used as in evaluation, and the random numbers of training stay where they are.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from neuropil.errors import NeuropilError
from neuropil.files import append_text, write_text
from neuropil.training.history import read_history

Preview: TypeAlias = Mapping[str, Any]
"""Plain JSON values."""
FILE = "previews.jsonl"
SHARE = 0.03
"""Of the time of training: a preview that would take more is left out."""


class Previews:
    def __init__(self, folder: Path, make: Callable[[], Preview | None], *, step: int):
        """Of a run that stands at `step`; what came after it, before a crash, will be made again."""
        self.path, self.make, self.spent = folder / FILE, make, 0.0
        kept = [line for line in read_history(self.path) if line["step"] <= step] if step else []
        self.made_at = {line["step"] for line in kept}
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))

    def due(self, step: int, elapsed: float, *, last: bool) -> bool:
        """The first and the last are made whatever they cost."""
        return step not in self.made_at and (not self.made_at or last or self.spent <= SHARE * elapsed)

    def add(self, step: int, epoch: float) -> None:
        began = time.monotonic()
        try:
            made = self.make()
        except NeuropilError as error:  # a model that has learned little may have no answer, and goes on learning
            made = {"kind": "none", "reason": str(error)}
        self.made_at.add(step)
        if made is not None:
            append_text(self.path, json.dumps({"step": step, "epoch": epoch, **made}) + "\n")
        self.spent += time.monotonic() - began
