"""Files of word vectors: what is read of them, what is refused, and what is written."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from neuropil.errors import DataWarning, InputError
from neuropil.pretrained import word_vectors
from neuropil.pretrained.word_vectors import begins_with_vectors, holds_vectors, layout_of, read_vectors, write_vectors

WORDS = ["the", "new\u00a0york", "İstanbul", "猫", "</s>", "1.5", "e\u0301"]
VECTORS = torch.tensor([[number + 0.1, -2e-7 * number, 3e8] for number in range(7)])
FILES = {"v.bin": None, "v.vec": None, "v.txt": "glove", "v.bin.gz": None, "v.vec.gz": None, "v.txt.gz": "glove"}


def written(folder: Path, content: bytes, name: str = "v.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def refusal(path: Path, *sizes: int) -> str:
    with pytest.raises(InputError) as error:
        read_vectors(path, *sizes)
    return str(error.value)


def binary(words: list[bytes], width: int = 2, end: bytes = b"") -> bytes:
    rows = [
        word + b" " + struct.pack(f"<{width}f", *range(number, number + width)) for number, word in enumerate(words)
    ]
    return f"{len(words)} {width}\n".encode() + end.join(rows) + end


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_is_read_again_with_the_same_bits(tmp_path: Path, name: str):
    write_vectors(tmp_path / name, WORDS, VECTORS, FILES[name])
    words, vectors = read_vectors(tmp_path / name)
    assert words == WORDS
    assert torch.equal(vectors, VECTORS)


@given(
    values=st_numpy.arrays("float32", st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=st.floats(width=32)),
    format=st.sampled_from(["word2vec", "word2vec-binary"]),
)
def test_any_float32_comes_back(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, format):
    path = tmp_path_factory.mktemp("vectors") / "v.txt"
    words = [f"word{number}" for number in range(len(values))]
    write_vectors(path, words, torch.from_numpy(values), format)
    assert layout_of(path).format == format
    found, vectors = read_vectors(path)
    assert found == words
    np.testing.assert_array_equal(vectors.numpy(), values)


def test_the_first_words_are_read_of_any_format(tmp_path: Path):
    for name, format in FILES.items():
        write_vectors(tmp_path / name, WORDS, VECTORS, format)
        words, vectors = read_vectors(tmp_path / name, 3)
        assert words == WORDS[:3]
        assert torch.equal(vectors, VECTORS[:3])
        assert read_vectors(tmp_path / name, 100)[0] == WORDS


def test_a_file_without_a_header_may_have_more_words_than_there_was_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(word_vectors, "ROWS_PER_BLOCK", 1)
    monkeypatch.setattr(word_vectors, "BYTES_PER_BLOCK", 10)
    write_vectors(tmp_path / "v.txt", WORDS, VECTORS, "glove")
    words, vectors = read_vectors(tmp_path / "v.txt")
    assert words == WORDS
    assert torch.equal(vectors, VECTORS)


def test_small_pieces_of_a_binary_file_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(word_vectors, "BYTES_PER_BLOCK", 3)
    write_vectors(tmp_path / "v.bin", WORDS, VECTORS)
    words, vectors = read_vectors(tmp_path / "v.bin")
    assert words == WORDS
    assert torch.equal(vectors, VECTORS)


def test_files_of_the_original_word2vec_are_read(tmp_path: Path):
    """It ends each binary vector with a line feed, and each line of text with a space."""
    words, vectors = read_vectors(written(tmp_path, binary([b"the", b"of"], end=b"\n"), "v.bin"))
    assert words == ["the", "of"]
    assert vectors.tolist() == [[0, 1], [1, 2]]
    words, vectors = read_vectors(written(tmp_path, b"2 2\nthe 0 1 \nof 1 2 \n"))
    assert words == ["the", "of"]
    assert vectors.tolist() == [[0, 1], [1, 2]]


def test_a_word_of_glove_may_have_spaces_in_it(tmp_path: Path):
    words, vectors = read_vectors(written(tmp_path, b"the 0.5 1\n. . . 2 3\nat name@domain.com 4 5\r\n"))
    assert words == ["the", ". . .", "at name@domain.com"]
    assert vectors.tolist() == [[0.5, 1], [2, 3], [4, 5]]
    assert read_vectors(written(tmp_path, b". . 0.5 1\nthe 2 3\n"))[0] == [". .", "the"]


def test_words_that_occur_again_are_left_out_and_said(tmp_path: Path):
    for content in (binary([b"a", b"b", b"a"]), b"3 2\na 0 1\nb 1 2\na 2 3\n", b"a 0 1\nb 1 2\na 2 3\n"):
        with pytest.warns(DataWarning) as said:
            words, vectors = read_vectors(written(tmp_path, content))
        assert words == ["a", "b"]
        assert vectors.tolist() == [[0, 1], [1, 2]]
        assert str(said[0].message) == ("1 of 3 words of v.txt repeats an earlier one and is left out (first: word 3).")


def test_words_with_spaces_are_written_with_underscores_and_said(tmp_path: Path):
    with pytest.warns(DataWarning) as said:
        write_vectors(tmp_path / "v.bin", ["the", "new york"], torch.ones(2, 1))
    assert read_vectors(tmp_path / "v.bin")[0] == ["the", "new_york"]
    assert str(said[0].message) == "1 of 2 words has a space in it, which is written as _ (first: word 2)."


def test_what_is_no_file_of_word_vectors_is_refused(tmp_path: Path):
    rule = "v.txt must begin with a word and its numbers, or with the count and the width of its vectors"
    assert refusal(written(tmp_path, b"")) == f"{rule}, but got an empty file."
    assert refusal(written(tmp_path, b"PK\x03\x04 \xff")) == f"{rule}, but got 'PK\\x03\\x04 \ufffd'."
    assert refusal(written(tmp_path, b"   GNU GENERAL PUBLIC LICENSE\n")) == (
        f"{rule}, but got '   GNU GENERAL PUBLIC LICENSE'."
    )
    assert refusal(written(tmp_path, b"0 5\n")) == "v.txt must hold word vectors, but got 0 of width 5."


@pytest.mark.parametrize(
    ("content", "vectors"),
    [
        (b"2 3\n", True),
        (b"the 0.5 1\n", True),
        (b". . 0.5 1\n", True),
        (b"the 0.5\nof 1\n", True),
        (b"", False),
        (b"   GNU GENERAL PUBLIC LICENSE\n  Version 3, 29 June 2007\n", False),
        (b"Chapter 1\nIt was a dark night.\n", False),
    ],
)
def test_a_text_is_told_from_word_vectors_by_its_first_lines(content: bytes, vectors: bool, tmp_path: Path):
    assert begins_with_vectors(written(tmp_path, content)) == vectors


def test_lines_of_another_width_are_refused_by_their_number(tmp_path: Path):
    for content, line, numbers in (
        (b"the 0.5 1\nof 2\n", 2, "1 number"),
        (b"the 0.5 1\nof 2 3 4\n", 2, "3 numbers"),
        (b"2 2\nthe 0.5 1\nof 2 3 4\n", 3, "3 numbers"),
        (b"2 3\nthe 0.5 1\nof 2 3\n", 2, "2 numbers"),
        (b"the 0.5 1\nof 2 three\n", 2, "'three'"),
    ):
        width = 3 if content.startswith(b"2 3") else 2
        assert refusal(written(tmp_path, content)) == (
            f"line {line} of v.txt must be a word and {width} numbers, but got {numbers}: copy or download it again."
        )


def test_truncated_files_are_refused(tmp_path: Path):
    whole = binary([b"word%d" % number for number in range(9)], width=50)
    assert refusal(written(tmp_path, whole[:-20], "v.bin")) == (
        "v.bin must have 9 vectors, as its first line says, but got 8: copy or download it again."
    )
    assert refusal(written(tmp_path, whole[:900], "v.bin")) == (
        "v.bin must have 9 vectors of width 50, as its first line says, but got a file of 900 bytes: copy or "
        "download it again."
    )
    assert refusal(written(tmp_path, gzip.compress(whole)[:-50], "v.bin.gz")) == (
        "v.bin.gz must be a whole gzip file, but got one that is cut off or damaged: copy or download it again."
    )
    assert refusal(written(tmp_path, gzip.compress(whole[:-20]), "v.bin.gz")) == (
        "v.bin.gz must have 9 vectors, as its first line says, but got 8: copy or download it again."
    )
    assert refusal(written(tmp_path, b"3 2\nthe 0.25 0.5\nof 0.25 0.5\n")) == (
        "v.txt must have 3 vectors, as its first line says, but got 2: copy or download it again."
    )


def test_more_vectors_than_the_first_line_says_are_refused(tmp_path: Path):
    for content in (b"1 2\nthe 0 1\nof 2 3\n", binary([b"the", b"of"]).replace(b"2 2", b"1 2", 1)):
        assert refusal(written(tmp_path, content)) == (
            "v.txt must have 1 vectors, as its first line says, but got more: copy or download it again."
        )


def test_words_that_are_not_in_utf_8_are_refused(tmp_path: Path):
    for content in (binary([b"the", b"caf\xe9"]), b"the 0 1\ncaf\xe9 1 2\n"):
        assert refusal(written(tmp_path, content)) == (
            "the words of v.txt must be in UTF-8, but got 'caf�' as word 2: copy or download it again."
        )


def test_a_binary_file_whose_words_never_end_is_refused(tmp_path: Path):
    assert refusal(written(tmp_path, b"2 1\nthe \0\0\0\0" + b"x" * (1 << 15))) == (
        f"v.txt must have a space after each word, but got {'x' * 30!r} as word 2: copy or download it again."
    )


def test_a_header_that_asks_for_more_than_fits_is_refused_before_any_of_it_is_read(tmp_path: Path):
    path = written(tmp_path, gzip.compress(b"999999999999 300\nthe " + b"0 " * 300), "v.bin.gz")
    assert refusal(path).startswith("word vectors must fit into memory, but got at least 1.2 PB, of ")


def test_files_are_known_by_their_names(tmp_path: Path):
    for name in ("v.bin", "v.VEC", "v.txt.gz"):
        assert holds_vectors(tmp_path / name)
    assert not holds_vectors(tmp_path / "run.zip")
    with pytest.raises(InputError) as error:
        write_vectors(tmp_path / "v.csv", WORDS, VECTORS)
    assert str(error.value) == ("word vectors are written to a file that ends in .bin, .vec, .txt, but got 'v.csv'.")


def test_no_more_room_is_made_than_a_file_can_fill(tmp_path: Path):
    row = b" ".join([b"1"] * 2_000)
    path = written(tmp_path, b"a " + row + b"\nb " + row + b"\n")
    words, vectors = read_vectors(path, 10**12)
    assert (list(words), tuple(vectors.shape)) == (["a", "b"], (2, 2_000))


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(word_vectors, "LONGEST_LINE", 1_000)
    monkeypatch.setattr(word_vectors, "BYTES_PER_BLOCK", 10)
    path = written(tmp_path, b"a 1 1\n" + b"1" * 5_000)
    assert refusal(path).startswith("a line of v.txt may have 1,000 bytes, but got a longer one: ")
