"""Keys from annotated dataclasses: the same fields make the table, its checks and what people read of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import pytest

from neuropil.config import Config, option
from neuropil.data.networks.keys import Key, keys_of, list_keys, made, require_bounds
from neuropil.errors import InputError


class Engine(Config):
    power: float = option(75.0, "power (kW)", above=0)


@dataclass(frozen=True)
class Car:
    name: str
    maker: Annotated[str, Key("who made it", name="from")]
    seats: Annotated[int, Key("number of seats", low=1, high=9)]
    engine: Engine = field(default_factory=Engine)
    trailer: Annotated[Engine | None, Key("engine of the trailer")] = None
    speeds: Annotated[Sequence[int], Key("speeds of the gears")] = (30,)


def test_keys_have_the_kinds_bounds_and_names_of_the_fields():
    keys = keys_of(Car)
    assert {name: (key.rule, key.needed) for name, key in keys.items()} == {
        "from": ("name of a group", True),
        "seats": ("whole number, at least 1, at most 9", True),
        "power": ("number, above 0", False),
        "trailer": ("table", False),
        "speeds": ("list of whole numbers", False),
    }
    assert list(keys["trailer"].keys) == ["power"]


def test_a_table_becomes_an_instance():
    table = {"from": "Opel", "seats": 4, "power": 60.0, "trailer": {"power": 5.0}, "speeds": [20, 40]}
    assert made(Car, table, name="one") == Car("one", "Opel", 4, Engine(power=60.0), Engine(power=5.0), (20, 40))
    assert made(Car, {"from": "Opel", "seats": 4}, name="two") == Car("two", "Opel", 4)


def test_an_instance_keeps_the_bounds_of_its_keys():
    with pytest.raises(InputError) as error:
        require_bounds("the car", Car("one", "Opel", 10))
    assert str(error.value) == "the seats of the car must be at most 9, but got 10."


def test_every_key_is_listed_with_its_rule_and_help():
    assert list_keys({"[[cars]]": keys_of(Car)}).splitlines() == [
        "    [[cars]]",
        "        from               name of a group, needed              who made it",
        "        seats              whole number, at least 1, at most 9, needed number of seats",
        "        power              number, above 0                      power (kW)",
        "        trailer            table                                engine of the trailer",
        "        speeds             list of whole numbers                speeds of the gears",
        "        trailer.power      number, above 0                      power (kW)",
    ]
