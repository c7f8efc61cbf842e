from neuropil.data.formats.notes import Tally


def test_oddities_are_counted_with_the_line_of_the_first():
    tally = Tally("is odd", "are odd")
    tally.add(7)
    assert tally.note(1_200, "texts") == "1 of 1,200 texts is odd (first: line 7)."
    tally.add(9)
    assert tally.note(1_200, "texts") == "2 of 1,200 texts are odd (first: line 7)."
