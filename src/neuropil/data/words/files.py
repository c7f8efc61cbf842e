"""Sentences of words in three parts: the docstrings of installed libraries, or the user's own texts, streamed.

A file is read twice, to count its words and to write their numbers into a file that is mapped into memory; neither
holds more of it than a block. Blocks of sentences are held out at even distances, so that all parts are of one kind.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np

from neuropil.config import option
from neuropil.data.corpus.files import names_of, require_no_column
from neuropil.data.corpus.sources import CORPUS, text_files
from neuropil.data.formats.memory import InMemory, training_part
from neuropil.data.splits import PARTS, PartName, SplitConfig, scoring_share, validation_share
from neuropil.data.words.dataset import END, UNKNOWN, EncodedWords, NumberFile, Vocabulary, WordCorpus
from neuropil.data.words.embedded import docstring_paragraphs
from neuropil.data.words.phrases import find_phrases, join_phrases, with_phrases
from neuropil.errors import InputError, counted
from neuropil.progress import measured

WORD = re.compile(r"[^\W_]+(?:[_'’-][^\W_]+)*")
"""Letters and digits of any language, with hyphens, apostrophes and underscores inside: don't, twenty-one, new_york."""
WORDS_IN_BLOCK = 200
"""At least, of the sentences that are in one part together."""
MOST_DIFFERENT = 20_000_000
"""Words that are counted at the same time; where there are more, the rarest are forgotten."""


class WordDataConfig(SplitConfig):
    data: tuple[Path, ...] | InMemory = option(
        (),
        "your own texts: files in UTF-8, JSONL or Parquet, folders or patterns of them; without it, docstrings of "
        "installed libraries",
    )
    text_column: str | None = option(None, "the column of JSONL or Parquet that holds the texts, where it is not clear")
    sentence: Literal["line", "paragraph"] = option(
        "line", "what contexts do not reach beyond: a line, or lines up to an empty one"
    )
    lowercase: bool = option(True, "fold the case of letters")
    min_count: int = option(5, "minimum count of a word in the training part", low=1)
    vocabulary_size: int | None = option(None, "maximum vocabulary size", low=2)
    phrases: int = option(0, "passes that join words into phrases, as in new_york", low=0, high=8)
    phrase_threshold: float = option(100.0, "score from which on two words are a phrase", above=0)
    validation: float = validation_share(0.02, "share held out to measure the loss after each epoch")
    test: float = scoring_share(0.02, "share held out for the final score", high=0.5)


def prepare_words(config: WordDataConfig) -> WordCorpus:
    learned, own = training_part(config.data)
    notes: list[str] = []
    if isinstance(learned, InMemory) or not learned:
        require_no_column(config.text_column, names_of(learned) if learned else "the embedded text")
    else:
        notes += text_files(learned, config.text_column).notes

    def sentences_in_parts() -> Iterator[tuple[PartName, list[str]]]:
        yield from in_parts(words_of(learned, config), config, own)
        for part, source in own.items():
            yield from ((part, words) for words in words_of(source, config))

    counts = count_words(words for part, words in sentences_in_parts() if part == "train")
    total = counts.total()
    vocabulary = Vocabulary.most_frequent(counts, min_count=config.min_count)
    require_words(vocabulary, counts, config)
    parts = encode(sentences_in_parts(), vocabulary)
    for _ in range(config.phrases):
        train, size = parts["train"], len(vocabulary)
        phrases = find_phrases(train, vocabulary, discount=config.min_count, threshold=config.phrase_threshold)
        words = with_phrases(vocabulary, phrases)
        parts = {name: join_phrases(part, phrases, size) for name, part in parts.items()}
        vocabulary = Vocabulary(words, parts["train"].counts(len(words)))
        joined = "was" if len(phrases.first) == 1 else "were"
        notes.append(f"{counted(len(phrases.first), 'pair')} of words {joined} joined into phrases.")
    # A phrase may be written as a word of the text is, or as another phrase: they become one.
    counts = Counter[str]()
    for word, count in zip(vocabulary.words, vocabulary.counts.tolist(), strict=True):
        counts[word] += count
    kept = Vocabulary.most_frequent(counts, min_count=config.min_count, size=config.vocabulary_size)
    require_words(kept, counts, config)
    parts = {name: renumber(part, vocabulary, kept) for name, part in parts.items()}
    left_out = total - int(vocabulary.counts.sum())
    if not config.phrases and left_out:
        unknown = total - int(kept.counts.sum())
        are = "is" if unknown == 1 else "are"
        notes.append(f"{unknown:,} of {total:,} words {are} not in the vocabulary and left out.")
    where = names_of(learned) if learned else "docstrings of installed libraries"
    source = f"{total:,} words to learn from ({where})"
    return WordCorpus(parts["train"], parts["validation"], parts["test"], notes, vocabulary=kept, source=source)


# --- sentences --------------------------------------------------------------------------------------------------------


def words_of(source: Sequence[Path] | InMemory, config: WordDataConfig) -> Iterator[list[str]]:
    """The words of each sentence, in the order of the text."""
    if isinstance(source, InMemory) and (tokenised := word_lists(source)):
        for words in tokenised:
            yield [fold(require_word(word), config) for word in words if word != ""]
        return
    for text in sentences(lines_of(source, config.text_column), config.sentence):
        if words := WORD.findall(fold(text, config)):
            yield words


def fold(text: str, config: WordDataConfig) -> str:
    return text.lower() if config.lowercase else text


def require_word(word: str) -> str:
    """Which stands on one line of a file in UTF-8."""
    if "\n" in word or "\r" in word or "\t" in word:
        raise InputError("a word must stand on one line, without tabs", got=f"{word!r}", fix="leave it out")
    try:
        word.encode("utf-8")
    except UnicodeEncodeError as cause:
        rule, fix = "words must be text that UTF-8 can hold", "replace halves of characters"
        raise InputError(rule, got=f"{word!r}", fix=fix) from cause
    return word


def word_lists(source: InMemory) -> list[list[str]]:
    """Of sentences that are lists of words already."""
    columns = list(source.columns.values())
    return columns[0] if len(columns) == 1 and isinstance(columns[0], list) and isinstance(columns[0][0], list) else []


def lines_of(source: Sequence[Path] | InMemory, text_column: str | None = None) -> Iterator[str]:
    """With an empty line after each text."""
    if isinstance(source, InMemory):
        for text in source.only_texts(CORPUS):
            yield from (*text.split("\n"), "")
    elif source:
        files = text_files(source, text_column)
        yield from measured(files.lines(), f"Reading {files.name}", len, files.num_bytes)
    else:
        yield from docstring_paragraphs()


def sentences(lines: Iterable[str], unit: Literal["line", "paragraph"]) -> Iterator[str]:
    if unit == "line":
        yield from lines
        return
    for filled, paragraph in groupby(lines, key=lambda line: bool(line.strip())):
        if filled:
            yield " ".join(paragraph)


def in_parts(
    sentences: Iterable[list[str]], config: WordDataConfig, own: Collection[PartName]
) -> Iterator[tuple[PartName, list[str]]]:
    """Blocks of sentences are held out at even distances. Where a part comes with the data, none are for it."""
    shares = {"test": config.test, "validation": config.validation}
    held = {name: 0.5 for name in shares if name not in own}
    filled, part = WORDS_IN_BLOCK, "train"
    for words in sentences:
        if filled >= WORDS_IN_BLOCK:
            filled, part = 0, "train"
            for name in held:
                held[name] += shares[name]
                if held[name] >= 1 and part == "train":
                    held[name], part = held[name] - 1, name
        filled += len(words)
        yield part, words


# --- numbers ----------------------------------------------------------------------------------------------------------


def count_words(sentences: Iterable[list[str]]) -> Counter[str]:
    counts, rarest = Counter[str](), 1
    for words in sentences:
        counts.update(words)
        while len(counts) > MOST_DIFFERENT:
            counts, rarest = Counter({word: count for word, count in counts.items() if count > rarest}), rarest + 1
    return counts


def require_words(vocabulary: Vocabulary, counts: Counter[str], config: WordDataConfig) -> None:
    if len(vocabulary) < 2:
        rule = f"word vectors need two words or more that occur at least {config.min_count} times"
        got = f"{len(vocabulary)} of {len(counts):,} different words"
        raise InputError(rule, got=got, fix="give more text, or lower --min-count")


def encode(sentences: Iterable[tuple[PartName, list[str]]], vocabulary: Vocabulary) -> dict[PartName, EncodedWords]:
    encoded, index = {part: NumberFile() for part in PARTS}, vocabulary.index
    for part, words in sentences:
        encoded[part].write([*(index.get(word, UNKNOWN) for word in words), END])
    return {part: file.mapped() for part, file in encoded.items()}


def renumber(part: EncodedWords, old: Vocabulary, new: Vocabulary) -> EncodedWords:
    """By the numbers of another vocabulary; what it does not have is left out."""
    # The last two are what UNKNOWN and END find, which count from the end.
    numbers = np.array([*(new.index.get(word, UNKNOWN) for word in old.words), UNKNOWN, END], np.int32)
    renumbered = NumberFile()
    for block in part.blocks():
        changed = numbers[block]
        renumbered.write(changed[changed != UNKNOWN])
    return renumbered.mapped()
