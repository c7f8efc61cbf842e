import ast
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import networkx
import pytest

from data.written_files import refusal
from neuropil.data.labelled_texts import embedded as docstrings
from neuropil.data.labelled_texts.embedded import (
    FEWEST_WORDS,
    LIBRARIES,
    MOST,
    key_of,
    read_docstrings,
    sentences_of,
    spread,
)


def parsed(source: str) -> list[str]:
    """What Python itself takes for the docstrings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
    first = [" ".join((ast.get_docstring(node) or "").split("\n\n")[0].split()) for node in nodes]
    return [sentence for sentence in first if len(sentence.split()) >= FEWEST_WORDS]


def test_sentences_are_the_beginnings_of_docstrings():
    source = '''
class Net(Base):  # a comment
    """A net that learns to sing.

    More on this."""

    async def run(self, key: dict[str, int] = {"a": 1}) -> int:
        r"""Run until
        all is sung."""
        return """no docstring of a function"""

    def short(self):
        """Too short."""
'''
    assert list(sentences_of(source)) == ["A net that learns to sing.", "Run until all is sung."]


def test_reading_finds_what_parsing_finds():
    folder = Path(inspect.getfile(networkx)).parent / "algorithms"
    sources = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))]
    found = {sentence for source in sources for sentence in sentences_of(source)}
    expected = {sentence for source in sources for sentence in parsed(source)}
    assert len(found & expected) > 0.97 * len(expected)
    assert len(found - expected) < 0.03 * len(found)


def test_each_library_has_hundreds_of_sentences_and_none_twice():
    found = read_docstrings()
    assert list(found) == sorted(LIBRARIES)
    assert all(300 < len(sentences) <= MOST for sentences in found.values())
    keys = [key_of(sentence) for sentences in found.values() for sentence in sentences]
    assert len(set(keys)) == len(keys)
    assert all(
        len(sentence.split()) >= FEWEST_WORDS and sentence == " ".join(sentence.split())
        for each in found.values()
        for sentence in each
    )


def test_sentences_that_differ_in_writing_only_are_alike():
    assert key_of("Return  the 2-d Array.") == key_of("return the 3 D array") == "return the d array"


def test_a_spread_takes_from_everywhere():
    many = [str(number) for number in range(10 * MOST)]
    assert spread(many) == many[::10]
    assert spread(many[:7]) == many[:7]


def test_nothing_is_imported_to_be_read():
    reading = "from neuropil.data.labelled_texts.embedded import read_docstrings; read_docstrings()"
    program = f"import sys; {reading}; print('sympy.core' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )


def test_libraries_without_sources_are_missed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(docstrings, "LIBRARIES", {"no_such_library": "*"})
    assert refusal(read_docstrings.__wrapped__) == (
        "the embedded texts are docstrings of installed libraries, but got no sources of no_such_library: "
        "give texts of your own with --data."
    )
