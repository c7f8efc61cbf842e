import unicodedata

from neuropil.tasks.translation.predictor import arrow_between


def test_a_text_from_right_to_left_does_not_turn_the_arrow_around():
    """The direction of a line is that of its first strong character (HTML's dir=auto), isolates or not."""
    line = arrow_between("سه‌شنبه", "1918-09-10")
    strong = [kind for kind in map(unicodedata.bidirectional, line) if kind in ("L", "R", "AL")]
    assert strong[0] == "L"
    assert line == "\u200e\u2068سه‌شنبه\u2069 → \u20681918-09-10\u2069"
