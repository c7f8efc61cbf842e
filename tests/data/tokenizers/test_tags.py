from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.tokenizers.tags import FIRST, TagVocabulary, look_of
from neuropil.errors import RunError
from neuropil.protocols import PADDING, UNKNOWN

TEXTS = [["The", "cats", "sat", "in", "1999", "."], ["The", "dogs", "ran", "in", "2001", "!"], ["Bob", "ran"]]
words = st.lists(
    st.lists(st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=6), min_size=1, max_size=8),
    min_size=1,
)


@settings(deadline=None, max_examples=60)
@given(words, st.integers(1, 50))
def test_numbers_are_within_the_vocabulary_and_known_tokens_have_their_own(texts: list[list[str]], limit: int):
    vocabulary = TagVocabulary.learn(texts, "words", limit)
    numbers = [number for text in texts for number in vocabulary.encode(text)]
    assert all(UNKNOWN <= number < len(vocabulary) for number in numbers)
    assert (
        len({*vocabulary.encode(vocabulary.tokens)})
        == len(vocabulary.tokens)
        == min(limit, len({token for text in texts for token in text}))
    )


def test_frequent_tokens_come_first_and_the_rest_is_known_by_its_looks():
    vocabulary = TagVocabulary.learn(TEXTS, "words", 3)
    assert vocabulary.tokens == ("The", "in", "ran")
    assert vocabulary.looks == ("Po", "Xx", "d", "x")
    assert vocabulary.encode(["1999"]) == vocabulary.encode(["1850"])
    assert vocabulary.encode(["1999"])[0] >= FIRST + 3
    assert vocabulary.encode(["zzzzz"]) == [UNKNOWN]
    mixed, look = ["in", "1850", "zzzzz", "The"], FIRST + 3 + vocabulary.looks.index("d")
    assert vocabulary.encode(mixed) == [FIRST + 1, look, UNKNOWN, FIRST]


@pytest.mark.parametrize(
    ("token", "look"),
    [
        ("Houses", "Xx es"),
        ("running", "x ng"),
        ("USA", "X"),
        ("NATO", "X to"),
        ("cat", "x"),
        ("3.14", "d"),
        ("B2B", "Xd"),
        (",", "Po"),
        ("...", "Po"),
        ("$", "Sc"),
        ("٣", "d"),
        ("מזרח", "o רח"),
        ("日", "o"),
    ],
)
def test_a_look_is_the_kinds_of_letters_and_the_ending(token: str, look: str):
    assert look_of(token) == look


def test_texts_without_tags_are_split_as_people_would():
    vocabulary = TagVocabulary.learn([["U.S.", "well-known"]], "words", 9)
    assert vocabulary.split('He said: "the U.S. is 3.5% well-known, isn\'t it?"') == [
        *("He", "said", ":", '"', "the", "U.S.", "is", "3.5", "%", "well-known", ",", "isn't", "it", "?", '"')
    ]
    assert TagVocabulary.learn([["a"]], "characters", 9).split("a b") == ["a", " ", "b"]


def test_hidden_tokens_become_their_looks():
    vocabulary = TagVocabulary.learn(TEXTS, "words", 99)
    tokens = torch.tensor([vocabulary.encode(TEXTS[0]), [*vocabulary.encode(TEXTS[2]), *[PADDING] * 4]])
    hidden = vocabulary.hide(1.0)({"input": tokens, "target": tokens}, torch.Generator())
    expected = [vocabulary.encode_looks(text) for text in (TEXTS[0], TEXTS[2])]
    assert hidden["input"].tolist() == [expected[0], [*expected[1], *[PADDING] * 4]]
    assert torch.equal(hidden["target"], tokens)
    assert torch.equal(vocabulary.hide(0.0)({"input": tokens}, torch.Generator())["input"], tokens)
    some = vocabulary.hide(0.5)({"input": tokens.repeat(200, 1)}, torch.Generator().manual_seed(0))["input"]
    assert 0.4 < (some != tokens.repeat(200, 1)).double().sum() / (200 * 8) < 0.6


def test_a_vocabulary_comes_back_from_its_file(tmp_path: Path):
    vocabulary = TagVocabulary.learn([*TEXTS, ["\u2028", "א"]], "words", 99)
    vocabulary.save(tmp_path)
    again = TagVocabulary.load(tmp_path)
    assert (again.kind, again.tokens, again.looks) == (vocabulary.kind, vocabulary.tokens, vocabulary.looks)


def test_a_missing_or_damaged_file_is_named(tmp_path: Path):
    path = tmp_path / "vocabulary.json"
    for content, got in (
        (None, "no such file"),
        ("[1]", "a damaged file"),
        ("{}", "a damaged file"),
        ("{", "a damaged file"),
    ):
        if content is not None:
            path.write_text(content)
        with pytest.raises(RunError) as error:
            TagVocabulary.load(tmp_path)
        assert (
            str(error.value)
            == f"{path} must be the vocabulary that neuropil wrote, but got {got}: train again or restore it."
        )
