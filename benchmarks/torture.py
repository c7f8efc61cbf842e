"""`make torture`: runs of ten systems are killed at random moments, 200 times in all, and resumed until they end.

Each must come out as if nothing had happened: the bits of its weights and of what else it learned, every row of
`metrics.jsonl` apart from the seconds, and its report apart from the times in it. A moment is any of the life of a
process, from its start to the last file that it writes; a run that was killed is killed again up to three times.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import safe_open

from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.runs.run import Run, load

PICTURES = {"scored-samples": 32, "classifier-updates": 20}
SYSTEMS: dict[str, dict[str, object]] = {
    "mlp": {"hidden-sizes": 64, "epochs": 60, "average": 0.9},
    "cnn": {"width": 8, "epochs": 3},
    "gru": {"hidden-size": 32, "embedding-size": 16, "epochs": 1, "batch-size": 256, "steps": 64},
    "gpt2": {
        "width": 32,
        "heads": 2,
        "layers": 2,
        "context": 64,
        "vocabulary-size": 400,
        "epochs": 1,
        "batch-size": 64,
    },
    "transformer": {"width": 32, "heads": 2, "layers": 1, "epochs": 8, "tokens": "characters", "data": "pairs.tsv"},
    "vae": {"hidden-sizes": 64, "latent-size": 4, "epochs": 20, "importance-samples": 4, **PICTURES},
    "gan": {"epochs": 3, **PICTURES},
    "diffusion": {"channels": 8, "depth": 1, "groups": 4, "epochs": 3, **PICTURES},
    "spiking_classifier": {"hidden-sizes": 32, "steps": 10, "epochs": 4},
    "word2vec": {"width": 16, "epochs": 2, "threads": 1},
}
KILLS, MOST_IN_A_ROW = 200, 4
CHECKPOINT_SECONDS = 0.2
TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+(?:[+-]\d\d:\d\d)?|[\d.,]+ (?:seconds?|minutes?)")
"""In a report: when it was written, and how long something took."""
HEADER = ["system", "kills", "before the first checkpoint", "training", "evaluation and report", "runs", "identical"]
TORTURE = (
    "Runs of ten systems that are killed (SIGKILL) at random moments of their lives and resumed until they end, "
    "beside an undisturbed run of each. Identical are the bits of all that was learned, the rows of `metrics.jsonl` "
    "apart from the seconds, and the report apart from the times in it."
)


class Arguments(Config):
    kills: int = option(KILLS, "kills of all systems together", low=1)
    systems: tuple[str, ...] = option(tuple(SYSTEMS), "which systems")
    seed: int = option(0, "of the random moments", low=0)
    at_once: int = option(2, "systems that are tortured at once, each on one thread", low=1)


@dataclass
class Tortured:
    """What became of one system: the phases in which it was killed, its runs, and what differs in any of them."""

    name: str
    seconds: float = 0.0
    phases: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    differences: list[str] = field(default_factory=list)

    def row(self) -> list[str]:
        kills = [str(self.phases[phase]) for phase in HEADER[2:5]]
        return [self.name, str(self.phases.total()), *kills, str(self.runs), "no" if self.differences else "yes"]


def total(found: Sequence[Tortured]) -> list[str]:
    whole = Tortured("all")
    for each in found:
        whole.phases += each.phases
        whole.runs += each.runs
        whole.differences += each.differences
    return whole.row()


def main(words: Sequence[str]) -> None:
    arguments = parse(Arguments(), words, command="torture", about="Kill runs at random moments, and resume them.")
    print(*HEADER, sep="\t")
    found = list[Tortured]()
    for each in torture(arguments):
        print(*each.row(), *each.differences, sep="\t", flush=True)
        found.append(each)
    print(*total(found), sep="\t")
    sys.exit(any(each.differences for each in found))


def torture(arguments: Arguments) -> Iterator[Tortured]:
    each, more = divmod(arguments.kills, len(arguments.systems))
    shares = {name: each + (place < more) for place, name in enumerate(arguments.systems)}
    with ThreadPoolExecutor(arguments.at_once) as threads:
        found = [threads.submit(torture_system, name, kills, arguments.seed) for name, kills in shares.items()]
        for future in found:
            yield future.result()


def torture_system(name: str, kills: int, seed: int) -> Tortured:
    moments, found = random.Random(f"{seed} {name}"), Tortured(name)  # noqa: S311
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        whole = Path(folder) / "whole"
        write_pairs(Path(folder) / "pairs.tsv")
        began = time.monotonic()
        complain(life(name, whole, None))
        found.seconds = time.monotonic() - began
        while found.phases.total() < kills:
            run = Path(folder) / f"run-{found.runs}"
            most = min(MOST_IN_A_ROW, kills - found.phases.total())
            for _ in range(most):
                code, _ = life(name, run, moments.uniform(0.0, found.seconds))
                if code != -signal.SIGKILL:
                    break
                found.phases[phase(run)] += 1
            complain(life(name, run, None))
            found.runs += 1
            found.differences += [f"{run.name}: {difference}" for difference in differences(whole, run)]
    return found


def life(name: str, folder: Path, seconds: float | None) -> tuple[int, str]:
    """A process that begins a run or goes on with it, for so many seconds at most: its exit code and what it said."""
    words = ["resume", str(folder)]
    if not (folder / "config.json").exists():
        given = SYSTEMS[name] | ({"data": folder.parent / "pairs.tsv"} if "data" in SYSTEMS[name] else {})
        options = [word for flag, value in given.items() for word in (f"--{flag}", str(value))]
        words = ["train", name, *options, "--checkpoint-seconds", str(CHECKPOINT_SECONDS), "--out", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "neuropil", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    timer = threading.Timer(seconds, process.kill) if seconds is not None else None
    if timer is not None:
        timer.start()
    _, said = process.communicate()
    if timer is not None:
        timer.cancel()
    return process.returncode, said


def write_pairs(path: Path) -> None:
    """A few hundred short texts and the same backwards."""
    draw = random.Random(0)  # noqa: S311
    texts = ["".join(draw.choices("abcdefgh", k=draw.randint(3, 8))) for _ in range(500)]
    path.write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts), encoding="utf-8")


def complain(ending: tuple[int, str]) -> None:
    code, said = ending
    if code:
        raise RuntimeError(f"a run that nobody killed ended with exit code {code}: {said}")


def phase(folder: Path) -> str:
    """In which a run was killed, by what it left."""
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return HEADER[2]
    with safe_open(path, framework="pt") as file:
        state: Mapping[str, object] = json.loads((file.metadata() or {})["neuropil"])["state"]
    return HEADER[4] if state["finished"] else HEADER[3]


def differences(whole: Path, other: Path) -> Iterator[str]:
    """Between an undisturbed run and one that was killed."""
    timed = {"checkpoint.safetensors", "config.json", "metrics.jsonl", "report.html"}
    names = [sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()) for run in (whole, other)]
    if names[0] != names[1]:
        yield f"the files are {', '.join(names[1])}, and not {', '.join(names[0])}"
        return
    for name in names[0]:
        if Path(name).name not in timed and (whole / name).read_bytes() != (other / name).read_bytes():
            yield f"{name} has other bytes"
    first, second = (rows(load(run)) for run in (whole, other))
    for number, (one, two) in enumerate(zip(first, second, strict=False), 1):
        if one != two:
            yield f"row {number} of metrics.jsonl is {two}, and not {one}"
    if len(first) != len(second):
        yield f"metrics.jsonl has {len(second)} rows, and not {len(first)}"
    pages = [TIMES.sub("", (run / "report.html").read_text(encoding="utf-8")) for run in (whole, other)]
    pages[1] = pages[1].replace(other.name, whole.name)
    if pages[0] != pages[1]:
        lines = zip(*(page.splitlines() for page in pages), strict=False)
        place = next((f"{one[:200]!r} is {two[:200]!r}" for one, two in lines if one != two), "its length differs")
        yield f"the report differs: {place}"


def rows(run: Run) -> list[dict[str, object]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in run.rows]


if __name__ == "__main__":
    main(sys.argv[1:])
