"""What a run measured, row by row: `metrics.jsonl`, and TensorBoard when it is asked for.

A training row is ``{"kind": "train", "step": …, "epoch": …, "loss": …, …}``; a validation row the learner's metrics.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from neuropil.errors import InputError, RunError
from neuropil.files import write_text

Row = dict[str, Any]
Watch: TypeAlias = Callable[[Sequence[Row], float], None]
"""Called after each validation with all rows so far and the share of the run that is done; what it raises ends the run.
"""


def read_history(path: Path) -> list[Row]:
    """The rows of a `metrics.jsonl`, or of another file that training adds to. That of a live or killed run may end in
    half a line, which is no row yet."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [_row(path, number, line) for number, line in enumerate(lines, 1) if line.endswith(b"\n")]


def _row(path: Path, number: int, line: bytes) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not _is_row(row):
        got, fix = f"line {number}, which is damaged", "restore the file or remove the line"
        raise RunError(f"{path} must hold the JSON that neuropil wrote on each line", got=got, fix=fix)
    return row


def _is_row(row: Any) -> TypeGuard[Row]:
    """Results have a name, and numbers beside it."""
    if not isinstance(row, dict) or not isinstance(row.get("kind"), str) or not isinstance(row.get("step"), int):
        return False
    numbers = [value for key, value in row.items() if key not in ("kind", "name")]
    named = isinstance(row.get("name"), str) and all(isinstance(value, int | float) for value in numbers)
    return row["kind"] != "result" or named


class History:
    def __init__(self, folder: Path, *, step: int, tensorboard: bool):
        """The history of a run that stands at `step`; rows after it, from before a crash, will be written again."""
        self.path = folder / "metrics.jsonl"
        self.rows = [row for row in read_history(self.path) if row["step"] <= step] if step else []
        write_text(self.path, "".join(json.dumps(row) + "\n" for row in self.rows))
        self.tensorboard = _tensorboard_writer(folder / "tensorboard", step) if tensorboard else None

    def add(self, row: Row) -> None:
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self.tensorboard is not None:
            for name, value in row.items():
                if name not in ("kind", "step"):
                    self.tensorboard.add_scalar(f"{row['kind']}/{name}", value, row["step"])

    def close(self) -> None:
        if self.tensorboard is not None:
            self.tensorboard.close()


def _tensorboard_writer(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        rule, fix = "tensorboard=True needs the tensorboard package", "pip install 'neuropil[tensorboard]'"
        raise InputError(rule, got="an environment without it", fix=fix) from error
    return SummaryWriter(str(folder), purge_step=step or None)
