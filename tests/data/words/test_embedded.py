"""The docstrings of installed libraries."""

from neuropil.data.words.embedded import docstring_paragraphs


def test_paragraphs_are_prose_each_once():
    paragraphs = docstring_paragraphs()
    assert len(set(paragraphs)) == len(paragraphs)
    assert not any(">>>" in paragraph or "\n" in paragraph for paragraph in paragraphs)
    assert sum("axes" in paragraph.lower() for paragraph in paragraphs) > 500
