"""What is fuzzed: a reader, files that it reads, and how they are changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.fuzzing.mutations import Mutation

Read: TypeAlias = Callable[[bytes], Any]
MB = 10**6


@dataclass(frozen=True)
class Reader:
    """`begin` is given a folder of its own, and returns what reads one case. `use`, where there is one, does with what
    was read what a user does next; it costs more, and gets one of `each` cases that were read."""

    name: str
    about: str
    mutation: Mutation
    seeds: Callable[[], Sequence[bytes]]
    begin: Callable[[Path], Read]
    use: Callable[[Path], Read] | None = None
    each: int = 16
    cases: int = 100_000
    """Of `make fuzz`."""
    bound: int = 128 * MB
    """Bytes of memory that a case may take: cases have at most 65,536 bytes."""
