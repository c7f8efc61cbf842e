"""Mutation testing: one small change of the sources at a time, and whether a test notices.

    make mutants                             a sample of what is in TARGETS, for 25 minutes
    python -m benchmarks.mutants --minutes 5 training/loop.py data/splits.py

A mutant is killed if a test fails, or runs for far longer than it did. Each is run against the tests of its file
(`training/loop.py` against `tests/training/test_loop*.py`), and if it survives them, of its folder. The tests run in a
child process that has PyTorch already, on a copy of the sources.
"""

import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tyro

ROOT = Path(__file__).parents[1]
TARGETS = ("training", "data/splits.py", "sampling", "parts")
TIMES_LONGER, SECONDS_LONGER, LONGEST = 3, 20, 600
PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)),
)
SWAPS: dict[Any, Any] = {**dict(PAIRS), **{other: one for one, other in PAIRS}}
SWAPS |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult}
OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "argmin": "argmax", "argmax": "argmin"}

ASSERTIONS = ("strict", "stacklevel")
"""Arguments that change nothing while the code is right."""


@dataclass(frozen=True)
class Mutant:
    path: Path
    """In src/neuropil."""
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  →  {self.after}"


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    match node:
        case ast.Compare(ops=[operator]) | ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in SWAPS:
            other = copy.deepcopy(node)
            swapped = SWAPS[type(operator)]()
            if isinstance(other, ast.Compare):
                other.ops = [swapped]
            else:
                other.op = swapped
            yield other
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(2 * value or 1.0)
        case ast.Call(func=ast.Name(id=name)) if name in OTHER_NAMES:
            yield ast.Call(ast.Name(OTHER_NAMES[name]), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in OTHER_NAMES:
            yield ast.Call(ast.Attribute(value, OTHER_NAMES[name]), node.args, node.keywords)
        case ast.If() | ast.IfExp():
            other = copy.deepcopy(node)
            other.test = ast.Constant(False)
            yield other
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield ast.Pass()


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Every node below, as a field of its parent; not annotations, decorators and words."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            if isinstance(child, ast.keyword) and child.arg in ASSERTIONS:
                continue
            yield node, name, index
            yield from places(child)


def mutants_of(path: Path) -> Iterator[Mutant]:
    tree = ast.parse((ROOT / "src/neuropil" / path).read_text(encoding="utf-8"))
    for parent, name, index in places(tree):
        field = getattr(parent, name)
        node = field if index is None else field[index]

        def put(new: ast.AST, parent: ast.AST = parent, name: str = name, index: int | None = index) -> None:
            if index is None:
                setattr(parent, name, new)
            else:
                getattr(parent, name)[index] = new

        for other in changes(node):
            put(other)
            source = ast.unparse(ast.fix_missing_locations(tree))
            put(node)
            before, after = (ast.unparse(ast.fix_missing_locations(each)) for each in (node, other))
            if isinstance(node, ast.If):
                before, after = f"if {ast.unparse(node.test)}:", "if False:"
            yield Mutant(path, getattr(node, "lineno", 0), " ".join(before.split()), " ".join(after.split()), source)


@dataclass(frozen=True)
class Tests:
    sources: Path
    """A copy that may be changed."""

    @cache  # noqa: B019 (there is one of them)
    def seconds(self, files: tuple[str, ...]) -> float:
        """Of the tests on the sources as they are."""
        begin = time.perf_counter()
        if self.fail(files, 900, write_bytecode=True):
            sys.exit(f"{' '.join(files)} must pass before anything is changed.")
        return time.perf_counter() - begin

    def notice(self, mutant: Mutant) -> bool:
        own, around = tests_of(mutant.path)
        limit = TIMES_LONGER * self.seconds(own) + SECONDS_LONGER if own else LONGEST
        file = self.sources / "neuropil" / mutant.path
        original, stamp = file.read_text(encoding="utf-8"), file.stat()
        try:
            file.write_text(mutant.source, encoding="utf-8")
            os.utime(file, (stamp.st_atime, stamp.st_mtime + 10))  # so that no bytecode of the original is taken for it
            return bool(own and self.fail(own, limit)) or self.fail(around, LONGEST)
        finally:
            file.write_text(original, encoding="utf-8")
            os.utime(file, (stamp.st_atime, stamp.st_mtime))

    def fail(self, files: tuple[str, ...], limit: float, *, write_bytecode: bool = False) -> bool:
        """Whether one does, or they take too long."""
        child = os.fork()
        if child == 0:
            os.setsid()
            run_tests(self.sources, files, write_bytecode=write_bytecode)
        return wait(child, limit) != 0


def tests_of(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of a file, and the others of its folder."""
    folder = ROOT / "tests" / path.parent
    own = sorted(map(str, folder.glob(f"test_{path.stem}*.py")))
    return tuple(own), tuple(sorted(str(each) for each in folder.glob("test_*.py") if str(each) not in own))


def run_tests(sources: Path, files: tuple[str, ...], *, write_bytecode: bool) -> None:
    """In a child process, which ends here."""
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
    os.environ["PYTHONPATH"] = str(sources)
    sys.path.insert(0, str(sources))
    sys.dont_write_bytecode = not write_bytecode
    options = ["-x", "--assert=plain", "-p", "no:cacheprovider", "-m", "not slow", f"--rootdir={ROOT}"]
    os._exit(int(pytest.main([*options, *files])))


def wait(child: int, limit: float) -> int:
    """The exit code; not zero where the child had to be stopped."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1


def main(targets: tuple[str, ...] = TARGETS, /, *, minutes: float = 25, seed: int = 0) -> None:
    """Files or folders of src/neuropil; the same seed takes the mutants in the same order."""
    import beartype  # noqa: F401 (what the tests need, imported once)
    import einops  # noqa: F401
    import hypothesis  # noqa: F401
    import jaxtyping  # noqa: F401
    import numba  # noqa: F401
    import safetensors.torch  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import tokenizers  # noqa: F401
    import torch._dynamo  # noqa: F401

    base = ROOT / "src/neuropil"
    below: Callable[[Path], list[Path]] = lambda path: sorted(path.rglob("*.py")) if path.is_dir() else [path]  # noqa: E731
    paths = [path.relative_to(base) for target in targets for path in below(base / target)]
    mutants = [mutant for path in paths for mutant in mutants_of(path)]
    random.Random(seed).shuffle(mutants)  # noqa: S311
    end, killed, survived = time.monotonic() + 60 * minutes, 0, list[Mutant]()
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
        tests = Tests(sources)
        for mutant in mutants:
            if time.monotonic() > end:
                break
            if tests.notice(mutant):
                killed += 1
            else:
                survived.append(mutant)
                print(f"survived  {mutant}", flush=True)
            if (killed + len(survived)) % 20 == 0:
                print(f"{killed} killed, {len(survived)} survived", file=sys.stderr, flush=True)
    tried = killed + len(survived)
    print(f"{killed} of {tried} mutants killed ({100 * killed / max(tried, 1):.1f} %), of {len(mutants):,} there are")


if __name__ == "__main__":
    tyro.cli(main)
