"""A form says what a Config says, and gives back what the Config has checked."""

import json
from pathlib import Path
from typing import Any

import pytest

from neuropil import recipes
from neuropil.cli.arguments import parse
from neuropil.errors import InputError
from neuropil.lab.forms import blamed, filled, form
from neuropil.recipes import SYSTEMS


def field(name: str, option: str, **given: Any) -> dict[str, Any]:
    return next(each for each in form(name, given)["options"] if each["name"] == option)


@pytest.mark.parametrize("name", [system.name for system in SYSTEMS])
def test_every_system_has_a_form_of_all_its_options_that_it_accepts_again(name: str):
    shown = json.loads(json.dumps(form(name), allow_nan=False))
    options = recipes.recipe(name).options.options()
    assert [each["name"] for each in shown["options"]] == [*(each.name for each in options), "seed"]
    kinds = {each["kind"] for each in shown["options"]}
    assert kinds <= {"number", "integer", "choice", "switch", "text", "path", "list"}
    again = filled(name, {each["name"]: each["default"] for each in shown["options"]})
    assert again.options == {each.name: each.default for each in options}
    assert again.command[:3] == ["neuropil", shown["verb"], name]


def test_a_field_has_the_limits_and_help_of_its_option():
    assert field("cnn", "batch_size") == {
        "name": "batch_size",
        "flag": "--batch-size",
        "label": "batch size",
        "kind": "integer",
        "item": None,
        "choices": [],
        "optional": False,
        "default": recipes.recipe("cnn").options.training.batch_size,  # type: ignore[attr-defined]
        "low": 1,
        "high": None,
        "above": None,
        "help": "batch size",
        "group": "training",
        "searched": True,
    }
    assert (field("mlp", "clip")["above"], field("mlp", "clip")["optional"]) == (0, True)
    assert field("mlp", "optimizer")["choices"] == ["sgd", "momentum", "rmsprop", "adam", "adamw", "muon"]
    sizes = field("mlp", "hidden_sizes")
    assert (sizes["kind"], sizes["item"], sizes["group"]) == ("list", "integer", "model")
    assert (field("mlp", "data")["kind"], field("mlp", "data")["group"]) == ("path", "data")
    assert field("lif", "duration")["group"] == "general"


def test_defaults_follow_the_data_and_the_size_that_are_given():
    own = recipes.recipe("vae").defaults(own_data=True)
    latent = next(each.default for each in own.options() if each.name == "latent_size")
    assert field("vae", "latent_size")["default"] != latent
    assert field("vae", "latent_size", data="pictures")["default"] == latent
    assert form("transformer")["sizes"] == ["base", "big"]
    assert field("transformer", "width", size="big")["default"] == 1024


def test_words_become_values_of_their_types():
    values = {
        "hidden_sizes": "256, 64",
        "epochs": "3",
        "learning_rate": "1e-2",
        "tensorboard": True,
        "optimizer": "adam",
        "clip": "",
        "seed": "7",
        "data": "table.csv",
        "monitor": "accuracy",
    }
    found = filled("mlp", values)
    assert found.seed == 7
    assert found.options == {
        "hidden_sizes": (256, 64),
        "epochs": 3,
        "learning_rate": 0.01,
        "tensorboard": True,
        "optimizer": "adam",
        "clip": None,
        "data": Path("table.csv").absolute(),
        "monitor": "accuracy",
    }
    words = "neuropil train mlp --hidden-sizes 256 64 --epochs 3 --learning-rate 0.01 --tensorboard --optimizer adam"
    assert found.command == [
        *words.split(),
        *("--clip", "None", "--data", str(Path("table.csv").absolute()), "--monitor", "accuracy", "--seed", "7"),
    ]


@pytest.mark.parametrize(
    ("values", "sentence", "option"),
    [
        ({"epochs": "three"}, "epochs must be int | none, but got 'three'.", "epochs"),
        ({"epochs": 0}, "epochs must be at least 1, but got 0.", "epochs"),
        ({"batch_size": ""}, "batch_size must be int, but got ''.", "batch_size"),
        ({"batch_size": 2.5}, "batch_size must be int, but got 2.5.", "batch_size"),
        ({"batch_size": [1]}, "batch_size must be int, but got [1].", "batch_size"),
        ({"optimizer": "sdg"}, "optimizer must be sgd | momentum | rmsprop | adam | adamw | muon, but got 'sdg'.", 0),
        ({"tensorboard": "maybe"}, "tensorboard must be bool, but got 'maybe'.", "tensorboard"),
        ({"monitor": "--out=/"}, "monitor must not begin with two hyphens, as a flag does, but got '--out=/'.", 0),
        ({"hidden_sizes": "1" + " 1" * 1000}, "hidden_sizes must have at most 1,000 values, but got 1,001.", 0),
        ({"monitor": "x" * 5000}, "monitor must be a text of at most 4,000 characters, but got another.", "monitor"),
        ({"seed": "-1"}, "seed must be at least 0, but got -1.", "seed"),
        (
            {"epoch": 1},
            "an option must be one that `neuropil show` lists, but got 'epoch': did you mean 'epochs'?",
            None,
        ),
    ],
)
def test_what_does_not_fit_gets_the_sentence_of_the_config(values: dict[str, Any], sentence: str, option: Any):
    with pytest.raises(InputError) as caught:
        filled("mlp", values)
    assert str(caught.value) == sentence
    assert blamed(caught.value, "mlp") == (next(iter(values)) if option == 0 else option)


def test_a_text_that_begins_with_a_hyphen_is_no_flag():
    command = filled("universal_approximation", {"function": "-sin(x)"}).command
    assert command == [
        "neuropil",
        recipes.recipe("universal_approximation").verb,
        "universal_approximation",
        "--function=-sin(x)",
    ]
    read = parse(recipes.recipe("universal_approximation").options, command[3:], command="train", about="")
    assert {each.name: each.default for each in read.options()}["function"] == "-sin(x)"
    with pytest.raises(InputError) as error:
        filled("mlp", {"ignore": ["-h"]})
    assert str(error.value) == "ignore must not hold what begins with a hyphen, as a flag does, but got '-h'."
