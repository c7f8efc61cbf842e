from neuropil.tasks.language_modelling.report import without_empty_lines


def test_many_empty_lines_are_counted_and_few_stay():
    assert without_empty_lines("a\n\n\nb") == "a\n\n\nb"
    assert without_empty_lines("a▷" + "\n" * 41 + "b\n  \n\t\n \n") == "a▷\n⏎ × 40\nb\n⏎ × 3\n"
