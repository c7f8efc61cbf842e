import re
from pathlib import Path

import pytest

import neuropil
from neuropil import recipes
from neuropil.errors import InputError


def refusal(function, *arguments, **options) -> str:
    with pytest.raises(InputError) as error:
        function(*arguments, **options)
    return str(error.value)


def test_hyphens_stand_for_underscores():
    assert recipes.find("universal-approximation") is recipes.find("universal_approximation")
    assert recipes.recipe("bert-classifier") is recipes.recipe("bert_classifier")


def test_an_unknown_system_is_refused_with_the_nearest():
    assert (
        refusal(recipes.find, "lof")
        == "a system must be one that `neuropil list` shows, but got 'lof': did you mean 'lif'?"
    )


def test_a_verb_starts_its_own_systems_alone():
    assert (
        refusal(recipes.recipe_for, "train", "lif")
        == "neuropil train is for a system that learns, but got 'lif': use neuropil simulate lif."
    )
    assert refusal(recipes.recipe_for, "simulate", "mlp") == (
        "neuropil simulate is for a system that runs in time and learns nothing, but got 'mlp': use neuropil train mlp."
    )
    assert refusal(neuropil.train, "lif") == refusal(recipes.recipe_for, "train", "lif")
    assert refusal(neuropil.simulate, "mlp") == refusal(recipes.recipe_for, "simulate", "mlp")


def test_a_file_is_simulated_as_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    rule = "a network must be described in a TOML file that exists, but got 'brian.toml': "
    assert (
        refusal(recipes.find_simulation, "brian.toml") == f"{rule}neuropil show spiking_network tells how to write one."
    )
    Path("brain.toml").touch()
    assert refusal(recipes.find_simulation, "brian.toml") == f"{rule}did you mean 'brain.toml'?"


def test_names_are_words_with_underscores():
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", system.name) for system in recipes.SYSTEMS)
