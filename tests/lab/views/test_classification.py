from collections.abc import Callable

import pytest
import torch

from lab.small_runs import SMALL
from neuropil.inspection.activation_maps import most_active
from neuropil.lab.pictures import held_out
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW = find_view("classification")


@pytest.mark.parametrize("name", ["mlp", "cnn", "spiking_classifier", "predictive_coding"])
def test_probabilities_are_those_of_the_run(trained_run: Callable[..., Run], name: str):
    run = trained_run(name, **SMALL[name])
    answer = ask(VIEW, "classify", run, {"example": 7})
    picture = held_out(run).examples.inputs[7:8]
    found = run.predict(picture)
    assert answer["picture"] == picture[0, 0].tolist()
    assert answer["probabilities"] == pytest.approx(found.scores[0].tolist(), abs=1e-6)
    assert answer["answer"] == found.labels[0]


def test_activation_maps_are_those_of_the_run_the_most_active_first(trained_run: Callable[..., Run]):
    run = trained_run("cnn", **SMALL["cnn"])
    inside = ask(VIEW, "classify", run, {"example": 3})["inside"]
    maps = run.activations(held_out(run).examples.inputs[3:4])
    assert [layer["name"] for layer in inside["layers"]] == list(maps)
    for layer in inside["layers"]:
        found = maps[layer["name"]][0]
        assert [each["channel"] for each in layer["channels"]] == most_active(found, 10).tolist()
        torch.testing.assert_close(
            torch.tensor(layer["channels"][0]["rows"]), found[layer["channels"][0]["channel"]], atol=1e-3, rtol=0
        )


def test_spikes_are_those_of_the_model(trained_run: Callable[..., Run]):
    run = trained_run("spiking_classifier", **SMALL["spiking_classifier"])
    answer = ask(VIEW, "open", run, {})["shown"]
    activity = run.model.activity(held_out(run).examples.inputs[:1])  # type: ignore[operator]
    layer = answer["inside"]["layers"][0]
    assert layer["spikes"] == len(layer["times"]) == int(activity.hidden[0].spikes.sum()) > 0
    assert layer["silent"] + layer["shown"] == layer["neurons"] == 32
    last = [each[-1] for each in answer["inside"]["probabilities"]]
    assert last == pytest.approx(answer["probabilities"], abs=1e-4)


def test_products_belong_to_the_most_active_units(trained_run: Callable[..., Run]):
    inside = ask(VIEW, "open", trained_run("mlp", **SMALL["mlp"]), {})["shown"]["inside"]
    sums = [unit["sum"] for unit in inside["units"]]
    active = [max(each, 0.0) for each in sums]  # after ReLU; those that are silent have no order
    assert active == sorted(active, reverse=True)
    for unit in inside["units"]:
        assert sum(map(sum, unit["rows"])) + unit["bias"] == pytest.approx(unit["sum"], abs=0.01)
