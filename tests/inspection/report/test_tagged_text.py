import re

import pytest

from data.written_files import refusal
from neuropil.inspection.report.tagged_text import TaggedTokens, tagged_texts


def test_neighbours_with_one_tag_share_a_span_and_letters_stay_joined():
    markup = tagged_texts(
        [TaggedTokens(list("15 مايو"), ["day"] * 2 + ["other"] + ["month"] * 4)],
        ["day", "month", "other"],
        plain="other",
        between="",
    )
    spans = re.findall(r'<span title="(\w+)"[^>]*>([^<]*)</span>', markup)
    assert spans == [("day", "15"), ("other", " "), ("month", "مايو")]
    assert '<p dir="auto"' in markup
    assert (
        markup.count("background") == 2 + 2
    )  # those of the legend, and those of the text: what has no field has no colour


def test_words_stand_apart_and_mistakes_say_what_is_right():
    markup = tagged_texts([TaggedTokens(["Rose", "rose"], ["NAME", "NAME"], ["NAME", "VERB"])], ["NAME", "VERB"])
    assert re.findall(r'<span title="([^"]*)"[^>]*>([^<]*)</span>', markup) == [
        ("NAME", "Rose"),
        ("NAME, but it is VERB", "rose"),
    ]
    assert markup.count("wavy") == 1
    assert "</span> <span" in markup


def test_words_of_a_user_are_no_markup():
    markup = tagged_texts([TaggedTokens(["<b>"], ['"><script>'])], ['"><script>'])
    assert "<b>" not in markup
    assert "<script>" not in markup


@pytest.mark.parametrize(("tags", "truth", "count"), [(["X"], None, 1), (["X", "Y"], ["X"], 1)])
def test_a_token_without_a_tag_is_refused(tags: list[str], truth: list[str] | None, count: int):
    assert (
        refusal(TaggedTokens, ["a", "b"], tags, truth)
        == f"a tagged text needs one tag for each token, but got {count} tags for 2 tokens."
    )
