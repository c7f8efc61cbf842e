from pathlib import Path

import pytest
import torch

from data.written_files import refusal, write_text
from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.data.tagged_texts.sources import NUM_DATES, TaggedTextConfig, prepare_tagged_texts


def tagged(path: Path, count: int = 50) -> Path:
    return write_text(path, *(f"word{number} ends\tNOUN VERB" for number in range(count) for _ in range(2)))


def test_copies_of_one_text_are_in_one_part(tmp_path: Path):
    splits = prepare_tagged_texts(TaggedTextConfig(data=tagged(tmp_path / "a.tsv")), 0)
    parts = [splits.train, splits.validation, splits.test]
    assert [len(part) for part in parts] == [72, 8, 20]
    assert len({(place, *text) for place, part in enumerate(parts) for text in part.tokens}) == 50
    assert splits.notes == ["50 of 100 texts are exact copies of earlier ones (first: line 2)."]


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
            "a.tsv must hold at least 2 different texts, one to learn from and one to score, but got 1: part texts by empty lines.",
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
