import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuropil.config import Config, PythonValue, describe_type, describe_value, from_data, nested, option
from neuropil.errors import InputError


class Inner(Config):
    width: int = option(32, "channels", low=1, high=4096)
    layers: tuple[int, ...] = option((64,), "units of each layer", low=1)
    rule: Literal["sgd", "adam"] = option("adam", "update rule")
    rate: float = option(0.1, "learning rate", low=0)
    path: Path | None = option(None, "a file")
    classes: int = from_data(10, "how many classes")


class Scaled(Config):
    scale: float = option(1.0, "scale", above=0)


class Outer(Config):
    inner: Inner = Inner()
    seed: int = option(0, "seed")


class Noisy(Config):
    noise: bool = option(False, "noise")
    variance: float = option(1.0, "its variance")

    def without_effect(self) -> dict[str, str]:
        return {} if self.noise else {"variance": "a signal without noise"}


class Pair(Config):
    one: Noisy = Noisy()
    other: Noisy = nested(Noisy(), "the other")


inners = st.builds(
    Inner,
    width=st.integers(1, 4096),
    layers=st.lists(st.integers(1, 9)).map(tuple),
    rule=st.sampled_from(["sgd", "adam"]),
    rate=st.floats(0, 1e6),
    path=st.none() | st.text(min_size=1).filter(lambda text: "\0" not in text).map(Path),
    classes=st.integers(2, 100),
)


@given(inners, st.integers())
def test_a_configuration_comes_back_from_json(inner: Inner, seed: int):
    config = Outer(inner=inner, seed=seed)
    assert Outer.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_options_are_flat_and_leave_out_what_the_data_decides():
    assert [option.name for option in Outer().options()] == ["width", "layers", "rule", "rate", "path", "seed"]


def test_options_without_effect_are_found_wherever_in_the_nesting_they_live():
    what = "a signal without noise"
    assert Pair().idle_options() == {"variance": what, "other_variance": what}
    assert Pair().override(noise=True).idle_options() == {"other_variance": what}


def test_override_reaches_into_the_nesting_and_takes_lists_and_text():
    config = Outer().override(width=5, layers=[3, 4], path="a/b", seed=9)
    assert (config.inner.width, config.inner.layers, config.inner.path, config.seed) == (5, (3, 4), Path("a/b"), 9)
    assert Outer().inner.width == 32


def test_an_option_leaves_alone_what_the_data_decides_under_the_same_name():
    class Reading(Config):
        classes: str = option("few", "how many classes, in words")

    class Both(Config):
        inner: Inner = Inner()
        reading: Reading = Reading()

    config = Both().override(classes="many")
    assert (config.reading.classes, config.inner.classes) == ("many", 10)


def test_a_configuration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Outer().seed = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Inner(width=0), "width must be at least 1, but got 0."),
        (lambda: Inner(width=5000), "width must be at most 4096, but got 5000."),
        (lambda: Inner(width=True), "width must be int, but got True."),
        (lambda: Inner(rate=float("nan")), "rate must be at least 0, but got nan."),
        (lambda: Scaled(scale=0.0), "scale must be above 0, but got 0.0."),
        (lambda: Inner(layers=(3, 0)), "layers must be at least 1, but got 0."),
        (lambda: Inner(rule="adm"), "rule must be sgd | adam, but got 'adm'."),  # type: ignore[arg-type]
        (
            lambda: Outer().override(widht=3),
            "an option must be one that `neuropil show` lists, but got 'widht': did you mean 'width'?",
        ),
        (
            lambda: Outer().override(classes=3),
            "an option must be one that `neuropil show` lists, but got 'classes': "
            "choose from width, layers, rule, rate, path, seed.",
        ),
        (
            lambda: Inner.from_dict({"wdth": 1}),
            "Inner must hold only its own fields, but got 'wdth': did you mean 'width'?",
        ),
    ],
)
def test_what_does_not_fit_gets_one_sentence(make, message: str):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message


def test_types_are_described_in_a_users_words():
    kinds = {option.name: describe_type(option.type) for option in Inner().options()}
    assert kinds == {"width": "int", "layers": "int ...", "rule": "sgd | adam", "rate": "float", "path": "path | none"}


class Tower(Config):
    width: int = option(4, "width", low=1)
    shape: tuple[int, ...] = from_data((), "shape")


class Towers(Config):
    size: int = option(3, "size")
    vision: Tower = nested(Tower(), "vision tower")
    text: Tower = nested(Tower(width=8), "text tower")


def test_options_of_nested_configurations_carry_the_name_of_their_field_and_owner():
    assert [(each.name, each.default, each.help) for each in Towers().options()] == [
        ("size", 3, "size"),
        ("vision_width", 4, "vision tower: width"),
        ("text_width", 8, "text tower: width"),
    ]
    changed = Towers().override(text_width=16, size=1)
    assert changed == Towers(size=1, text=Tower(width=16))
    assert Towers.from_dict(changed.to_dict()) == changed
    with pytest.raises(InputError) as error:
        Towers().override(width=2)
    assert str(error.value).startswith("an option must be one that `neuropil show` lists, but got 'width'")


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "none"), (True, "yes"), (False, "no"), (1, "1"), ((256, 256), "256 256"), ((), "none"), (0.5, "0.5")],
)
def test_a_value_is_described_as_a_user_says_it(value: object, words: str):
    assert describe_value(value) == words


class Numbers(PythonValue):
    def __init__(self, *numbers: int):
        self.numbers = numbers

    def to_dict(self) -> dict[str, Any]:
        return {"sum": sum(self.numbers)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Numbers":
        return cls(values["sum"])


class Sourced(Config):
    data: tuple[Path, ...] | Numbers = option((), "paths, or what Python holds")
    other: Path | None = option(None, "a path")


def test_what_only_python_can_give_is_unknown_to_the_command_line():
    data, other = Sourced().options()
    assert (describe_type(data.type), data.in_python) == ("path ...", True)
    assert (describe_type(other.type), other.in_python) == ("path | none", False)
    with pytest.raises(InputError, match=r"^data must be path ..., but got 3\.$"):
        Sourced().override(data=3)


def test_what_only_python_can_give_is_saved_as_what_it_says_of_itself():
    given = Sourced().override(data=Numbers(1, 2))
    assert given.to_dict() == {"data": {"sum": 3}, "other": None}
    again = Sourced.from_dict(given.to_dict()).data
    assert isinstance(again, Numbers)
    assert again.numbers == (3,)
    assert Sourced.from_dict({"data": ["a", "b"]}).data == (Path("a"), Path("b"))
    assert Sourced().override(data="a").data == (Path("a"),)
    with pytest.raises(InputError, match=r"^other must be path \| none, but got "):
        Sourced().override(other=Numbers(1))
