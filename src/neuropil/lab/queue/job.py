"""One run of the queue: what is written of it on disk, and how it ended.

RUNS/.lab/jobs/ID.json      this record          ID.log       what the process printed
                                                 ID.progress  how far it is
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from neuropil.errors import RunError
from neuropil.files import write_text
from neuropil.runs.listing import list_run

JobState: TypeAlias = Literal[
    "queued",
    "running",
    "pausing",
    "stopping",
    "paused",
    "finished",
    "stopped",
    "refused",
    "failed",
    "killed",
]
ACTIVE: tuple[JobState, ...] = ("running", "pausing", "stopping")
ENDED: tuple[JobState, ...] = ("finished", "stopped", "refused", "failed", "killed")
PREFIX = "neuropil: "
"""Before the one sentence that the command line ends with."""
LAST_LINES, LAST_BYTES = 15, 20_000
INTERRUPTED = (130, -2, -15)
"""Exit codes of Ctrl-C and of `kill`."""
NO_MEMORY = "the system ended the process, as it does when memory runs out: choose a smaller model or smaller batches"


@dataclass
class Job:
    """`run` is the name of its folder; `command` are the words that start it, without that folder. `place` orders the
    queue. A process is known by its number and by when it began."""

    id: str
    system: str
    run: str
    command: list[str]
    created: float
    place: float
    state: JobState = "queued"
    reason: str = ""
    started: float | None = None
    ended: float | None = None
    asked: float | None = None
    """When it was told to stop, by the monotonic clock of the machine, which nobody sets; its process is gone with the
    machine's next start too."""
    pid: int | None = None
    began: str | None = None

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{each.name: values[each.name] for each in fields(cls)})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} must be the JSON that neuropil wrote", got=f"a damaged file ({error})") from error

    def write(self, folder: Path) -> None:
        write_text(folder / f"{self.id}.json", json.dumps(self.to_dict(), indent=2) + "\n")


class Outcome(NamedTuple):
    state: JobState
    reason: str


def outcome(job: Job, code: int | None, log: Path, folder: Path) -> Outcome:
    """How it ended. The exit code is not known where an earlier lab had started the process; what it printed last and
    what it left tell as much."""
    last = last_lines(log)
    words = last[-1] if last else ""
    sentence = words.removeprefix(PREFIX) if words.startswith(PREFIX) else ""
    if code is None:
        code = _inferred(sentence, last, folder)
    if code == 0:
        return Outcome("finished", "")
    if job.state == "stopping":
        return Outcome("stopped", "")
    if code in INTERRUPTED:
        return Outcome("paused", "" if job.state == "pausing" else "it was interrupted from outside")
    if code in (-9, 137):
        return Outcome("killed", NO_MEMORY)
    if code == 2 and sentence:
        return Outcome("refused", sentence)
    return Outcome("failed", sentence or "\n".join(last) or f"it ended with exit code {code}")


def _inferred(sentence: str, last: list[str], folder: Path) -> int:
    if (
        (folder / "config.json").is_file()
        and list_run(folder).state == "finished"
        and (folder / "report.html").is_file()
    ):
        return 0
    if sentence.startswith("stopped"):
        return 130
    if sentence:  # what is refused before a run began leaves no folder
        return 1 if folder.exists() else 2
    return 1 if any(line.startswith("Traceback ") for line in last) else -9


def last_lines(log: Path, most: int = LAST_LINES) -> list[str]:
    """Of the last error where there is one: all of it that fits."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LAST_BYTES))
            lines = file.read().decode("utf-8", errors="replace").rstrip().splitlines()
    except OSError:
        return []
    return lines[-most:]


def read_progress(path: Path) -> Mapping[str, Any] | None:
    """What a display wrote; none before it has, or where it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
