"""The docstrings of the libraries that neuropil is installed with, in full: about a million and a half words of
technical English. Paragraphs that occur twice are kept once, and examples of code are left out."""

import re
from collections.abc import Sequence
from functools import cache

from neuropil.data.labelled_texts.embedded import LIBRARIES, sources_of
from neuropil.progress import tracked

DOCSTRING = re.compile(r'''[rRuU]?"""(.*?)"""''', re.DOTALL)
CODE = (">>>", "...")
FEWEST_WORDS = 4


@cache
def docstring_paragraphs() -> Sequence[str]:
    """Each on one line, in the order of libraries and files."""
    found: dict[str, None] = {}
    for library in tracked(list(LIBRARIES), "Reading the docstrings of libraries"):
        for path in sources_of(library):
            for docstring in DOCSTRING.finditer(path.read_text(encoding="utf-8", errors="replace")):
                for paragraph in re.split(r"\n[ \t]*\n", docstring[1]):
                    words = paragraph.split()
                    line = " ".join(words)
                    if len(words) >= FEWEST_WORDS and not any(mark in line for mark in CODE):
                        found[line] = None
    return list(found)
