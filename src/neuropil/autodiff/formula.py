"""A formula as text, made into an expression graph: `Formula("(a * b + sin(c)) ** 2")(a=1, b=2, c=3)`.

The text is read by Python's own grammar and never run: only numbers, names, + − * / ** and the functions below are
known, each of one number.
"""

import ast
import math
from collections.abc import Callable, Mapping
from typing import cast

from neuropil.autodiff import ops
from neuropil.autodiff.engine import Var
from neuropil.errors import InputError, nearest

LONGEST, MOST_OPS = 200, 60
FUNCTIONS: Mapping[str, Callable[[Var], Var]] = {
    "sin": ops.sin, "cos": ops.cos, "exp": ops.exp, "log": ops.log, "tanh": ops.tanh, "sigmoid": ops.sigmoid,
    "relu": ops.relu, "softplus": ops.softplus, "abs": ops.abs,
}  # fmt: skip
OPERATORS: Mapping[type[ast.operator], Callable[[Var, Var], Var]] = {
    ast.Add: ops.add, ast.Sub: ops.sub, ast.Mult: ops.mul, ast.Div: ops.div, ast.Pow: ops.power,
}  # fmt: skip
KNOWN = f"numbers, names, + - * / ** and {', '.join(FUNCTIONS)}"
SMALL_STEP = 1e-6


class Formula:
    def __init__(self, text: str):
        self.text = text
        self.tree = _parsed(text)
        nodes = list(ast.walk(self.tree))
        for node in nodes:
            _require_known(node, self.tree)
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        names = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in called]
        self.names = list(dict.fromkeys(n.id for n in sorted(names, key=lambda n: (n.lineno, n.col_offset))))
        """Of its variables, in the order of the text."""
        if not self.names:
            raise InputError("a formula needs a variable", got=f"{text.strip()!r}", fix="write a name such as x in it")
        if sum(isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call) for node in nodes) > MOST_OPS:
            raise InputError(f"a formula has at most {MOST_OPS} operations", got=f"{text.strip()!r}")

    def __call__(self, **values: float) -> Var:
        """The end of a new expression graph, in which each variable is one Var, however often it is used."""
        variables = {name: Var(float(values[name]), name=name) for name in self.names}
        return _made(self.tree, variables)

    def difference_quotients(self, **values: float) -> dict[str, float]:
        """(f(x + h) − f(x − h)) / 2h by each variable: what the gradient must be, without any chain rule."""

        def at(name: str, step: float) -> float:
            return float(self(**{**values, name: values[name] + step}))

        return {name: (at(name, SMALL_STEP) - at(name, -SMALL_STEP)) / (2 * SMALL_STEP) for name in self.names}


def _parsed(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise InputError(f"a formula has at most {LONGEST} characters", got=f"{len(text)}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"a formula is made of {KNOWN}", got=f"{text.strip()!r}") from error


def _require_known(node: ast.AST, tree: ast.expr) -> None:
    """Every kind of node of the tree is one of these few."""
    if isinstance(node, ast.Constant):
        if not _is_finite_number(node.value):
            raise InputError("a formula's constants are finite numbers", got=ast.unparse(node))
    elif isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            name = ast.unparse(node.func)
            raise InputError("a formula uses the functions that it has", got=f"{name!r}", fix=nearest(name, FUNCTIONS))
        if len(node.args) != 1 or node.keywords:
            raise InputError("a formula's functions are of one number", got=f"{ast.unparse(node)!r}")
    elif isinstance(node, ast.BinOp):
        if type(node.op) not in OPERATORS:
            fix = "write ** for a power" if isinstance(node.op, ast.BitXor) else f"it is made of {KNOWN}"
            raise InputError("a formula has numbers and the operators + - * / **", got=ast.unparse(node), fix=fix)
    elif isinstance(node, ast.Name):
        if node.id in FUNCTIONS and not _is_called(node, tree):
            raise InputError("a function needs its number", got=f"{node.id!r}", fix=f"write {node.id}(x)")
    elif isinstance(node, ast.UnaryOp):
        if not isinstance(node.op, ast.USub | ast.UAdd):
            raise InputError("a formula has numbers and the signs + and -", got=ast.unparse(node))
    elif isinstance(node, ast.expr):
        fix = f"it is made of {KNOWN}"
        raise InputError("a formula is of numbers, not of vectors or others", got=ast.unparse(node), fix=fix)


def _is_called(name: ast.Name, tree: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and node.func is name for node in ast.walk(tree))


def _is_finite_number(value: object) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(cast(float, value))
    except OverflowError:  # a whole number beyond all floats
        return False


def _made(node: ast.expr, variables: Mapping[str, Var]) -> Var:
    match node:
        case ast.Name():
            return variables[node.id]
        case ast.Constant(value=int() | float() as value):
            return Var(float(value), constant=True)
        case ast.UnaryOp(op=ast.UAdd()):
            return _made(node.operand, variables)
        case ast.UnaryOp():
            return ops.neg(_made(node.operand, variables))
        case ast.BinOp():
            return OPERATORS[type(node.op)](_made(node.left, variables), _made(node.right, variables))
        case ast.Call(func=ast.Name(id=name)):
            return FUNCTIONS[name](_made(node.args[0], variables))
    raise AssertionError(f"{type(node).__name__} was let through")
