"""Texts of a user's files, which may be tables with labels."""

from itertools import chain
from pathlib import Path

import pytest

from neuropil.errors import InputError
from neuropil.tasks.texts import read_texts, texts_of, too_long_note


def texts_in(path: Path) -> list[str]:
    return list(chain.from_iterable(texts_of([str(path)], [])))


def test_it_is_said_how_many_are_too_long():
    for count, total, have in ((1, 8_625, "texts has"), (1, 1, "text has"), (1_200, 8_625, "texts have")):
        assert too_long_note(count, total, "text", 512, ", and are cut") == [
            f"{count:,} of {total:,} training {have} more than 512 tokens, and are cut."
        ]
    assert too_long_note(0, 8_625, "text", 512, "") == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("reviews.tsv", "label\tReview\ngood\ta fine, fine film\n\nbad\tit is long\n"),
        ("reviews.csv", 'label,text\ngood,"a fine, fine film"\n\nbad,it is long\n'),
    ],
)
def test_of_a_table_with_labels_the_column_of_texts_is_read(name: str, content: str, tmp_path: Path):
    path = tmp_path / name
    path.write_text(content)
    assert texts_in(path) == ["a fine, fine film", "it is long"]
    assert read_texts([path]) == (["a fine, fine film", "it is long"], [f"{name} line 2", f"{name} line 4"])


def test_a_table_without_names_is_refused_before_a_label_is_read_as_text(tmp_path: Path):
    path = tmp_path / "reviews.tsv"
    path.write_text("a fine film\tgood\nit is long\tbad\n")
    with pytest.raises(InputError) as caught:
        texts_in(path)
    assert str(caught.value) == (
        "the first row of reviews.tsv must name its column of texts, such as text, but got 2 columns: a fine film, "
        "good: add a row of names; or call it .txt, if each line is a text."
    )


@pytest.mark.parametrize("name", ["reviews.txt", "reviews.tsv"])
def test_each_line_of_other_files_is_a_text(name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_text("text, a\nit is long\n")
    assert read_texts([path, Path("a fine film")]) == (
        ["text, a", "it is long", "a fine film"],
        [f"{name} line 1", f"{name} line 2", "a fine film"],
    )
