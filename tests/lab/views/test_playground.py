import pytest
import torch

from neuropil.errors import DivergedError, InputError
from neuropil.lab.view import ask, find_view
from neuropil.lab.views.playground import EXAMPLES, PLACES, REACH, SESSIONS

VIEW = find_view("playground")


def step(session: str, **settings):
    return ask(VIEW, "step", None, {"session": session, **settings})


def test_it_learns_circles_and_shows_what_the_model_answers():
    assert step("circles", updates=0)["train"]["accuracy"] < 0.9
    *_, answer = (step("circles", updates=50, learning_rate=0.03) for _ in range(8))
    assert (answer["updates"], answer["epoch"]) == (400, 40)
    assert answer["test"]["accuracy"] > 0.95
    known = SESSIONS.kept["circles"]
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(known.model(known.test["input"]), known.test["target"]).item()
    assert answer["test"]["loss"] == pytest.approx(loss, rel=1e-5)


def test_the_surface_is_the_models_probability_with_the_second_input_upwards():
    answer = step("corners", data="moons", updates=10)
    with torch.no_grad():
        corners = SESSIONS.kept["corners"].model(torch.tensor([[REACH, -REACH], [-REACH, REACH]])).softmax(-1)[:, 1]
    assert abs(corners[0] - corners[1]) > 0.1
    assert [answer["surface"][0][-1], answer["surface"][-1][0]] == pytest.approx(corners.tolist(), abs=6e-4)
    assert len(answer["surface"]) == PLACES


def test_each_unit_has_a_map_of_its_activation():
    answer = step("units", hidden_sizes=[3], activation="relu")
    assert [len(layer) for layer in answer["units"]] == [3]
    layer = SESSIONS.kept["units"].model.hidden[0]
    corner = torch.relu(torch.full((1, 2), -REACH) @ layer.get_parameter("weight").T + layer.get_parameter("bias"))[0]
    for unit, value in zip(answer["units"][0], corner.tolist(), strict=True):
        assert (unit[0][0] > 0) == (value > 0)
        assert max(abs(v) for row in unit for v in row) in (0, 255)


def test_another_shape_or_a_reset_begins_again_and_another_rate_does_not():
    assert step("shape", updates=5)["points"] is not None
    assert step("shape", updates=5, learning_rate=0.5, weight_decay=0.1)["updates"] == 10
    assert step("shape", updates=5)["points"] is None
    assert step("shape", updates=1, hidden_sizes=[2])["updates"] == 1
    answer = step("shape", hidden_sizes=[2], reset=True)
    assert answer["updates"] == 0
    assert len(answer["points"][0]["x"]) == EXAMPLES


def test_a_linear_network_has_no_hidden_units():
    answer = step("linear", hidden_sizes=[], data="blobs", updates=50, learning_rate=0.1)
    assert answer["units"] == []
    assert answer["test"]["accuracy"] > 0.9


def test_what_is_too_much_is_refused():
    with pytest.raises(InputError) as refused:
        step("deep", hidden_sizes=[2, 2, 2, 2, 2])
    assert str(refused.value) == "hidden_sizes has at most 4 layers, but got 5."


def test_a_loss_that_overflows_says_what_to_do():
    with pytest.raises(DivergedError) as refused:
        step("wild", optimizer="sgd", learning_rate=10.0, activation="identity", weight_decay=1.0, updates=50)
    assert str(refused.value).endswith("begin again with a smaller learning rate.")
