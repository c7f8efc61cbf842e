"""Stopping a run politely: Ctrl-C and `kill` let the update under way finish and the checkpoint be written."""

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Self


class Interrupted(KeyboardInterrupt):
    """The user stopped a run; all that it needs to go on is saved in `folder`."""

    def __init__(self, folder: Path, step: int | None = None):
        self.folder = folder
        super().__init__("stopped" if step is None else f"stopped at step {step}")


class StopRequest:
    """A context in which the first Ctrl-C only sets `requested`, and the second one stops at once, as usual."""

    def __init__(self) -> None:
        self.requested = False
        # Python lets only the main thread change signal handlers; elsewhere the usual ones stay.
        self.signals = [signal.SIGINT, signal.SIGTERM] if threading.current_thread() is threading.main_thread() else []

    def __enter__(self) -> Self:
        self.previous = {number: signal.signal(number, self._note) for number in self.signals}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
