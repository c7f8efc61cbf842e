"""Words of texts, streamed into three parts."""

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuropil.data.formats.memory import in_memory
from neuropil.data.words.dataset import END, EncodedWords, WordCorpus
from neuropil.data.words.files import WORDS_IN_BLOCK, WordDataConfig, in_parts, prepare_words, words_of
from neuropil.errors import InputError

LINES = "".join(f"The quick fox number {number} jumps, and it won't stop.\n" for number in range(2_000))


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def sentences(corpus: WordCorpus, part: EncodedWords) -> list[str]:
    words = ["|" if number == END else corpus.vocabulary.words[number] for number in part.numbers.tolist()]
    return [line.strip() for line in " ".join(words).split("|") if line.strip()]


def prepared(path: Path, **options: Any) -> WordCorpus:
    return prepare_words(WordDataConfig(data=(path,), **options))


def test_words_are_letters_and_digits_with_apostrophes_hyphens_and_underscores_inside():
    text = "Don’t stop: twenty-one NEW_YORK's cafés — ‘quoted’ x2 --flag __init__ 3.5"
    config = WordDataConfig(data=in_memory([text]))
    assert list(words_of(in_memory([text]), config)) == [
        ["don’t", "stop", "twenty-one", "new_york's", "cafés", "quoted", "x2", "flag", "init", "3", "5"]
    ]


def test_all_sentences_are_in_one_part_each_and_parts_are_spread_evenly():
    sentences = [[str(number)] * 10 for number in range(2_000)]
    found = list(in_parts(sentences, WordDataConfig(validation=0.1, test=0.2), ()))
    assert [words for _, words in found] == sentences
    for name, share in (("validation", 0.1), ("test", 0.2)):
        places = [place for place, (part, _) in enumerate(found) if part == name]
        assert len(places) == 2_000 * share
        assert max(b - a for a, b in pairwise(places)) < 1.5 * WORDS_IN_BLOCK / 10 / share


def test_words_below_the_minimum_count_are_left_out_and_counted(tmp_path: Path):
    corpus = prepared(written(tmp_path / "a.txt", LINES))
    assert corpus.vocabulary.words == ("and", "fox", "it", "jumps", "number", "quick", "stop", "the", "won't")
    assert set(sentences(corpus, corpus.train)) == {"the quick fox number jumps and it won't stop"}
    lines = int(corpus.vocabulary.counts[0])
    assert corpus.notes == [f"{lines:,} of {10 * lines:,} words are not in the vocabulary and left out."]
    assert corpus.source == f"{10 * lines:,} words to learn from (a.txt)"


def test_a_vocabulary_of_a_size_has_the_most_frequent_words(tmp_path: Path):
    path = written(tmp_path / "a.txt", LINES + "the the the\n" * 200)
    corpus = prepared(path, vocabulary_size=2)
    assert corpus.vocabulary.words == ("the", "and")
    assert corpus.train.counts(2).tolist() == corpus.vocabulary.counts.tolist()


def test_a_file_a_gzip_file_a_folder_and_texts_in_memory_are_the_same_words(tmp_path: Path):
    plain = written(tmp_path / "a.txt", LINES)
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(LINES.encode()))
    folder = tmp_path / "texts"
    folder.mkdir()
    half = LINES.index("number 1000 ") - len("The quick fox ")
    written(folder / "1.txt", LINES[:half])
    written(folder / "2.txt", LINES[half:])
    memory = WordDataConfig(data=in_memory(LINES.splitlines()))
    lists = WordDataConfig(
        data=in_memory([line.replace(",", "").replace(".", "").split() for line in LINES.splitlines()])
    )
    first, *others = (
        *(prepared(path) for path in (plain, packed, folder)),
        prepare_words(memory),
        prepare_words(lists),
    )
    for other in others:
        assert other.vocabulary.words == first.vocabulary.words
        assert other.train.numbers.tolist() == first.train.numbers.tolist()


def test_parts_of_the_users_own_are_kept_apart():
    lines = LINES.splitlines()
    data = in_memory({"train": lines[:1_000], "test": lines[1_000:1_100]}, parts=True)
    corpus = prepare_words(WordDataConfig(data=data, validation=0.0, min_count=1))
    assert len(sentences(corpus, corpus.train)) == 1_000
    assert len(sentences(corpus, corpus.test)) == 100
    assert "1050" not in corpus.vocabulary.words


def test_paragraphs_are_lines_up_to_an_empty_one(tmp_path: Path):
    path = written(tmp_path / "a.txt", "one two\nthree\n\nfour five\n" * 500)
    of_lines = prepared(path)
    of_paragraphs = prepared(path, sentence="paragraph")
    assert set(sentences(of_lines, of_lines.train)) == {"one two", "three", "four five"}
    # the last line of one copy and the first of the next stand together
    assert "four five one two three" in sentences(of_paragraphs, of_paragraphs.train)


def test_case_can_be_kept(tmp_path: Path):
    assert "The" in prepared(written(tmp_path / "a.txt", LINES), lowercase=False).vocabulary.words


def test_too_few_words_are_refused_with_the_fix(tmp_path: Path):
    with pytest.raises(InputError) as error:
        prepared(written(tmp_path / "a.txt", "each word occurs once here\n"))
    assert str(error.value) == (
        "word vectors need two words or more that occur at least 5 times, but got 0 of 5 different words: "
        "give more text, or lower --min-count."
    )


def test_a_phrase_that_is_written_as_a_word_of_the_text_is_that_word(tmp_path: Path):
    generator = np.random.default_rng(0)
    others = [[f"w{generator.integers(300)}" for _ in range(6)] for _ in range(3_000)]
    for number, words in enumerate(others):
        words += ["new_york"] if number % 3 == 0 else ["new", "york"] if number % 60 == 1 else []
    text = "".join(" ".join(words) + "\n" for words in others)
    corpus = prepared(written(tmp_path / "text", text), phrases=1)
    number = corpus.vocabulary.index["new_york"]
    assert corpus.vocabulary.counts[number] == int((corpus.train.numbers == number).sum()) > 950
    assert len(set(corpus.vocabulary.words)) == len(corpus.vocabulary)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("a\nb", "a word must stand on one line, without tabs, but got 'a\\nb': leave it out."),
        ("a\tb", "a word must stand on one line, without tabs, but got 'a\\tb': leave it out."),
        ("\ud800", "words must be text that UTF-8 can hold, but got '\\ud800': replace halves of characters."),
    ],
)
def test_words_that_no_vocabulary_file_can_hold_are_refused(word: Any, message: str):
    source = in_memory([["one", "two", word]] * 5)
    with pytest.raises(InputError) as error:
        list(words_of(source, WordDataConfig(data=source)))
    assert str(error.value) == message


def test_empty_words_are_left_out():
    source = in_memory([["one", "", "two"]])
    assert list(words_of(source, WordDataConfig(data=source))) == [["one", "two"]]
