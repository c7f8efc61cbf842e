"""What a person sees while a run is under way: a live bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_UPDATES = 0.1


class Display:
    """Use as a context. `share` is how much of the run is done, from 0 to 1; `figures` are the numbers to show."""

    def __init__(self, title: str, *, show: bool = True):
        self.title, self.show = title, show
        self.console = Console(file=sys.stderr)
        self.bar: Progress | None = None
        self.task = TaskID(0)
        self.started = self.last = time.monotonic()

    def __enter__(self) -> Self:
        if self.show and self.console.is_terminal:
            self.bar = Progress(
                SpinnerColumn(),
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:3.0f} %"),
                TextColumn("{task.fields[figures]}"),
                TextColumn("left"),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                console=self.console,
                transient=True,
                expand=True,
            )
            self.task = self.bar.add_task(self.title, total=1.0, figures="")
            self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def due(self) -> bool:
        """Whether it is time to show something new; ask before composing the figures."""
        pause = SECONDS_BETWEEN_UPDATES if self.bar is not None else SECONDS_BETWEEN_LINES
        return self.show and time.monotonic() - self.last >= pause

    def update(self, share: float, figures: str) -> None:
        self.last = time.monotonic()
        if self.bar is not None:
            self.bar.update(self.task, completed=share, figures=figures)
        elif self.show:
            seconds_left = (self.last - self.started) * (1 - share) / max(share, 1e-9)
            line = f"{self.title}: {100 * share:.0f} %  {figures}  {seconds_left:,.0f} s left"
            self.console.print(line, highlight=False, soft_wrap=True)
