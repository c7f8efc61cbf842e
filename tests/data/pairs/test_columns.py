import pytest

from data.written_files import refusal
from neuropil.data.pairs.columns import are_names, choose_columns


@pytest.mark.parametrize(
    "cells",
    [
        "source target",
        "src tgt",
        "en de",
        "EN DE",
        "English German",
        "input output",
        "pt_BR en-GB",
        "zh-hans en",
        "text fa",
    ],
)
def test_usual_words_and_languages_name_columns(cells: str):
    assert are_names(cells.split())


@pytest.mark.parametrize(
    "cells", ["Hello Hallo", "war Krieg", "en en", "source Quelle", "der the", "English Englisch", "1 2"]
)
def test_other_texts_do_not(cells: str):
    assert not are_names(cells.split())


def test_columns_are_chosen_by_name():
    names = ["id", "en", "de"]
    assert choose_columns(names, ("de", "en"), "a.tsv") == (2, 1)
    assert choose_columns(names[1:], ("de", None), "a.tsv") == (1, 0)
    assert choose_columns(names[1:], (None, "de"), "a.tsv") == (0, 1)
    assert choose_columns(names[1:], (None, None), "a.tsv") is None


def test_a_missing_column_is_offered_the_nearest():
    assert refusal(choose_columns, ["english", "german"], ("englisch", None), "a.tsv") == (
        "a.tsv must have the column 'englisch', but got english, german: did you mean 'english'?"
    )


@pytest.mark.parametrize("wanted", [(None, None), ("en", None), (None, "de")])
def test_of_more_than_two_columns_both_must_be_named(wanted: tuple[str | None, str | None]):
    assert refusal(choose_columns, ["id", "en", "de"], wanted, "a.tsv") == (
        "a.tsv must have two columns, or two that you name, but got 3: id, en, de: choose two with --source-column and --target-column."
    )
