import contextlib
import csv
import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal, write_text
from neuropil.data.tagged_texts.files import TagColumns, has_one_text_a_line, read_tagged_texts
from neuropil.errors import InputError

NOTHING = TagColumns()
CATS = [(["The", "cat", "sat"], ["DET", "NOUN", "VERB"]), (["Go", "!"], ["VERB", "PUNCT"])]
tokens = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=8)
tags = st.sampled_from(["A", "B", "I-PER"])
texts = st.lists(st.lists(st.tuples(tokens, tags), min_size=2, max_size=6), min_size=1, max_size=6)


def found(path: Path, columns: TagColumns = NOTHING) -> list[tuple[list[str], list[str]]]:
    read, _ = read_tagged_texts(path, columns)
    return [(list(text), list(tags)) for text, tags in zip(read.tokens, read.tags, strict=True)]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.tsv", ["The\tDET", "cat\tNOUN", "sat\tVERB", "", "Go\tVERB", "!\tPUNCT"]),
        (
            "a.conll",
            [
                "-DOCSTART- -X- O",
                "",
                "The DT B DET",
                "cat NN I NOUN",
                "sat VB O VERB",
                "",
                "",
                "Go VB O VERB",
                "! . O PUNCT",
                "",
            ],
        ),
        (
            "a.conllu",
            [
                "# text = The cat sat",
                "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_",
                "2-3\tcatsat\t_\t_\t_\t_\t_\t_\t_\t_",
                "2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_",
                "3\tsat\tsit\tVERB\tVB\t_\t0\troot\t_\t_",
                "3.1\t_\t_\t_\t_\t_\t_\t_\t_\t_",
                "",
                "1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_",
                "2\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_",
            ],
        ),
        ("b.tsv", ["The cat sat\tDET NOUN VERB", "", "Go !\tVERB PUNCT"]),
        ("c.tsv", ["DET NOUN VERB\tThe cat sat", "VERB PUNCT\tGo !"]),
        ("d.tsv", ["tokens\ttags", "The cat sat\tDET NOUN VERB", "Go !\tVERB PUNCT"]),
        ("e.csv", ["POS,id,Sentence", "DET NOUN VERB,1,The cat sat", "VERB PUNCT,2,Go !"]),
    ],
)
def test_the_same_tags_are_read_from_every_layout(tmp_path: Path, name: str, lines: list[str]):
    path = write_text(tmp_path / name, *lines)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert found(path) == found(tmp_path / f"{name}.gz") == CATS
    assert read_tagged_texts(path, NOTHING)[0].source == f"2 texts with 4 tags ({name})"


def test_names_in_the_first_line_are_mentioned(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "tokens\ttags", "The cat\tDET NOUN", "Go now\tVERB ADV", "The cat\tDET NOUN")
    assert read_tagged_texts(path, NOTHING)[1] == [
        "The first line of a.tsv is taken for the names of its columns: 'tokens' is tagged with 'tags'.",
        "1 of 3 texts is an exact copy of an earlier one (first: line 4).",
    ]
    assert len(read_tagged_texts(path, TagColumns("tokens", "tags"))[1]) == 1


def test_columns_may_be_chosen_by_name(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "words\tchunks\tpos", "The cat\tB I\tDET NOUN")
    assert found(path, TagColumns("words", "chunks")) == [(["The", "cat"], ["B", "I"])]
    assert found(path, TagColumns(tags="pos")) == [(["The", "cat"], ["DET", "NOUN"])]


@settings(deadline=None, max_examples=80)
@given(texts)
def test_what_was_written_a_token_a_line_is_read(rows: list[list[tuple[str, str]]]):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tsv"
        path.write_text("\n".join("".join(f"{token}\t{tag}\n" for token, tag in row) for row in rows), encoding="utf-8")
        assert found(path) == [([token for token, _ in row], [tag for _, tag in row]) for row in rows]


@settings(deadline=None, max_examples=80)
@given(texts)
def test_what_was_written_a_text_a_line_is_read(rows: list[list[tuple[str, str]]]):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = [(" ".join(token for token, _ in row), " ".join(tag for _, tag in row)) for row in rows]
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("text", "tags"), *lines])
        assert found(path) == [([token for token, _ in row], [tag for _, tag in row]) for row in rows]


def test_a_file_shows_its_layout(tmp_path: Path):
    assert has_one_text_a_line(write_text(tmp_path / "a.csv", "x,y"))
    assert has_one_text_a_line(write_text(tmp_path / "a.tsv", "a\tX", "a b\tX Y"))
    assert not has_one_text_a_line(write_text(tmp_path / "b.tsv", "a\tX", "b\tY"))
    assert not has_one_text_a_line(write_text(tmp_path / "c.conll", "New York\tB", "is\tO"))


@pytest.mark.parametrize(
    ("name", "lines", "columns", "sentence"),
    [
        ("a.tsv", [""], NOTHING, "a.tsv must hold texts with tags, but got an empty file."),
        (
            "a.tsv",
            ["The\tDET", "cat"],
            NOTHING,
            "each line of a.tsv must hold a token and its tag, with a tab between them, but got no tag for 'cat' in line 2.",
        ),
        (
            "a.tsv",
            ["The\tDET", "\tNOUN"],
            NOTHING,
            "each line of a.tsv must hold a token and its tag, with a tab between them, but got no token for 'NOUN' in line 2.",
        ),
        (
            "a.tsv",
            ["a b\tX Y", "a b c\tX Y"],
            NOTHING,
            "each line of a.tsv must have as many tags as tokens, with spaces between them, but got 2 tags for 3 tokens in line 2.",
        ),
        (
            "a.csv",
            ["a b,X Y", "a"],
            NOTHING,
            "each line of a.csv must have 2 columns, as the first has, but got 1 in line 2.",
        ),
        (
            "a.csv",
            ["a b,c d,X Y"],
            NOTHING,
            "a.csv must have two columns, or two that you name, but got 3: a b, c d, X Y: "
            "choose with --text-column and --tags-column, which name columns in the first line.",
        ),
        (
            "a.csv",
            ["text,tags", "a,X"],
            TagColumns("txt"),
            "a.csv must have the column 'txt', but got text, tags: did you mean 'text'?",
        ),
        (
            "a.csv",
            ["text,tags", "a,X"],
            TagColumns("text", "text"),
            "texts and tags must be different columns, but got 'text' for both.",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_one_sentence(
    tmp_path: Path, name: str, lines: list[str], columns: TagColumns, sentence: str
):
    assert refusal(read_tagged_texts, write_text(tmp_path / name, *lines), columns) == sentence


def test_a_missing_file_is_missed(tmp_path: Path):
    write_text(tmp_path / "tags.tsv", "a\tX")
    path = tmp_path / "tag.tsv"
    assert refusal(read_tagged_texts, path, NOTHING) == (
        f"texts are read from files that exist, but got {path.as_posix()!r}: did you mean 'tags.tsv'?"
    )


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(["a.tsv", "b.tsv", "c.csv"]), st.data())
def test_whatever_happens_to_a_file_it_is_read_or_refused(name: str, data: st.DataObject):
    content = {
        "a.tsv": b"The\tDET\ncat\tNOUN\n\nGo\tVERB\n",
        "b.tsv": b"The cat\tDET NOUN\nGo on\tV P\n",
        "c.csv": b'text,tags\n"a b",X Y\n',
    }
    damaged = bytearray(content[name])
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(InputError):
        path = Path(folder) / name
        path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
        assert all(len(text) == len(tags) for text, tags in found(path))
