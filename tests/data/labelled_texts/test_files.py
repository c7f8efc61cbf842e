import contextlib
import csv
import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal, write_text
from neuropil.data.formats.memory import in_memory
from neuropil.data.labelled_texts.dataset import LabelledTexts
from neuropil.data.labelled_texts.embedded import LIBRARIES
from neuropil.data.labelled_texts.files import (
    LONG,
    LabelledTextConfig,
    TextColumns,
    as_labels,
    prepare_labelled_texts,
    read_labelled_file,
    read_labelled_texts,
)
from neuropil.errors import InputError

GOOD, BAD = "a film to love for its music", "a film of two dull hours"
NOTHING = TextColumns()
words = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=30).filter(str.strip)


def found(path: Path, wanted: TextColumns = NOTHING, classes: tuple[str, ...] | None = None) -> list[tuple[str, str]]:
    file = read_labelled_file(path, wanted, classes)
    positions, names = file.labels.named()
    return [(text, names[position]) for text, position in zip(file.texts, positions, strict=True)]


ROWS = [(GOOD, "pos"), (BAD, "neg"), ("so good", "pos"), ("so bad", "neg")]


@pytest.mark.parametrize(
    "header", [None, "label\ttext", "sentiment\treview", "Class\tMessage", "polarity_of\twhat_they_said"]
)
def test_columns_are_recognised_in_either_order_with_or_without_names(tmp_path: Path, header: str | None):
    lines = [f"{label}\t{text}" for text, label in ROWS]
    for turned in (False, True):
        written = [*([header] if header else []), *lines]
        written = ["\t".join(reversed(line.split("\t"))) for line in written] if turned else written
        assert found(write_text(tmp_path / "a.tsv", *written)) == ROWS


def test_names_are_mentioned_unless_the_user_gave_them(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", "label\ttext", *(f"{label}\t{text}" for text, label in ROWS))
    note = "The first row of a.tsv is taken for the names of its columns: 'text' tells 'label'."
    assert read_labelled_file(path, NOTHING).notes == [note]
    assert read_labelled_file(path, TextColumns(text="text")).notes == [note]
    assert read_labelled_file(path, TextColumns("text", "label")).notes == []


def test_a_label_that_comes_again_is_no_name(tmp_path: Path):
    """Whatever the words of the first line are."""
    path = write_text(tmp_path / "a.tsv", "class\tgo there", "text\tdo that", "class\tsee this", "text\thear it")
    assert found(path)[0] == ("go there", "class")


def test_the_same_texts_are_read_from_every_format(tmp_path: Path):
    tsv = write_text(tmp_path / "a.tsv", *(f"{text}\t{label}" for text, label in ROWS))
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(tsv.read_bytes()))
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=";").writerows(ROWS)
    for name in ("a.tsv", "a.tsv.gz", "a.csv"):
        assert found(tmp_path / name) == ROWS


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(words, st.sampled_from(["0", "1", "2"])), min_size=6, max_size=30), st.booleans())
def test_what_was_written_is_read(rows: list[tuple[str, str]], turned: bool):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
                [("y", "text"), *((b, a) for a, b in rows)] if turned else [("text", "y"), *rows]
            )
        assert found(path) == rows


def test_columns_asked_for_by_name_are_found_among_several(tmp_path: Path):
    path = write_text(
        tmp_path / "a.tsv", "id\tstars\ttitle\tbody of it", "1\t5\tfine\tgood", "2\t1\tbad\tdull", "3\t5\tfine\tnice"
    )
    assert found(path, TextColumns("title", "stars")) == [("fine", "5"), ("bad", "1"), ("fine", "5")]
    assert found(path, TextColumns("body of it", "stars")) == [("good", "5"), ("dull", "1"), ("nice", "5")]


def test_usual_names_are_enough_among_several_columns(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "id,Label,split,Text", "1,x,train,one", "2,y,train,two", "3,x,test,three")
    assert found(path) == [("one", "x"), ("two", "y"), ("three", "x")]


def test_numbers_are_classes_in_their_order_and_names_in_that_of_the_alphabet():
    assert as_labels(["10", "2", "2.0", "10"]).occurring() == ("2", "10")
    assert as_labels(["b", "10", "a"]).occurring() == ("10", "a", "b")
    assert as_labels(["nan", "inf"]).occurring() == ("inf", "nan")
    np.testing.assert_array_equal(as_labels(["b", "a", "b"]).values, [0, 1, 0])


def test_labels_that_differ_by_case_are_said_and_only_booleans_are_one(tmp_path: Path):
    rows = [f"text {i}\t{['True', 'true', 'maybe', 'Maybe'][i % 4]}" for i in range(20)]
    texts, notes = read_labelled_texts(write_text(tmp_path / "a.tsv", *rows), TextColumns())
    assert texts.classes == ("Maybe", "True", "maybe")
    assert texts.targets[:4].tolist() == [1, 1, 2, 0]
    assert notes == [
        "The column of labels holds 'True', 'true', which are one value.",
        "The column of labels holds values that differ by case only, and they are told apart: ('Maybe', 'maybe').",
    ]
    again, _ = read_labelled_texts(
        write_text(tmp_path / "b.tsv", "TRUE\tone", "true\ttwo"), TextColumns(), texts.classes
    )
    assert again.targets.tolist() == [1, 1]


def test_what_is_odd_is_counted_and_only_what_says_nothing_is_left_out(tmp_path: Path):
    long = "so long " * LONG
    lines = [
        f"{GOOD}\tpos",
        f"{BAD}\tneg",
        " \tpos",
        "no label\t",
        f"{GOOD}\tpos",
        f"{BAD}\tpos",
        f"{long}\tneg",
        "",
        "\t",
    ]
    file = read_labelled_file(write_text(tmp_path / "a.tsv", *lines), NOTHING)
    assert list(file.texts) == [GOOD, BAD, GOOD, BAD, long]
    assert file.rows == [1, 2, 5, 6, 7]
    assert file.notes == [
        "1 of 7 texts is empty and is left out (first: row 3).",
        "1 of 7 texts has no label and is left out (first: row 4).",
        "1 of 7 texts has more than 20,000 characters (first: row 7).",
        "1 of 7 texts is an exact copy of an earlier one (first: row 5).",
        "1 of 7 texts has another label than an earlier copy of it (first: row 6).",
    ]


def test_classes_of_a_model_tell_labels_from_texts_in_a_file_of_one_line(tmp_path: Path):
    classes = ("neg", "pos")
    assert found(write_text(tmp_path / "a.tsv", "dull\tneg"), NOTHING, classes) == [("dull", "neg")]
    assert found(write_text(tmp_path / "b.tsv", "neg\tdull"), NOTHING, classes) == [("dull", "neg")]
    assert found(write_text(tmp_path / "c.tsv", "mood\twords", "neg\tdull"), NOTHING, classes) == [("dull", "neg")]


@pytest.mark.parametrize(
    ("lines", "wanted", "sentence"),
    [
        ([""], NOTHING, "a.tsv must hold texts with labels, but got an empty file."),
        (
            ["one text"],
            NOTHING,
            "a.tsv must have two columns with a tab between them, a text and its label, but got one.",
        ),
        (["a\tb", "c"], NOTHING, "each row of a.tsv must have 2 cells, as the first has, but got 1 in row 2."),
        (["text\tlabel", "a\t"], NOTHING, "a.tsv must hold texts with labels, but got none."),
        (
            ["one\ttwo\tthree", "a\tb\tc"],
            NOTHING,
            "a.tsv must have one column of texts and one of labels, such as text and label, "
            "but got 3: one, two, three: "
            "name them with --text-column and --label-column.",
        ),
        (
            ["text\tlabel", "a\tb"],
            TextColumns("txt", None),
            "a.tsv must have the column 'txt', but got text, label: did you mean 'text'?",
        ),
        (
            ["text\tlabel", "a\tb"],
            TextColumns("text", "text"),
            "texts and labels must be different columns, but got 'text' for both.",
        ),
        (
            ["id\ttext\tmood", "1\ta\tb"],
            TextColumns("text"),
            "a.tsv must have one column of texts and one of labels, such as text and label, but got 3: id, text, mood: "
            "name them with --text-column and --label-column.",
        ),
        (
            [f"{number}\ttext {number}" for number in range(1_000)],
            NOTHING,
            "labels of a.tsv must repeat, for a class is learned from several texts, "
            "but got 1,000 different ones for 1,000 texts: "
            "name the right column with --label-column.",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_one_sentence(
    tmp_path: Path, lines: list[str], wanted: TextColumns, sentence: str
):
    assert refusal(read_labelled_file, write_text(tmp_path / "a.tsv", *lines), wanted) == sentence


def test_a_csv_needs_no_tab(tmp_path: Path):
    assert (
        refusal(read_labelled_file, write_text(tmp_path / "a.csv", "a"), NOTHING)
        == "a.csv must have two columns, a text and its label, but got one."
    )


@settings(deadline=None, max_examples=100)
@given(st.booleans(), st.data())
def test_whatever_happens_to_a_file_it_is_read_or_refused(packed: bool, data: st.DataObject):
    content = "".join(f"{label}\t{text}\n" for text, label in ROWS).encode()
    content = bytearray(gzip.compress(content, mtime=0) if packed else content)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(InputError):
        path = Path(folder) / "a.tsv"
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        assert all(text.strip() and label for text, label in found(path))


def reviews(path: Path, count: int = 50, *more: str) -> Path:
    return write_text(
        path,
        "label\ttext",
        *(f"{kind}\ttext {number} is {kind}" for number in range(count) for kind in ("good", "bad")),
        *more,
    )


def test_parts_are_disjoint_whole_and_stratified(tmp_path: Path):
    splits = prepare_labelled_texts(LabelledTextConfig(data=reviews(tmp_path / "a.tsv")), 0)
    parts = [splits.train, splits.validation, splits.test]
    assert [len(part) for part in parts] == [72, 8, 20]
    assert [part.targets.bincount().tolist() for part in parts] == [[36, 36], [4, 4], [10, 10]]
    assert len({text for part in parts for text in part.texts}) == 100
    assert splits.train.classes == ("bad", "good")
    assert splits.train.source == "100 texts in 2 classes (a.tsv)"
    assert all(
        text.endswith(splits.test.classes[target])
        for text, target in zip(splits.test.texts, splits.test.targets.tolist(), strict=True)
    )


def test_copies_of_one_text_are_in_one_part(tmp_path: Path):
    copies = [f"good\tcopied {number}" for number in range(20) for _ in range(3)]
    splits = prepare_labelled_texts(LabelledTextConfig(data=reviews(tmp_path / "a.tsv", 20, *copies)), 0)
    train, validation, test = (set(part.texts) for part in (splits.train, splits.validation, splits.test))
    assert not train & test
    assert not train & validation
    assert not validation & test
    assert splits.notes[1] == "40 of 100 texts are exact copies of earlier ones (first: row 43)."


def test_rare_classes_are_kept_and_mentioned(tmp_path: Path):
    splits = prepare_labelled_texts(
        LabelledTextConfig(data=reviews(tmp_path / "a.tsv", 20, "odd\tthe only one of its kind")), 0
    )
    assert splits.notes[-1] == (
        "1 class has fewer than 5 texts (the rarest: 'odd' with 1), so that little can be learned about them."
    )
    assert "the only one of its kind" in splits.train.texts


def test_the_embedded_texts_are_sentences_of_libraries_and_none_is_in_two_parts():
    splits = prepare_labelled_texts(LabelledTextConfig(), 0)
    assert splits.train.classes == tuple(sorted(LIBRARIES))
    total = len(splits.train) + len(splits.validation) + len(splits.test)
    assert len({*splits.train.texts, *splits.validation.texts, *splits.test.texts}) == total > 8_000
    assert splits.train.source == f"{total:,} first sentences of docstrings in 9 libraries, as installed"
    assert splits.notes == ["No sentence occurs twice, in whatever library, case or spacing."]


def test_parts_follow_the_seed(tmp_path: Path):
    config = LabelledTextConfig(data=reviews(tmp_path / "a.tsv"))
    first, again, other = (prepare_labelled_texts(config, seed) for seed in (1, 1, 2))
    assert first.test.texts == again.test.texts
    assert first.test.texts != other.test.texts


def test_labels_of_another_file_are_those_of_the_model(tmp_path: Path):
    found, _ = read_labelled_texts(
        write_text(tmp_path / "a.tsv", "3.0\tgreat", "1\tpoor"), TextColumns(), ("1", "2", "3")
    )
    assert found.targets.tolist() == [2, 0]
    assert refusal(
        read_labelled_texts, write_text(tmp_path / "b.tsv", "a\tpos", "b\tposs"), TextColumns(), ("neg", "pos")
    ) == ("each label must be a class of the training data, but got 'poss' (b.tsv row 2): did you mean 'pos'?")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["a\tgood", "b\tgood", "c\tgood"], "a.tsv must have texts of at least 2 classes, but got only 'good'."),
        (
            ["a\tgood"] * 3 + ["a\tbad"] * 3,
            "a.tsv must hold different texts, some to learn from and some to score, but got 1.",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(tmp_path: Path, lines: list[str], sentence: str):
    path = write_text(tmp_path / "a.tsv", "text\tlabel", *lines)
    assert refusal(prepare_labelled_texts, LabelledTextConfig(data=path), 0) == sentence


def test_the_embedded_texts_have_no_columns():
    assert refusal(prepare_labelled_texts, LabelledTextConfig(label_column="x"), 0) == (
        "columns are named in a TSV or CSV, but got names for the embedded texts: leave them out."
    )


def test_taking_texts_keeps_their_classes():
    texts = LabelledTexts(["a", "b", "c"], torch.tensor([0, 1, 0]), ("x", "y"), "")
    taken = texts.take(torch.tensor([2, 1]))
    assert (taken.texts, taken.targets.tolist()) == (["c", "b"], [0, 1])


def test_texts_that_read_alike_are_always_in_the_same_part(tmp_path: Path):
    """In whatever case, spacing or Unicode spelling."""
    alike = [(f"Good film {n}", f"good  FILM {n} ", f"ｇｏｏｄ film {n}") for n in range(40)]
    path = write_text(
        tmp_path / "a.tsv", *(f"{text}\t{'np'[n % 2]}" for n, texts in enumerate(alike) for text in texts)
    )
    splits = prepare_labelled_texts(LabelledTextConfig(data=path, validation=0.2, test=0.3), 0)
    parts = [{int(text.split()[-1]) for text in part.texts} for part in (splits.train, splits.validation, splits.test)]
    assert not (parts[0] & parts[1] | parts[1] & parts[2] | parts[0] & parts[2])
    assert [*map(len, parts)] == [23, 5, 12]


def test_columns_may_be_given_by_number(tmp_path: Path):
    path = write_text(tmp_path / "a.tsv", *(f"{n}\t{label}\t{text}" for n, (text, label) in enumerate(ROWS)))
    assert found(path, TextColumns("3", "2")) == ROWS


def test_the_index_that_pandas_writes_does_not_hide_the_names(tmp_path: Path):
    rows = [",text,label", *(f"{index},film {index},{'good' if index % 2 else 'bad'}" for index in range(20))]
    splits = prepare_labelled_texts(LabelledTextConfig(data=write_text(tmp_path / "a.csv", *rows)), 0)
    assert splits.train.classes == ("bad", "good")


def test_a_name_that_two_columns_have_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "text,label,label", *(f"film {index},good,bad" for index in range(20)))
    assert refusal(prepare_labelled_texts, LabelledTextConfig(data=path), 0) == (
        "a.csv must name each of its columns once, but got 'label' twice: "
        "rename one, or add --label-column with a number."
    )


@pytest.mark.parametrize(
    "given",
    [
        ([text for text, _ in ROWS], np.array([label for _, label in ROWS])),
        ROWS,
        pd.DataFrame(ROWS, columns=["review", "label"]),
        {"label": [label for _, label in ROWS], "id": [1, 2, 3, 4], "text": [text for text, _ in ROWS]},
    ],
)
def test_texts_in_memory_are_those_of_a_file(tmp_path: Path, given: Any):
    file, _ = read_labelled_texts(write_text(tmp_path / "a.tsv", *map("\t".join, ROWS)), NOTHING)
    texts, notes = read_labelled_texts(in_memory(given), NOTHING)
    assert texts.texts == file.texts
    assert torch.equal(texts.targets, file.targets)
    assert texts.classes == file.classes == ("neg", "pos")
    assert notes == []


def test_texts_in_memory_are_noted_as_those_of_a_file_and_columns_can_be_named():
    frame = pd.DataFrame({"a": [GOOD, GOOD, "", BAD, BAD], "b": [1, 1, 0, 0, None], "c": ["x"] * 5})
    texts, notes = read_labelled_texts(in_memory(frame), TextColumns("a", "b"))
    assert texts.classes == ("0", "1")
    assert texts.source == "3 texts in 2 classes (DataFrame in memory)"
    assert notes == [
        "1 of 5 texts is empty and is left out (first: row 2).",
        "1 of 5 texts has no label and is left out (first: row 4).",
        "1 of 5 texts is an exact copy of an earlier one (first: row 1).",
    ]
    assert refusal(read_labelled_texts, in_memory(frame), NOTHING) == (
        "DataFrame in memory must have one column of texts and one of labels, such as text and label, "
        "but got 3: a, b, c: name them with --text-column and --label-column."
    )


def test_numbers_are_no_texts():
    assert refusal(read_labelled_texts, in_memory((np.zeros((3, 2)), [1, 2, 1])), NOTHING) == (
        "column 'x' of the arrays in memory must hold a number or a text in each row, "
        "but got 3×2 values of type float64."
    )


def test_parts_of_texts_are_kept_as_they_are():
    train, test = ([f"text {i}" for i in range(20)], ["a", "b"] * 10), (["text 3", "new", ""], ["b", "a", "a"])
    splits = prepare_labelled_texts(LabelledTextConfig(data=in_memory((train, test), parts=True)), 0)
    assert (len(splits.train), len(splits.validation), splits.test.texts) == (18, 2, ["text 3", "new"])
    assert splits.test.targets.tolist() == [1, 0]
    assert "Test part: 1 of 3 texts is empty and is left out (first: row 2)." in splits.notes
    assert "1 of 2 texts of the test part is in the training part too." in splits.notes


# --- weights --------------------------------------------------------------------------------------------------------


def weighted_rows(count: int = 20) -> list[tuple[str, str, float]]:
    return [(f"{GOOD if row % 2 else BAD} {row}", "good" if row % 2 else "bad", float(row % 4)) for row in range(count)]


def test_a_column_of_weights_stays_with_its_texts(tmp_path: Path):
    rows = weighted_rows()
    lines = [f"{weight}\t{text}\t{label}" for text, label, weight in rows]
    path = write_text(tmp_path / "reviews.tsv", "w\ttext\tlabel", *lines)
    table = pd.DataFrame(rows, columns=["text", "label", "w"])
    apart = tuple(table[name].tolist() for name in ("text", "label", "w"))
    expected = {text: weight for text, _, weight in rows if weight}
    for source, column in ((path, "w"), (in_memory(table), "w"), (in_memory(apart), None)):
        texts, notes = read_labelled_texts(source, NOTHING, weight=column)
        assert texts.weights is not None
        assert dict(zip(texts.texts, texts.weights.tolist(), strict=True)) == expected
        first = 2 if source is path else 0
        assert f"5 of 20 texts have a weight of 0 and are left out (first: row {first})." in notes
    splits = prepare_labelled_texts(LabelledTextConfig(data=path, weight_column="w"), 0)
    for part in splits.parts.values():
        assert part.weights is not None
        assert part.weights.tolist() == [expected[text] for text in part.texts]


def test_bad_weights_of_texts_are_refused_with_their_row(tmp_path: Path):
    lines = [f"{text}\t{label}\t{weight - 1}" for text, label, weight in weighted_rows()]
    path = write_text(tmp_path / "reviews.tsv", "text\tlabel\tw", *lines)
    assert refusal(lambda: read_labelled_texts(path, NOTHING, weight="w")) == (
        "a weight must be a finite number, 0 or more, but got -1 (reviews.tsv row 2)."
    )
    assert refusal(lambda: prepare_labelled_texts(LabelledTextConfig(weight_column="w"), 0)) == (
        "columns are named in a TSV or CSV, but got names for the embedded texts: leave them out."
    )
