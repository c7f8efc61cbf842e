"""A process that trains trials: `python -m neuropil.runs.tuning.worker FOLDER THREADS`.

It reads one JSON object a line: a trial to train, and after each of its reports whether to go on. When the process that
searches is no more, its pipe ends, and so does this: nobody else would write into the folder of a trial then.
"""

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import torch

from neuropil.data.formats.memory_file import read_memory
from neuropil.errors import StorageError
from neuropil.progress import PROGRESS
from neuropil.runs.planned import PlannedRun
from neuropil.runs.tuning.folder import DATA, Tuning, progress_file
from neuropil.runs.tuning.trial import TrialEnd, train_trial, trial_options
from neuropil.training.search import Point, Trial, TrialState

EXPENDABLE = "500"
"""Where memory runs out, Linux kills this process rather than the one that searches."""


class _Line:
    """To the process that searches."""

    def __init__(self, incoming: TextIO, outgoing: TextIO):
        self.incoming, self.outgoing, self.messages = incoming, outgoing, queue.SimpleQueue[Any]()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.incoming:
            self.messages.put(json.loads(line))
        os._exit(1)  # the search was killed; what it would write now, another may write already

    def send(self, **message: Any) -> None:
        self.outgoing.write(f"{json.dumps(message)}\n")
        self.outgoing.flush()

    def receive(self) -> Mapping[str, Any]:
        return self.messages.get()


def train_trials(tuning: Tuning, plan: PlannedRun, line: _Line) -> None:
    while True:
        job = line.receive()
        trial = Trial.from_dict(job["trial"])
        folder = tuning.trial_folder(trial.number)
        progress = progress_file(folder)
        progress.parent.mkdir(parents=True, exist_ok=True)
        os.environ[PROGRESS] = str(progress)
        try:
            end = _trained(tuning, plan, trial, folder, line, show_progress=job["show_progress"])
        except KeyboardInterrupt:  # it was asked to stop, and has saved its checkpoint
            line.send(stopped=True)
            return
        except StorageError as error:  # which ends the search, as other trials would not have room either
            line.send(refused=[error.rule, error.got, error.fix])
            return
        finally:
            progress.unlink(missing_ok=True)
        line.send(state=end.state, reason=end.reason)


def _trained(
    tuning: Tuning, plan: PlannedRun, trial: Trial, folder: Path, line: _Line, *, show_progress: bool
) -> TrialEnd:
    def report(points: Sequence[Point], share: float) -> TrialState | None:
        line.send(points=points, share=share)
        return line.receive()["end"]

    settings, shown = tuning.settings, {"title": f"trial {trial.number}", "show_progress": show_progress}
    try:
        options = trial_options(plan, trial.options, settings["seconds"])
        return train_trial(plan, options, folder, settings["metric"], report, **shown)
    except StorageError:
        raise
    except Exception as error:  # a fault of ours ends one trial, and not the search
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}, line {frame.lineno}"
        return TrialEnd("failed", f"{type(error).__name__}: {error} ({where})")


def main() -> None:
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    # Whatever else is printed here must not come between the lines of the protocol.
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(EXPENDABLE)
    torch.set_num_threads(threads)
    line, tuning = _Line(sys.stdin, outgoing), Tuning.load(folder)
    data = folder / DATA
    train_trials(tuning, tuning.plan(read_memory(data) if data.exists() else None), line)


if __name__ == "__main__":
    main()
