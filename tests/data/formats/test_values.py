"""The values of a column in memory, as a file would hold them."""

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd

from data.written_files import refusal
from neuropil.data.formats.columns import Cells, numbers_in, read_numbers
from neuropil.data.formats.memory import in_memory
from neuropil.data.formats.values import cell_texts, values_of


def test_numbers_of_a_column_are_read_as_those_of_a_file_and_keep_every_digit():
    values = np.array([0.1, 1e-300, np.nan, 12345678.90123])
    texts = cell_texts(values, "n", "")
    assert numbers_in(texts) is not None
    written = Cells("", "n", range(4), [*texts])
    for gaps in (Cells("", "n", range(4), texts), written):
        np.testing.assert_array_equal(read_numbers(gaps, gaps=True), values)
        sentence = "row 2, column 'n' of  must hold a value, but got an empty cell: fill it in or remove the row."
        assert refusal(read_numbers, gaps) == sentence


def test_dates_and_decimals_are_what_a_file_would_say():
    days, prices = [date(2020, 1, 31), None], [Decimal("1.25"), Decimal(2)]
    found = in_memory({"day": days, "price": prices, "both": ["a", 1]}).columns
    assert found["day"] == ["2020-01-31", ""]
    np.testing.assert_array_equal(found["price"], [1.25, 2.0])
    assert found["both"] == ["a", "1"]
    assert in_memory(pd.DataFrame({"day": pd.to_datetime(days)})).columns["day"] == ["2020-01-31 00:00:00", ""]


def test_whole_numbers_of_more_than_64_bits_are_rounded_as_in_a_file():
    for column in ([10**30, 1], [10**30, None], [10**30, 0.5], np.array([10**30, 1], object)):
        found = values_of(column, "a")
        assert found.dtype == np.float64  # type: ignore[union-attr]
        assert found[0] == float("1e30")
    assert in_memory({"a": [10**30, 1]}).columns["a"].dtype == np.float64  # type: ignore[union-attr]
    (lists,) = values_of([[10**30, 1]], "a")
    assert lists.tolist() == [1e30, 1.0]


def test_numbers_that_no_float_holds_are_refused():
    for column in ([10**400, 1], [10**400, 0.5], [[10**400, 1]]):
        sentence = "column 'a' must hold numbers of at most 1.8e+308, but got a larger one."
        assert refusal(values_of, column, "a") == sentence
