"""Commands that compare words by their vectors, of a run or of a file."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuropil.cli.arguments import Arguments
from neuropil.cli.output import print_json, print_table
from neuropil.config import option
from neuropil.errors import InputError

if TYPE_CHECKING:
    from neuropil.tasks.predictor import ComparesWords

VECTORS = "a run folder, or a file of word vectors (word2vec text or binary, GloVe; plain or gzip)"
VOCABULARY_SIZE = "maximum vocabulary size: the most frequent words of the vectors; without it, all"


class WordArguments(Arguments):
    run: Path = option(Path(), VECTORS)
    count: int = option(10, "number of words to show", low=1)
    vocabulary_size: int | None = option(None, VOCABULARY_SIZE, low=1)


class NeighboursArguments(WordArguments):
    words: tuple[str, ...] = option((), "a word, or several that are added")
    negative: tuple[str, ...] = option((), "words that are subtracted")


class AnalogyArguments(WordArguments):
    a: str = option("", "a word, such as king")
    b: str = option("", "a word that is to it, such as man")
    c: str = option("", "as this is to what is looked for, such as woman: king − man + woman")


class OddOneOutArguments(Arguments):
    run: Path = option(Path(), VECTORS)
    words: tuple[str, ...] = option((), "three words or more")
    vocabulary_size: int | None = option(None, VOCABULARY_SIZE, low=1)


def neighbours(arguments: NeighboursArguments) -> None:
    if not arguments.words and not arguments.negative:
        fix = f"neuropil neighbours {shlex.quote(str(arguments.run))} king"
        raise InputError("neuropil neighbours needs a word", got="none", fix=fix)
    opened = _opened(arguments)
    _print_words(opened.neighbours(arguments.words, arguments.negative, count=arguments.count), arguments.json)


def analogy(arguments: AnalogyArguments) -> None:
    found = _opened(arguments).analogy(arguments.a, arguments.b, arguments.c, count=arguments.count)
    _print_words(found, arguments.json)


def odd_one_out(arguments: OddOneOutArguments) -> None:
    ranked = _opened(arguments).centrality(arguments.words)
    if arguments.json:
        print_json({"odd_one_out": ranked[-1].word, "cosines": dict(ranked)})
        return
    print(ranked[-1].word)
    print_table(["word", "cosine with all"], [[each.word, f"{each.cosine:.4f}"] for each in ranked])


def _opened(arguments: WordArguments | OddOneOutArguments) -> "ComparesWords":
    from neuropil.runs.open import open_able
    from neuropil.tasks.predictor import ComparesWords

    return open_able(arguments.run, ComparesWords, vocabulary_size=arguments.vocabulary_size)


def _print_words(found: Sequence[Any], as_json: bool) -> None:
    if as_json:
        for each in found:
            print_json({"word": each.word, "cosine": each.cosine})
        return
    print_table(["word", "cosine"], [[each.word, f"{each.cosine:.4f}"] for each in found])
