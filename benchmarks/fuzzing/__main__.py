"""`make fuzz`: cases for every reader, or for those that are named; a table of what came of them.

make fuzz                                       all readers, a million cases each of the binary ones
make fuzz READERS="idx npz" CASES=1000          these, with so many cases
make fuzz SECONDS=60                            each for at most so long

What is found is written to tests/fuzzing/found/READER/, as small as it can be made, and the command fails.
"""

import sys
from collections.abc import Sequence

import torch

from benchmarks.fuzzing.kept import FOUND, keep
from benchmarks.fuzzing.minimised import minimised
from benchmarks.fuzzing.readers import READERS
from benchmarks.fuzzing.worker import ALLOCATED, PATIENCE, Result, fuzz, quiet
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.runs.environment import environment

HEADER = ["reader", "cases", "distinct outcomes", "faults", "seconds", "slowest case", "peak memory", "bound"]
HEADER += ["processor"]  # rows of several machines may stand in one table
ABOUT = (
    "Files and requests that were damaged at random and by design, after `make fuzz`: no case may end a process, take "
    f"{PATIENCE:g} seconds, take more memory than the bound, ask for {ALLOCATED} times as much, or show a user "
    "anything but an answer or one sentence. Cases have at most 65,536 bytes."
)


class Arguments(Config):
    readers: tuple[str, ...] = option((), f"which of {', '.join(READERS)}; without it, all")
    cases: int | None = option(None, "cases of each; without it, a million for binary formats", low=1)
    seconds: float = option(3600.0, "seconds for each, at most", above=0)
    seed: int = option(0, "another seed makes other cases")
    publish: bool = option(False, "write the table where the docs quote it from")


def main(words: Sequence[str]) -> None:
    arguments = parse(Arguments(), words, command="fuzzing", about="Damaged files and requests for every reader.")
    torch.set_num_threads(1)
    rows, faults = [], 0
    for name in arguments.readers or READERS:
        reader = READERS[name]
        result = fuzz(reader, arguments.cases or reader.cases, arguments.seconds, arguments.seed)
        rows.append(row(name, result))
        faults += len(result.faults)
        print(" | ".join(rows[-1]), flush=True)
        for content, message in result.faults.values():
            print(f"    {message[:300]}", flush=True)
            with quiet():
                small = minimised(reader, content, message)
            keep(name, small)
    if arguments.publish:
        publish_rows(rows)
    if faults:
        raise SystemExit(f"{faults} faults were found: see {FOUND}")


def publish_rows(rows: list[list[str]]) -> None:
    """Those of readers that were not fuzzed this time stay as they are."""
    from benchmarks.claims import PAGES, publish, table

    page = PAGES / "fuzzing.md"
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    known = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    by_name = {cells[0]: cells for cells in (*known, *rows)}
    publish(
        "fuzzing", ABOUT, table(HEADER, [by_name[name] for name in READERS if name in by_name]), command="make fuzz"
    )


def row(name: str, result: Result) -> list[str]:
    numbers = f"{result.cases:,}", f"{result.outcomes:,}", f"{len(result.faults):,}", f"{result.seconds:,.0f}"
    bound = f"{READERS[name].bound / 1e6:,.0f} MB"
    peak, processor = f"{result.memory / 1e6:,.0f} MB", environment()["processor"]
    return [name, *numbers, f"{result.slowest:.2f} s", peak, bound, processor]


if __name__ == "__main__":
    main(sys.argv[1:])
