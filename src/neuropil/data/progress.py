"""A progress bar for work that takes long, and none for work that does not."""

from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import TypeVar

Item = TypeVar("Item")
PATIENCE = 2.0
"""Seconds after which a progress bar appears."""


def tracked(items: Sequence[Item], doing: str) -> Iterator[Item]:
    """The items; if they take long, with a progress bar that vanishes at the end."""
    began = monotonic()
    for done, item in enumerate(items):
        if monotonic() - began > PATIENCE:
            from rich.console import Console
            from rich.progress import track

            console = Console(stderr=True)
            bar = {"console": console, "transient": True, "disable": not console.is_terminal}
            yield from track(items[done:], doing, total=len(items), completed=done, **bar)
            return
        yield item


def counted(items: Iterable[Item], doing: str) -> Iterator[Item]:
    """The items, of which nobody knows how many there are; if they take long, with a count that vanishes at the end."""
    began, every = monotonic(), iter(items)
    for done, item in enumerate(every, 1):
        yield item
        if monotonic() - began > PATIENCE:
            from rich.console import Console
            from rich.progress import Progress, TextColumn, TimeElapsedColumn

            console = Console(stderr=True)
            columns = TextColumn("{task.description} {task.completed:,.0f}"), TimeElapsedColumn()
            with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
                yield from bar.track(every, description=doing, completed=done)
