from pathlib import Path

import pytest
import torch

from data.written_files import refusal, write_text
from neuropil.data.labelled_texts.dataset import (
    LabelledTextConfig,
    LabelledTexts,
    prepare_labelled_texts,
    read_labelled_texts,
)
from neuropil.data.labelled_texts.embedded import LIBRARIES
from neuropil.data.labelled_texts.files import TextColumns


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
    assert splits.notes[1] == "40 of 100 texts are exact copies of earlier ones (first: line 43)."


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
    ) == ("each label must be a class of the training data, but got 'poss' (b.tsv line 2): did you mean 'pos'?")


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
