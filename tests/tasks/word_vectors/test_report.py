import json
import re

import torch

from neuropil.inspection.report.page import Html, Report, Section, Table, render
from neuropil.tasks.word_vectors import report, vectors
from neuropil.tasks.word_vectors.report import content_words, map_section, neighbours_section
from neuropil.tasks.word_vectors.vectors import WordVectors

ENGLISH = ["the", "of", "and", "to", "in", ",", "it", "king", "42", "queen", "x", "palace", "horse", "river"]


def random_vectors(words: list[str], counts: tuple[int, ...] = ()) -> WordVectors:
    return WordVectors(words, torch.randn(len(words), 6, generator=torch.Generator().manual_seed(0)), counts)


def mapped(section: Section) -> list[dict]:
    (drawing,) = [block for block in section.blocks if isinstance(block, Html)]
    data = re.search(r'<script type="application/json">(.*?)</script>', drawing.markup, flags=re.DOTALL)
    assert data is not None
    return json.loads(data[1])["words"]


def test_the_map_has_the_most_frequent_words_with_their_neighbours(monkeypatch):
    monkeypatch.setattr(report, "MAPPED", 8)
    monkeypatch.setattr(vectors, "COSINES_AT_ONCE", 30)  # two words after the other
    words = random_vectors(ENGLISH, counts=tuple(range(100, 86, -1)))
    found = mapped(map_section(words))
    assert [each["word"] for each in found] == ["the", "of", "and", "to", "in", "it", "king", "queen"]
    assert [each["count"] for each in found] == [100, 99, 98, 97, 96, 94, 93, 91]
    for each in found:
        expected = [[word, round(cosine, 3)] for word, cosine in words.neighbours(each["word"], count=8)]
        assert each["near"] == expected


def test_the_table_has_words_that_stand_for_something():
    section = neighbours_section(random_vectors(ENGLISH))
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert [row[0] for row in table.rows] == ["king", "queen", "palace", "horse", "river"]


def test_in_other_languages_the_most_frequent_words_are_passed_over():
    words = [f"{'abcdefghij'[number % 10]}{'klmnopqrst'[number // 10]}wort" for number in range(60)]
    assert content_words(random_vectors(words)) == words[3:]


def test_words_of_digits_alone_have_a_page_too():
    words = random_vectors(["1", "2", "3"])
    page = render(Report("Title", "Summary.", [map_section(words), neighbours_section(words)]))
    assert page.count("data-word=") == 3
