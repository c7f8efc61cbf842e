"""What a search may set an option to follows the default that a recipe gives it, within the option's own limits."""

import dataclasses

import numpy as np
import pytest

from neuropil.config import Config, option
from neuropil.ranges import Choices, Range, around, from_dict, times


class Searchable(Config):
    rate: float = option(1e-3, "learning rate", low=0, tune=around(10))
    share: float = option(0.2, "share", low=0, high=0.4, tune=Range(0, 0.5))
    width: int = option(64, "width", low=2, tune=times(1 / 2, 1, 2))
    sizes: tuple[int, ...] | None = option(None, "sizes", low=1, tune=Choices(((8,), (8, 8))))
    off: float = option(0.0, "off by default", low=0, tune=around(10))
    plain: int = option(3, "not searched")


def tuned(config: Config) -> dict[str, Range | Choices]:
    return {each.name: each.tune for each in config.options() if each.tune is not None}


def test_a_range_is_around_the_default_or_holds_it_within_the_limits_of_the_option():
    assert tuned(Searchable()) == {
        "rate": Range(1e-4, 1e-2, log=True),
        "share": Range(0, 0.4),
        "width": Choices((32, 64, 128)),
        "sizes": Choices((None, (8,), (8, 8))),
    }


def test_it_follows_the_default_of_a_recipe():
    other = tuned(Searchable(rate=0.5, width=3, sizes=(5,), off=0.1))
    assert other["rate"] == Range(0.05, 5.0, log=True)
    assert other["width"] == Choices((2, 3, 6))
    assert other["sizes"] == Choices(((5,), (8,), (8, 8)))
    assert other["off"] == Range(0.01, 1.0, log=True)


def test_a_default_outside_of_an_interval_widens_it():
    assert Range(0.1, 0.5, log=True).holding(0.9) == Range(0.1, 0.9, log=True)
    assert Range(0.1, 0.5, log=True).holding(0.0) == Range(0.0, 0.5, log=False)


@pytest.mark.parametrize(("log", "middle"), [(False, 50.5), (True, 10.0)])
def test_the_place_in_a_range_is_that_of_evenly_spaced_numbers(log: bool, middle: float):
    spaced = np.geomspace(1, 100, 11) if log else np.linspace(1, 100, 11)
    searched = Range(1, 100, log)
    assert [searched.place(value) for value in spaced] == pytest.approx(np.linspace(0, 1, 11))
    assert searched.place(middle) == pytest.approx(0.5)


@pytest.mark.parametrize("searched", [Range(1e-4, 1.0, log=True), Choices((None, 3, (8, 8), "relu"))])
def test_what_is_searched_survives_json(searched: Range | Choices):
    import json

    assert from_dict(json.loads(json.dumps(searched.to_dict()))) == searched


def test_the_option_itself_says_whether_a_value_fits():
    width = next(each for each in Searchable().options() if each.name == "width")
    width.require(2)
    for wrong in (1, 2.5, "two"):
        with pytest.raises(ValueError, match="width must be"):
            width.require(wrong)


def test_a_range_holds_its_ends_and_nothing_beyond():
    assert 0 in Range(0, 1)
    assert 1.0 in Range(0, 1)
    assert 1.01 not in Range(0, 1)
    assert "a" not in Range(0, 1)
    assert dataclasses.astuple(Range(0, 1)) == (0, 1, False)
