import math

import pytest

from neuropil.autodiff import Graph
from neuropil.autodiff.formula import Formula
from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view

VIEW = find_view("autodiff")
TEXT, AT = "x * tanh(w*x + b)", {"x": 0.7, "w": -1.2, "b": 0.3}


def read(text: str = TEXT, at: dict[str, float] | None = None):
    given = AT if at is None else at
    return ask(VIEW, "read", None, {"formula": text, "names": list(given), "values": list(given.values())})


def test_values_and_gradients_are_those_of_the_engine():
    root = Formula(TEXT)(**AT)
    root.backward()
    variables = Graph(root).vars
    answer = read()
    assert [node["value"] for node in answer["graph"]["nodes"]] == [float(var.val) for var in variables]
    last = answer["backward"][-1]["gradients"]
    assert {int(node): grad for node, grad in last.items()} == {i: float(v.grad) for i, v in enumerate(variables)}
    assert answer["gradients"] == pytest.approx(answer["quotients"], rel=1e-6)


def test_each_step_back_is_the_gradient_of_the_output_times_the_local_derivative():
    answer = read()
    assert [step["op"] for step in answer["backward"]] == ["mul", "tanh", "add", "mul"]
    tanh = answer["backward"][1]
    (flow,) = tanh["flows"]
    assert flow["local"] == pytest.approx(1 - math.tanh(0.7 * -1.2 + 0.3) ** 2)
    assert flow["product"] == pytest.approx(tanh["s"] * flow["local"]) == pytest.approx(flow["after"])
    assert tanh["rule"] == "∂tanh x/∂x = 1 - tanh² x."


def test_a_variable_without_a_value_gets_one_and_a_logarithm_below_zero_is_nothing():
    answer = read("log(x) + y", {"x": -1.0})
    assert answer["values"] == {"x": -1.0, "y": -0.8}
    assert answer["graph"]["nodes"][-1]["value"] is None


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"formula": "x"}, "the graph of a formula needs an operation, but got 'x'."),
        ({"names": ["a"]}, "names and values must be as many, at most 8, but got 1 and 0."),
        ({"formula": "x" * 300}, "a formula has at most 200 characters, but got 300."),
        (
            {"formula": "+".join("abcdefghi")},
            "the page has room for a formula of 8 variables, but got a, b, c, d, e, f, g, h, i.",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(request_: dict, sentence: str):
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", None, request_)
    assert str(refused.value) == sentence
