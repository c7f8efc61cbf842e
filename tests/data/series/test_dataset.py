import numpy as np
import pytest

from neuropil.data.series.dataset import Series, SeriesTable, gap_lengths, gap_notes, step_names
from neuropil.data.series.steps import TimeStep

N = np.nan


def table_of(*values: list[float], step: TimeStep | None = None) -> SeriesTable:
    series = tuple(
        Series(f"s{index}", 0, np.array(each, dtype=float), np.zeros((len(each), 0)))
        for index, each in enumerate(values)
    )
    return SeriesTable(series, step or TimeStep(), None, "y")


def test_every_step_of_a_gap_knows_how_long_it_is():
    assert gap_lengths(np.array([1, N, 2, N, N, N, 3])).tolist() == [0, 1, 0, 3, 3, 3, 0]
    assert gap_lengths(np.array([1.0, 2.0])).tolist() == [0, 0]


def test_gaps_are_told_in_sentences():
    table = table_of([1, N, 2, N, N, N, 3], [1, 2, 3], step=TimeStep(unit="month"))
    assert gap_notes(table, longest=3) == [
        "4 of 10 months have no value, in 2 gaps of up to 3 months; gaps of up to 3 months are filled by "
        "interpolation to be read, and are "
        "never learned or scored."
    ]
    assert gap_notes(table, longest=2)[1] == "1 gap of more than 2 months: no window of history reaches into it."
    assert gap_notes(table_of([1, 2]), longest=3) == []


def test_steps_have_labels_beyond_the_end():
    table = SeriesTable((), TimeStep(unit="month", count=12), np.datetime64("1700-01-01", "s"), "y")
    assert [table.label(step) for step in (0, 310)] == ["1700", "2010"]
    assert table_of([1.0, 2.0]).label(2) == "3"


def test_what_is_known_comes_before_the_calendar():
    known = np.array([[5.0], [6.0], [7.0]])
    series = Series("", 1, np.array([1.0, 2.0]), known)
    table = SeriesTable((series,), TimeStep(unit="month"), np.datetime64("2019-12-01", "s"), "y", ("price",))
    features = table.features(series, 3)
    assert features.shape == (3, table.num_features) == (3, 5)
    assert features[:, 0].tolist() == [5, 6, 7]
    assert features[0, 1:] == pytest.approx([0, 1, 0, 1])  # the first of January


def test_a_step_is_named_by_its_series_and_its_date():
    assert step_names(["", "b"], [["2020"], ["2021", "2022"]]) == ["2020", "b 2021", "b 2022"]
