"""Oddities of a file that are counted on the way, each with the line on which it was first met."""

from dataclasses import dataclass


@dataclass
class Tally:
    """What is said of one thing that is odd, and of many."""

    one: str
    many: str
    count: int = 0
    first: int = 0

    def add(self, line: int) -> None:
        self.count, self.first = self.count + 1, self.first or line

    def note(self, total: int, things: str) -> str:
        return f"{self.count:,} of {total:,} {things} {self.one if self.count == 1 else self.many} (first: line {self.first:,})."
