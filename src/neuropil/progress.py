"""What a person sees while something is under way: a live bar on a terminal or in a notebook, plain lines elsewhere.

A program that started this one may follow it too: in the file that the environment variable NEUROPIL_PROGRESS names
stands what is being done, its share, the seconds that are left and the latest figures, as one JSON object.
"""

import functools
import html
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")
SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_UPDATES = 0.1
SECONDS_BETWEEN_WRITES = 0.5
SHORTEST_BAR = 10
PROGRESS = "NEUROPIL_PROGRESS"
"""The environment variable that names the file to write."""
PATIENCE = 2.0
"""Seconds after which `tracked` shows a display."""


@functools.cache
def console() -> "Console":
    """One for all that is shown at the same time. It is imported when something is."""
    from rich.console import Console

    return Console(stderr=True)


def is_heard() -> bool:
    """Of the processes that torchrun has started, the first alone shows and says something."""
    return "WORLD_SIZE" not in os.environ or os.environ.get("RANK", "0") == "0"


class Display:
    """Use as a context, and `update` it."""

    def __init__(self, title: str, *, show: bool = True):
        show = show and is_heard()
        self.title, self.show = title, show
        self.bar: Any = None  # of rich, on a terminal
        self.task: Any = None
        self.tasks: dict[str, Any] = {}  # of parts
        self.cell: Any = None  # the place for output in a notebook
        self.last = self.printed = time.monotonic()
        self.begun = 0.0, self.last
        self.file = Path(os.environ[PROGRESS]) if show and os.environ.get(PROGRESS) else None

    def __enter__(self) -> Self:
        self._write(None, {})
        if self.show and console().is_terminal:
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

            columns = SpinnerColumn(), TextColumn("[bold]{task.description}"), BarColumn(bar_width=None)
            self.bar = Progress(
                *columns, TextColumn("{task.fields[line]}"), console=console(), transient=True, expand=True
            )
            self.task = self.bar.add_task(self.title, total=None, line="")
            self.bar.start()
        elif self.show and console().is_jupyter:
            from IPython import display

            self.cell = display.display(display.HTML(""), display_id=True)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        elif self.cell is not None:
            from IPython import display

            self.cell.update(display.HTML(""))

    @property
    def live(self) -> bool:
        """Whether what is shown can be replaced."""
        return self.bar is not None or self.cell is not None

    def begin(self, share: float) -> None:
        """A run that is resumed had a part done before, in no time of this display's."""
        self.begun = share, time.monotonic()

    def rename(self, title: str) -> None:
        self.title = title
        if self.bar is not None:
            self.bar.update(self.task, description=title)

    def due(self) -> bool:
        """Whether it is time to show something new; ask before composing the figures."""
        pause = SECONDS_BETWEEN_LINES if self.file is None else SECONDS_BETWEEN_WRITES
        pause = SECONDS_BETWEEN_UPDATES if self.live else pause
        return self.show and time.monotonic() - self.last >= pause

    def update(
        self,
        share: float | None,
        *figures: str,
        numbers: Mapping[str, float] | None = None,
        parts: Mapping[str, float] | None = None,
    ) -> None:
        """`share` is how much is done, from 0 to 1, where that is known. `figures` are what else to show, the most
        important first: what does not fit on the terminal is left out. `parts` are under way at once, each with its own
        share, and on a terminal its own bar. `numbers` are for a program that follows."""
        self.last = time.monotonic()
        self._write(share, numbers or {})
        if self.bar is not None:
            self._show_parts(parts or {})
        else:
            figures = (*figures, *(f"{name} {100 * part:.0f} %" for name, part in (parts or {}).items()))
        known = [self._elapsed()] if share is None else [f"{100 * min(share, 1):.0f} %", self._left(share)]
        if self.bar is not None:
            room = console().width - len(self.title) - SHORTEST_BAR - 6  # a spinner, and a space between columns
            self.bar.update(
                self.task,
                completed=share,
                total=None if share is None else 1.0,
                line="  ".join(fitting(known, figures, room)),
            )
        elif self.cell is not None:
            from IPython import display

            bar = "<progress></progress>" if share is None else f"<progress value={share:.3f}></progress>"
            words = html.escape("  ".join(fitting(known, figures, 120)))
            self.cell.update(display.HTML(f"<b>{html.escape(self.title)}</b> {bar} {words}"))
        elif self.show and (self.file is None or self.last - self.printed >= SECONDS_BETWEEN_LINES):
            self.printed = self.last
            line = f"{self.title}: {'  '.join(fitting(known, figures, 1000))}"
            console().print(line, highlight=False, soft_wrap=True)

    def _show_parts(self, parts: Mapping[str, float]) -> None:
        for name in self.tasks.keys() - parts.keys():
            self.bar.remove_task(self.tasks.pop(name))
        for name, share in parts.items():
            if name not in self.tasks:
                self.tasks[name] = self.bar.add_task(f"  {name}", total=1.0, line="")
            self.bar.update(self.tasks[name], completed=share, line=f"{100 * share:.0f} %")

    def say(self, sentence: str) -> None:
        """A line that stays."""
        if self.show:
            console().print(f"{self.title}: {sentence}", highlight=False, soft_wrap=True)

    def _elapsed(self) -> str:
        return duration(self.last - self.begun[1])

    def _left(self, share: float) -> str:
        seconds = self._seconds_left(share)
        return "? left" if seconds is None else f"{duration(seconds)} left"

    def _seconds_left(self, share: float) -> float | None:
        done, seconds = share - self.begun[0], self.last - self.begun[1]
        return seconds * max(0.0, 1 - share) / done if done > 0 else None

    def _write(self, share: float | None, numbers: Mapping[str, float]) -> None:
        if self.file is None:
            return
        left = None if share is None else self._seconds_left(share)
        known = {name: value for name, value in numbers.items() if math.isfinite(value)}
        content = {"title": self.title, "share": share, "seconds_left": left, "numbers": known}
        # Not `files.replacing`, which waits for the disk: whoever follows a run asks for what is newest.
        part = self.file.with_name(f".{self.file.name}.{threading.get_ident() % 2**32:08x}.part")
        with suppress(OSError):  # no run ends because nobody can follow it
            part.write_text(json.dumps(content), encoding="utf-8")
            part.replace(self.file)


class Stages:
    """One display for work of several stages, each with a share of its own, of which its title tells the number and the
    name; use as a context. It is shown only where the work takes long."""

    def __init__(self, title: str, *, show: bool = True):
        self.display, self.began, self.shown = Display(title, show=show), time.monotonic(), False
        self.title, self.number = title, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.shown:
            self.display.__exit__(*exception)

    def begin(self, name: str) -> Callable[[float], None]:
        """What the next stage is told its share by."""
        self.number += 1
        self.display.begin(0.0)
        self.display.rename(f"{self.title}, stage {self.number} ({name})")

        def update(share: float) -> None:
            if not self.shown and time.monotonic() - self.began > PATIENCE:
                self.display.__enter__()
                self.shown = True
            if self.shown and self.display.due():
                self.display.update(share)

        return update


def fitting(known: Sequence[str], figures: Sequence[str], room: int) -> list[str]:
    """What is always known, and between its first and last as many figures as there is room for."""
    shown: list[str] = []
    for figure in figures:
        if len("  ".join([*known, *shown, figure])) > room:
            break
        shown.append(figure)
    return [known[0], *shown, *known[1:]]


def duration(seconds: float) -> str:
    """As a clock shows it: 0:07, 12:30, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


@contextmanager
def stage(title: str, *, show: bool = True) -> Iterator[None]:
    """Around work whose end is not known beforehand: it is shown how long it has been under way."""
    over = threading.Event()

    def watch(display: Display) -> None:
        while not over.wait(1.0 if display.live or display.file else SECONDS_BETWEEN_LINES):
            display.update(None)

    with Display(title, show=show) as display:
        watcher = threading.Thread(target=watch, args=(display,), daemon=True)
        if show:
            watcher.start()
        try:
            yield
        finally:
            over.set()
            if show:
                watcher.join()


def tracked(items: Sequence[Item], doing: str) -> Iterator[Item]:
    """The items; if they take long, with a display that vanishes at the end."""
    began = time.monotonic()
    for done, item in enumerate(items):
        if time.monotonic() - began > PATIENCE:
            with Display(doing) as display:
                display.begun = 0.0, began
                for later in range(done, len(items)):
                    if display.due():
                        display.update(later / len(items))
                    yield items[later]
            return
        yield item


def counted(items: Iterable[Item], doing: str) -> Iterator[Item]:
    """The items, of which nobody knows how many there are; if they take long, with a display of their count."""
    began, every = time.monotonic(), iter(items)
    for done, item in enumerate(every, 1):
        yield item
        if time.monotonic() - began > PATIENCE:
            with Display(doing) as display:
                display.begun = 0.0, began
                for number, later in enumerate(every, done + 1):
                    if display.due():
                        display.update(None, f"{number:,}")
                    yield later


def measured(items: Iterable[Item], doing: str, size: Callable[[Item], int], total: int) -> Iterator[Item]:
    """The items, of which their sizes add up to about `total`; if they take long, with a display of the share."""
    began, every, done = time.monotonic(), iter(items), 0
    for item in every:
        yield item
        done += size(item)
        if time.monotonic() - began > PATIENCE:
            with Display(doing) as display:
                display.begun = 0.0, began
                for later in every:
                    if display.due():
                        display.update(done / max(total, done, 1))
                    yield later
                    done += size(later)
