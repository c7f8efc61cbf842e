import math

import pytest

from neuropil.autodiff import Var, graph
from neuropil.autodiff.formula import Formula
from neuropil.errors import InputError


def variables(root: Var) -> list[Var]:
    return [var for var in graph(root).vars if var.creator is None and not var.constant]


def test_a_formula_has_the_value_and_the_gradients_of_calculus():
    f = Formula("(a*b + sin(c))**2 / 2 - -a")(a=2.0, b=-1.5, c=0.7)
    inner = 2.0 * -1.5 + math.sin(0.7)
    assert float(f) == pytest.approx(inner**2 / 2 + 2.0)
    f.backward()
    leaves = {var.name: float(var.grad) for var in variables(f)}
    assert leaves == pytest.approx({"a": inner * -1.5 + 1, "b": inner * 2.0, "c": inner * math.cos(0.7)})


def test_a_variable_that_is_used_twice_is_one_node():
    assert [var.name for var in variables(Formula("x * x + x")(x=3.0))] == ["x"]


def test_variables_come_in_the_order_of_the_text():
    assert Formula("b * exp(a) + b - zeta").names == ["b", "a", "zeta"]


@pytest.mark.parametrize("text", ["tanh(x)", "sigmoid(2*x)", "relu(x) + softplus(x)", "abs(x) * log(x)", "cos(x)**x"])
def test_gradients_are_the_difference_quotients(text: str):
    formula = Formula(text)
    f = formula(x=0.8)
    f.backward()
    (x,) = variables(f)
    assert formula.difference_quotients(x=0.8)["x"] == pytest.approx(float(x.grad), rel=1e-6)


KNOWN = "numbers, names, + - * / ** and sin, cos, exp, log, tanh, sigmoid, relu, softplus, abs"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a *", f"a formula is made of {KNOWN}, but got 'a *'."),
        ("", f"a formula is made of {KNOWN}, but got ''."),
        ("3 + 4", "a formula needs a variable, but got '3 + 4': write a name such as x in it."),
        (
            "[a, b]",
            f"a formula is of numbers, not of vectors or others, but got [a, b]: it is made of {KNOWN}.",
        ),
        (
            "a @ b",
            f"a formula has numbers and the operators + - * / **, but got a @ b: it is made of {KNOWN}.",
        ),
        ("a ^ 2", "a formula has numbers and the operators + - * / **, but got a ^ 2: write ** for a power."),
        ("sni(a)", "a formula uses the functions that it has, but got 'sni': did you mean 'sin'?"),
        ("sin(a, b)", "a formula's functions are of one number, but got 'sin(a, b)'."),
        ("sin * a", "a function needs its number, but got 'sin': write sin(x)."),
        ("not a", "a formula has numbers and the signs + and -, but got not a."),
        ("a * 'b'", "a formula's constants are finite numbers, but got 'b'."),
        ("a * 1e999", "a formula's constants are finite numbers, but got 1e309."),
        ("a + " * 70 + "a", "a formula has at most 200 characters, but got 281."),
        ("a+" * 70 + "a", f"a formula has at most 60 operations, but got {'a+' * 70 + 'a'!r}."),
        (
            "__import__('os').system('ls')",
            "a formula uses the functions that it has, but got \"__import__('os').system\": "
            "choose from sin, cos, exp, log, tanh, sigmoid, relu, softplus, abs.",
        ),
    ],
)
def test_what_is_no_formula_is_refused(text: str, sentence: str):
    with pytest.raises(InputError) as refused:
        Formula(text)
    assert str(refused.value) == sentence
