"""Sentences with a label that nobody had to invent: the first lines of docstrings, and the library that each is from.

"Compute the average clustering coefficient for the graph G." is networkx's. The sources are those that are installed
with neuropil, read as text: nothing is imported, nothing downloaded. Another version of a library has other sentences.
"""

import re
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from neuropil.errors import InputError
from neuropil.progress import tracked

PYTHON = "python"
LIBRARIES: Mapping[str, str] = {
    "matplotlib": "axes backends projections tri *.py",
    "networkx": "algorithms classes generators",
    "numpy": "*",
    "pillow": "*.py",
    PYTHON: "asyncio concurrent email http importlib json logging multiprocessing unittest urllib xml",
    "scikit-learn": "*",
    "scipy": "integrate optimize signal spatial stats",
    "sympy": "core geometry matrices physics solvers",
    "torch": "distributions nn optim utils",
}
"""What is read of each: folders and files below its root."""
IMPORTED_AS = {"pillow": "PIL", "scikit-learn": "sklearn"}
APART = frozenset(("tests", "test", "testing", "_vendor", "externals", "_examples"))
MOST, FEWEST_WORDS = 1_500, 4
DOCSTRING = re.compile(r''':[ \t]*(?:\#[^\n]*)?\n[ \t]+[rRuU]?"""(.*?)(?:"""|\n[ \t]*\n)''', re.DOTALL)
"""What stands in triple quotes right below a line that ends with a colon, up to its first empty line. To parse the
sources would find the same and take ten times as long."""


@cache
def read_docstrings() -> Mapping[str, Sequence[str]]:
    """At most `MOST` sentences of each library; those that two libraries have in common are left out."""
    found = {library: _distinct(library) for library in tracked(list(LIBRARIES), "Reading the docstrings of libraries")}
    times = Counter(key for sentences in found.values() for key in sentences)
    once = {name: [text for key, text in each.items() if times[key] == 1] for name, each in found.items()}
    return {library: spread(texts) for library, texts in once.items()}


def spread(texts: Sequence[str]) -> list[str]:
    """At most `MOST` of them, evenly spaced."""
    return [texts[place * len(texts) // MOST] for place in range(MOST)] if len(texts) > MOST else list(texts)


def key_of(sentence: str) -> str:
    """Equal for sentences that differ in case, spacing, punctuation or numbers only."""
    return re.sub(r"[\W\d_]+", " ", sentence).strip().casefold()


def sentences_of(source: str) -> Iterator[str]:
    """The first paragraphs of the docstrings of functions, methods and classes, each on one line."""
    for docstring in DOCSTRING.finditer(source):
        sentence = " ".join(docstring[1].split())
        if len(sentence.split()) >= FEWEST_WORDS:
            yield sentence


def _distinct(library: str) -> dict[str, str]:
    """Sentences by their keys."""
    found: dict[str, str] = {}
    for path in sources_of(library):
        for sentence in sentences_of(path.read_text(encoding="utf-8", errors="replace")):
            found.setdefault(key_of(sentence), sentence)
    if not found:
        rule = "the embedded texts are docstrings of installed libraries"
        raise InputError(rule, got=f"no sources of {library}", fix="give texts of your own with --data")
    return found


def sources_of(library: str) -> list[Path]:
    root = _root(library)
    paths = {path for pattern in LIBRARIES[library].split() for inner in root.glob(pattern) for path in _files(inner)}
    return sorted(path for path in paths if not APART & set(path.relative_to(root).parts))


def _files(path: Path) -> Iterator[Path]:
    return path.rglob("*.py") if path.is_dir() else iter([path] if path.suffix == ".py" else [])


def _root(library: str) -> Path:
    if library == PYTHON:
        return Path(sysconfig.get_path("stdlib"))
    spec = find_spec(IMPORTED_AS.get(library, library))
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else Path(library)
