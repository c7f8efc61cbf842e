import contextlib
import csv
import gzip
import tempfile
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal, write_text
from neuropil.data.formats.memory import in_memory
from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.data.tagged_texts.files import (
    NUM_DATES,
    TagColumns,
    TaggedTextConfig,
    has_one_text_a_line,
    prepare_tagged_texts,
    read_tagged_texts,
)
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
        "The first row of a.tsv is taken for the names of its columns: 'tokens' is tagged with 'tags'.",
        "1 of 3 texts is an exact copy of an earlier one (first: row 4).",
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
            "each line of a.tsv must hold a token and its tag, with a tab between them, "
            "but got no tag for 'cat' in line 2.",
        ),
        (
            "a.tsv",
            ["The\tDET", "\tNOUN"],
            NOTHING,
            "each line of a.tsv must hold a token and its tag, with a tab between them, "
            "but got no token for 'NOUN' in line 2.",
        ),
        (
            "a.tsv",
            ["a b\tX Y", "a b c\tX Y"],
            NOTHING,
            "each row of a.tsv must have as many tags as tokens, with spaces between them, "
            "but got 2 tags for 3 tokens in row 2.",
        ),
        (
            "a.csv",
            ["a b,X Y", "a"],
            NOTHING,
            "each row of a.csv must have 2 cells, as the first has, but got 1 in row 2.",
        ),
        (
            "a.csv",
            ["a b,c d,X Y"],
            NOTHING,
            "a.csv must have one column of texts and one of tags, such as text and tags, but got 3: a b, c d, X Y: "
            "name them with --text-column and --tags-column.",
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
    path, meant = tmp_path / "tag.tsv", (tmp_path / "tags.tsv").as_posix()
    assert refusal(read_tagged_texts, path, NOTHING) == (
        f"texts are read from files that exist, but got {path.as_posix()!r}: did you mean {meant!r}?"
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


def tagged(path: Path, count: int = 50) -> Path:
    return write_text(path, *(f"word{number} ends\tNOUN VERB" for number in range(count) for _ in range(2)))


def test_copies_of_one_text_are_in_one_part(tmp_path: Path):
    splits = prepare_tagged_texts(TaggedTextConfig(data=tagged(tmp_path / "a.tsv")), 0)
    parts = [splits.train, splits.validation, splits.test]
    assert [len(part) for part in parts] == [72, 8, 20]
    assert len({(place, *text) for place, part in enumerate(parts) for text in part.tokens}) == 50
    assert splits.notes == ["50 of 100 texts are exact copies of earlier ones (first: row 2)."]


def test_the_embedded_dates_are_split_as_asked_for():
    splits = prepare_tagged_texts(TaggedTextConfig(test=0.1, validation=0.2), 0)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [7_200, 1_800, 1_000]
    assert splits.train.source == f"{NUM_DATES:,} dates in 17 languages (Babel)"
    assert splits.train.kind == "characters"


def test_parts_follow_the_seed(tmp_path: Path):
    config = TaggedTextConfig(data=tagged(tmp_path / "a.tsv"))
    first, again, other = (prepare_tagged_texts(config, seed) for seed in (1, 1, 2))
    assert first.test.tokens == again.test.tokens
    assert first.test.tokens != other.test.tokens


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["a b\tX X", "c d\tX X"], "a.tsv must have at least 2 tags, but got only 'X'."),
        (
            ["a b\tX Y", "a b\tX Y"],
            "a.tsv must hold at least 2 different texts, one to learn from and one to score, "
            "but got 1: separate texts by empty lines.",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(tmp_path: Path, lines: list[str], sentence: str):
    assert refusal(prepare_tagged_texts, TaggedTextConfig(data=write_text(tmp_path / "a.tsv", *lines)), 0) == sentence


def test_the_embedded_dates_have_no_columns():
    assert refusal(prepare_tagged_texts, TaggedTextConfig(text_column="x"), 0) == (
        "columns are named in a TSV or CSV, but got names for the embedded dates: leave them out."
    )


def test_taking_texts_keeps_tags_and_groups():
    texts = TaggedTexts([["a"], ["b", "c"]], [["X"], ["Y", "Z"]], ["one", "two"], "words", "")
    taken = texts.take(torch.tensor([1]))
    assert (taken.tokens, taken.tags, taken.groups) == ([["b", "c"]], [["Y", "Z"]], ["two"])
    assert len(taken) == 1


def test_texts_that_read_alike_are_always_in_the_same_part(tmp_path: Path):
    """In whatever case or Unicode spelling."""
    alike = [(f"Good film {n}", f"good  FILM {n}", f"ｇｏｏｄ film {n}") for n in range(40)]
    path = write_text(tmp_path / "a.tsv", *(f"{text}\tA N D" for texts in alike for text in texts))
    splits = prepare_tagged_texts(TaggedTextConfig(data=path, validation=0.2, test=0.3), 0)
    parts = [{int(text[-1]) for text in part.tokens} for part in (splits.train, splits.validation, splits.test)]
    assert not (parts[0] & parts[1] | parts[1] & parts[2] | parts[0] & parts[2])
    assert [*map(len, parts)] == [23, 5, 12]


def test_the_index_that_pandas_writes_does_not_hide_the_names(tmp_path: Path):
    rows = [",text,tags", *(f"{index},a b {index},A B C" for index in range(20))]
    splits = prepare_tagged_texts(TaggedTextConfig(data=write_text(tmp_path / "a.csv", *rows)), 0)
    assert sum(len(part) for part in splits.parts.values()) == 20


@pytest.mark.parametrize(
    "given",
    [
        CATS,
        ([tokens for tokens, _ in CATS], [tags for _, tags in CATS]),
        ([" ".join(tokens) for tokens, _ in CATS], [" ".join(tags) for _, tags in CATS]),
        pd.DataFrame(CATS, columns=["tokens", "ner_tags"]),
        datasets.Dataset.from_dict(
            {"id": [1, 2], "tokens": [CATS[0][0], CATS[1][0]], "tags": [CATS[0][1], CATS[1][1]]}
        ),
    ],
)
def test_texts_in_memory_are_tagged_as_those_of_a_file(given: Any):
    found, notes = read_tagged_texts(in_memory(given), NOTHING)
    assert [*zip(found.tokens, found.tags, strict=True)] == CATS
    assert found.source.startswith("2 texts with 4 tags (")
    assert notes == []


def test_texts_in_memory_must_have_as_many_tags_as_tokens():
    assert refusal(read_tagged_texts, in_memory([(["a", "b"], ["A", "B"]), (["a"], ["A", "B"])]), NOTHING) == (
        "each row of list in memory must have as many tags as tokens, with spaces between them, "
        "but got 2 tags for 1 token in row 1."
    )


def test_parts_of_tagged_texts_are_kept_as_they_are():
    given = {"train": [([f"w{i}", "x"], ["A", "B"]) for i in range(20)], "test": [(["y"], ["A"])]}
    splits = prepare_tagged_texts(TaggedTextConfig(data=in_memory(given, parts=True)), 0)
    assert (len(splits.train), len(splits.validation)) == (18, 2)
    assert (splits.test.tokens, splits.test.tags) == ([["y"]], [["A"]])
