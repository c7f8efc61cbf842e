"""What a run measured, row by row: `metrics.jsonl`, and TensorBoard when it is asked for.

A training row is ``{"kind": "train", "step": …, "epoch": …, "loss": …, …}``; a validation row the learner's metrics.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from neuropil.errors import RunError, counted
from neuropil.extras import require_extra
from neuropil.files import append_text, sync, write_text

Row = dict[str, Any]
Watch: TypeAlias = Callable[[Sequence[Row], float], None]
"""Called after each validation with all rows so far and the share of the run that is done; what it raises ends the run.
"""


def read_history(path: Path) -> list[Row]:
    """The rows of a `metrics.jsonl`, or of another file that training adds to. That of a live or killed run may end in
    half a line, which is no row yet; results are written all at once."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    rows = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.endswith(b"\n")]
    if len(rows) < len(lines) and any(row["kind"] == "result" for row in rows):
        raise _damaged(path, len(lines))
    return rows


def _row(path: Path, number: int, line: bytes) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not _is_row(row):
        raise _damaged(path, number)
    return row


def _damaged(path: Path, number: int) -> RunError:
    got, fix = f"line {number}, which is damaged", "restore the file or remove the line"
    return RunError(f"{path} must hold the JSON that neuropil wrote on each line", got=got, fix=fix)


def _is_row(row: Any) -> TypeGuard[Row]:
    """Results have a name, and numbers beside it."""
    if not isinstance(row, dict) or not isinstance(row.get("kind"), str) or not isinstance(row.get("step"), int):
        return False
    numbers = [value for key, value in row.items() if key not in ("kind", "name")]
    named = isinstance(row.get("name"), str) and all(isinstance(value, int | float) for value in numbers)
    return row["kind"] != "result" or named


class History:
    def __init__(self, folder: Path, *, step: int, rows: int | None = None, tensorboard: bool, writes: bool = True):
        """The history of a run that stands at `step`, by its checkpoint, which was written after so many rows; later
        ones, from before a crash, will be written again. An older checkpoint does not count them. What does not write,
        beside a process that does, only keeps its rows."""
        self.path, self.writes = folder / "metrics.jsonl", writes
        found = [row for row in read_history(self.path) if row["step"] <= step] if step and writes else []
        measured, results = [[row for row in found if (row["kind"] == "result") is kind] for kind in (False, True)]
        if writes and rows is not None and len(measured) < rows:
            rule = f"{self.path} must hold the {counted(rows, 'row')} that its checkpoint counts"
            raise RunError(rule, got=f"{len(measured)}", fix="restore it, or remove the checkpoint to train anew")
        self.rows = measured[:rows] + results
        if writes:
            write_text(self.path, "".join(json.dumps(row) + "\n" for row in self.rows))
        self.tensorboard = _tensorboard_writer(folder / "tensorboard", step) if tensorboard and writes else None

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if not self.writes:
            return
        append_text(self.path, json.dumps(row) + "\n")
        if self.tensorboard is not None:
            for name, value in row.items():
                if name not in ("kind", "step"):
                    self.tensorboard.add_scalar(f"{row['kind']}/{name}", value, row["step"])

    def sync(self) -> int:
        """How many rows there are, all of them on the disk."""
        if self.writes:
            sync(self.path)
        return len(self.rows)

    def close(self) -> None:
        if self.tensorboard is not None:
            self.tensorboard.close()


def _tensorboard_writer(folder: Path, step: int) -> Any:
    require_extra("tensorboard", "tensorboard=True")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step or None)
