"""What is said of each token of a text, against what a reader sees."""

import pytest
import torch

from neuropil.inspection.text_properties import properties_of

TEXT = 'He said "no (1)\nway" (A [b]) to it.'


def marked(name: str, tokens: list[str]) -> str:
    return "".join(
        "^" * len(token) if value else "." * len(token)
        for token, value in zip(tokens, properties_of(tokens)[name], strict=True)
    )


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("inside quotes", "........^^^^^^^^^^^................"),
        ("inside brackets", "............^^.......^^^^^^........"),
        ("first letter of a word", "^..^.....^...^..^.....^..^...^..^.."),
        ("end of a word", ".^....^...^..^....^...^..^....^..^."),
        ("space", "..^....^...^........^..^....^..^..."),
        ("end of a line", "...............^..................."),
        ("upper case", "^.....................^............"),
        ("digit", ".............^....................."),
        ("punctuation", "........^...^.^....^.^..^.^^......^"),
    ],
)
def test_characters_are_marked_where_a_reader_would_mark_them(name: str, marks: str):
    assert marked(name, list(TEXT)) == marks


def test_positions_count_from_the_beginning_of_the_text_and_of_the_line():
    found = properties_of(list("ab\ncd"))
    assert found["position in the text"].tolist() == [0, 1, 2, 3, 4]
    assert found["position in the line"].tolist() == [0, 1, 2, 0, 1]


def test_of_a_longer_token_its_last_character_counts():
    found = properties_of(["He", " said", ' "no'])
    assert found["inside quotes"].tolist() == [0, 0, 0]  # nobody closes it
    assert found["position in the text"].tolist() == [1, 6, 10]
    assert found["end of a word"].tolist() == [1, 1, 1]


def test_every_property_has_a_number_for_every_token():
    for tokens in (list(TEXT), ["a"], list("\n\n")):
        assert all(
            values.shape == (len(tokens),) and torch.isfinite(values).all() for values in properties_of(tokens).values()
        )
