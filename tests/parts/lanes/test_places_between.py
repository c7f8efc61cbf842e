"""Lists of the numbers between two bounds, beside those of NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuropil.parts.compilation import compiled
from neuropil.parts.lanes.places_between import places_between


@compiled
def listed(values, low, high, places):
    return places_between(values, low, high, places)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@given(st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan]), max_size=70))
def test_the_places_are_those_between_the_bounds_for_any_number_of_values(dtype: type, numbers: list[float]):
    values = np.array(numbers)
    for low, high in ((0.0, 1.0), (1.0, np.inf), (-np.inf, 0.5)):
        places = np.full(len(values) + 1, -7, dtype)
        count = listed(values, low, high, places[:-1])
        np.testing.assert_array_equal(places[:count], np.flatnonzero((low < values) & (values <= high)))
        assert places[-1] == -7


def test_every_mask_of_eight_has_its_list():
    masks = np.arange(256)[:, None] >> np.arange(8) & 1
    for mask in masks:
        places = np.empty(8, np.int64)
        count = listed(mask.astype(float), 0.0, np.inf, places)
        np.testing.assert_array_equal(places[:count], np.flatnonzero(mask))
