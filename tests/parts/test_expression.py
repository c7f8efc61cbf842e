import ast
import contextlib
import math
import operator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.parts.expression import Expression

X = torch.linspace(0.1, 2, 20, dtype=torch.double)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sin(3*x) + x^2", torch.sin(3 * X) + X**2),
        ("-x^2", -(X**2)),
        ("2^3^2", torch.full_like(X, 512)),
        ("2^-1 * x", X / 2),
        ("x**2", X**2),
        ("8 / 4 / 2", torch.ones_like(X)),
        ("1 - 2 - 3", torch.full_like(X, -4)),
        ("--x", X),
        ("+x - +x", X * 0),
        ("2*-x", -2 * X),
        ("(1 + x) * (1 - x)", 1 - X**2),
        (".5e1*x + 2.", 5 * X + 2),
        ("pi + e", torch.full_like(X, math.pi + math.e)),
        ("max(x, 1, 0.5) + min(x, 1)", X.clamp(min=1) + X.clamp(max=1)),
        ("exp(log(x)) + ln(x)", X + torch.log(X)),
        ("sqrt(abs(-x)) * sign(x - 1)", X.sqrt() * torch.sign(X - 1)),
        ("cos(x)/tan(x)", torch.cos(X) / torch.tan(X)),
        ("tanh(\tx )", torch.tanh(X)),
        ("2·x − π×x", 2 * X - math.pi * X),
    ],
)
def test_expressions_mean_what_mathematics_says(text: str, expected: torch.Tensor):
    torch.testing.assert_close(Expression(text)(X), expected)


OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def by_python(node: ast.AST, x: float) -> float:
    """The value that Python's own grammar gives."""
    if isinstance(node, ast.Expression):
        return by_python(node.body, x)
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](by_python(node.left, x), by_python(node.right, x))
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](by_python(node.operand, x))
    return x if isinstance(node, ast.Name) else float(ast.literal_eval(ast.unparse(node)))


def sums() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["x", "2", "0.5", "3"])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from([" + ", "-", "*"]), inner).map("".join),
            inner.map("-{}".format),
            inner.map("({})".format),
            inner.map("({})**2".format),
        ),
        max_leaves=12,
    )


@settings(deadline=None, max_examples=200)
@given(sums())
def test_precedence_is_that_of_python(text: str):
    expected = by_python(ast.parse(text, mode="eval"), 1.5)
    assert math.isclose(float(Expression(text)(1.5)), expected, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x+sine(x)", "unknown name 'sine' at character 3 of 'x+sine(x)': did you mean 'sin'?"),
        ("2x", "an operator is missing at character 2 of '2x': write 2*x to multiply."),
        ("sin(2x)", "an operator is missing at character 6 of 'sin(2x)': write 2*x to multiply."),
        ("(x+1)(x-1)", "an operator is missing at character 6 of '(x+1)(x-1)': write )*( to multiply."),
        ("(x+1", "a ) is missing for the ( at character 1 of '(x+1'."),
        ("x+1)", "a ( is missing for the ) at character 4 of 'x+1)'."),
        ("x +", "a value is missing before the end at character 4 of 'x +'."),
        ("x * / 2", "a value is missing before '/' at character 5 of 'x * / 2'."),
        ("()", "a value is missing before ')' at character 2 of '()'."),
        ("sin x", "the function sin needs its argument at character 1 of 'sin x': write sin(x)."),
        ("sin(x, 2)", "the function sin takes one argument, not 2 at character 1 of 'sin(x, 2)'."),
        ("x, 2", "a comma stands where no function has arguments at character 2 of 'x, 2'."),
        ("1e999", "the number 1e999 is too large at character 1 of '1e999'."),
        ("  ", "an expression must say something, but got '  ': write for instance sin(3*x) + x^2."),
        ("(" * 20 + "x", f"an expression may be nested 16 deep and is deeper at character 18 of '{'(' * 20}x'."),
        ("sin(" * 20 + "x", f"an expression may be nested 16 deep and is deeper at character 69 of '{'sin(' * 20}x'."),
        ("-" * 99 + "x", f"an expression may be nested 16 deep and is deeper at character 18 of '{'-' * 99}x'."),
        ("x^" * 20 + "x", f"an expression may be nested 16 deep and is deeper at character 35 of '{'x^' * 20}x'."),
        ("x+" * 600 + "x", "an expression may have 1000 characters, but got 1201."),
        (
            "x = 2",
            "'=' at character 3 of 'x = 2' has no meaning: use numbers, names, + - * / ^ ( ) and"
            " sin, cos, tan, exp, log, ln, sqrt, abs, tanh, sign, min, max.",
        ),
    ],
)
def test_a_mistake_is_pointed_at(text: str, sentence: str):
    with pytest.raises(InputError) as error:
        Expression(text)
    assert str(error.value) == sentence


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="x123.e+-*/^(),sincoπ ", max_size=40) | st.text(max_size=30))
def test_any_text_is_either_understood_or_refused_with_a_sentence(text: str):
    with contextlib.suppress(InputError):
        Expression(text)(torch.ones(3))


@pytest.mark.parametrize("text", ["__import__('os')", "x.__class__", "(lambda: 1)()", "open(x)", "x if x else x"])
def test_code_is_no_expression(text: str):
    with pytest.raises(InputError):
        Expression(text)


def test_a_tower_of_powers_is_infinite_and_not_endless():
    assert Expression("9^9^9^9^9")(X).isinf().all()


def test_precision_shape_and_several_variables_follow_the_arguments():
    assert Expression("3")(torch.zeros(2, 5)).shape == (2, 5)
    assert Expression("2 + x")(torch.zeros(2)).dtype == torch.float32
    assert Expression("n*m + m", ("n", "m"))(64, 10).item() == 650
