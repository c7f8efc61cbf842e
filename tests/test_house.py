"""The rooms of the house, and who may know whom."""

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from neuropil.recipes import SYSTEMS

SOURCE = Path(__file__).parents[1] / "src" / "neuropil"

ROWS = (
    {"errors", "extras", "ranges", "config", "files", "memory", "randomness", "protocols", "metrics", "progress"},
    {"autodiff", "parts", "data", "training"},
    {"models"},
    {"sampling", "adversarial", "pretrained", "inspection"},
    {"tasks"},
    {"recipes"},
    {"runs", "http"},
    {"sklearn", "lab", "server"},
    {"cli"},  # whose commands start the others
)
ROW_OF = {room: row for row, rooms in enumerate(ROWS) for room in rooms}
MODULES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@functools.cache
def imports_of(path: Path) -> list[str]:
    return list(read_imports(path))


def read_imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; write the whole name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_rooms(path: Path) -> set[str]:
    names = [name.split(".") for name in imports_of(path)]
    return {parts[1] for parts in names if parts[0] == "neuropil" and len(parts) > 1 and parts[1] in ROW_OF}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_from_rows_above(path: Path):
    room = room_of(path)
    if (
        room in ("__init__", "__main__") or ROW_OF[room] == 0
    ):  # the front door leads to every room; row one has a test of its own
        return
    for other in imported_rooms(path) - {room}:
        assert ROW_OF[other] < ROW_OF[room], f"{path.relative_to(SOURCE)} ({room}) must not know {other}"


def test_row_one_knows_only_files_of_its_own_row_without_cycles():
    order = [
        "errors",
        "extras",
        "files",
        "memory",
        "randomness",
        "ranges",
        "config",
        "protocols",
        "metrics",
        "progress",
    ]
    for name in order:
        assert imported_rooms(SOURCE / f"{name}.py") <= set(order[: order.index(name)])


def test_the_recipes_are_the_systems():
    assert {path.stem for path in (SOURCE / "recipes").glob("*.py")} - {"__init__"} == {each.name for each in SYSTEMS}


def test_no_folder_is_crowded():
    counts = Counter(path.parent for path in MODULES if path.parent.name not in ("models", "recipes", "views"))
    assert [str(folder) for folder, count in counts.items() if count > 22] == []  # about twenty, and __init__


def test_no_two_classes_share_a_name():
    names = Counter(
        node.name
        for path in MODULES
        if path.name != "sklearn.py"  # where they have the names that scikit-learn's users look for
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_reports_know_no_experiment():
    for path in (SOURCE / "tasks").rglob("report.py"):
        assert not any("experiment" in name.lower() for name in imports_of(path)), path


def test_every_module_is_in_a_room_of_the_design():
    assert {room_of(path) for path in MODULES} - {"__init__", "__main__"} <= set(ROW_OF)


def test_autodiff_needs_no_torch():
    for path in (SOURCE / "autodiff").rglob("*.py"):
        assert not any(name.split(".")[0] == "torch" for name in imports_of(path)), path


def test_the_model_files_import_each_other_without_cycles():
    graph = {
        path.stem: {name.split(".")[2] for name in imports_of(path) if name.startswith("neuropil.models.")}
        for path in (SOURCE / "models").glob("*.py")
        if path.stem != "__init__"
    }
    while graph:
        leaves = [name for name, needs in graph.items() if not needs & set(graph)]
        assert leaves, f"cycle among {sorted(graph)}"
        for leaf in leaves:
            del graph[leaf]


def test_no_drawer_without_a_name():
    drawers = {"utils", "util", "helpers", "common", "misc"}
    assert not [path for path in MODULES if set(path.relative_to(SOURCE).with_suffix("").parts) & drawers]


RUNS_CODE = {"pickle", "cloudpickle", "joblib", "dill", "shelve", "marshal", "yaml", "jsonpickle", "runpy", "code"}
"""Modules that read programs, or objects by running some."""
RUNS_WORDS = {"eval", "exec", "compile", "__import__"}
RUNS_FILES = {
    "torch.load",
    "torch.jit.load",
    "torch.hub.load",
    "torch.package.PackageImporter",
    "np.load",
    "numpy.load",
}
RUNS_FILES |= {"os.system", "os.popen", "pty.spawn", "pd.read_pickle", "pandas.read_pickle"}
OPTIONS_THAT_RUN = {"shell": False, "allow_pickle": False, "weights_only": True, "trust_remote_code": False}
"""Options that let something be run, and the only value that any call may give them."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_that_is_read_is_run(path: Path):
    assert not {name.split(".")[0] for name in imports_of(path)} & RUNS_CODE
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            assert not (isinstance(node.func, ast.Name) and node.func.id in RUNS_WORDS), ast.unparse(node)
            assert ast.unparse(node.func) not in RUNS_FILES, ast.unparse(node)
            for given in node.keywords:
                if given.arg in OPTIONS_THAT_RUN:
                    value = given.value.value if isinstance(given.value, ast.Constant) else None
                    assert value is OPTIONS_THAT_RUN[given.arg], ast.unparse(node)
