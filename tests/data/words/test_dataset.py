"""Words as numbers in a file that is mapped into memory."""

from pathlib import Path

import numpy as np

from neuropil.data.words.dataset import END, EncodedWords, NumberFile, Vocabulary


def test_a_vocabulary_has_the_most_frequent_words_first_and_ties_in_the_order_of_the_alphabet():
    counts = {"b": 3, "a": 3, "rare": 1, "the": 9}
    assert Vocabulary.most_frequent(counts, min_count=2).words == ("the", "a", "b")
    largest = Vocabulary.most_frequent(counts, min_count=1, size=2)
    assert (largest.words, largest.counts.tolist()) == (("the", "a"), [9, 3])


def test_a_vocabulary_is_saved_with_a_word_and_its_count_on_each_line(tmp_path: Path):
    Vocabulary.most_frequent({"the": 9, "naïve": 3}, min_count=1).save(tmp_path)
    assert (tmp_path / "vocabulary.tsv").read_text(encoding="utf-8") == "the\t9\nnaïve\t3\n"


def test_numbers_come_back_from_a_mapped_file_that_has_no_name():
    file = NumberFile()
    file.write([3, 1, END])
    file.write(np.array([2, END], np.int32))
    words = file.mapped()
    assert words.numbers.tolist() == [3, 1, END, 2, END]
    assert words.numbers.base is not None  # it is not in memory
    assert (len(words), words.counts(5).tolist()) == (3, [0, 1, 1, 1, 0])


def test_no_numbers_at_all_are_no_words():
    assert len(NumberFile().mapped()) == 0
    assert EncodedWords(np.array([END], np.int32)).counts(2).tolist() == [0, 0]
