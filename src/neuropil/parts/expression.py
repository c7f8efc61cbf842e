"""Expressions that a person types, such as ``sin(3*x) + x^2``: read by a parser of our own and never run as code.

    sum      =  product  { (+ | -) product }
    product  =  sign     { (* | /) sign }
    sign     =  (+ | -) sign  |  power
    power    =  atom [ ^ sign ]                      so that -x^2 = -(x^2), 2^3^2 = 2^(3^2), 2^-1 = 0.5
    atom     =  number  |  name  |  function ( sum { , sum } )  |  ( sum )

`**` is the same as `^`. Each rule is a method of `_Parser` and returns a function of the variables, made of torch
operations.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from neuropil.errors import InputError, nearest

Evaluator = Callable[[Mapping[str, Tensor]], Tensor]
Operator = Callable[[Tensor, Tensor], Tensor]

CONSTANTS = {"pi": math.pi, "π": math.pi, "e": math.e}
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "exp": torch.exp,
    "log": torch.log,
    "ln": torch.log,
    "sqrt": torch.sqrt,
    "abs": torch.abs,
    "tanh": torch.tanh,
    "sign": torch.sign,
}
FOLDS: dict[str, Operator] = {"min": torch.minimum, "max": torch.maximum}
SUMS: dict[str, Operator] = {"+": torch.add, "-": torch.sub}
PRODUCTS: dict[str, Operator] = {"*": torch.mul, "/": torch.div}

MOST_CHARACTERS = 1000
DEEPEST_NESTING = 16
TYPOGRAPHY = str.maketrans({"−": "-", "–": "-", "·": "*", "×": "*", "÷": "/"})
TOKEN = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)|(?P<symbol>\*\*|[-+*/^(),])|(?P<space>\s+)"
)


class Expression:
    """A function of named variables: ``Expression("x^2 + 1")(points)``."""

    def __init__(self, text: str, variables: tuple[str, ...] = ("x",)):
        self.text, self.variables = text, variables
        self._evaluate = _Parser(text, variables).whole()

    def __call__(self, *arguments: Tensor | float) -> Tensor:
        """One argument per variable. The result has their common precision and shape, even if it is a constant."""
        tensors = [
            argument if isinstance(argument, Tensor) else torch.tensor(argument, dtype=torch.double)
            for argument in arguments
        ]
        dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
        shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))  # torch's own imports SymPy, for a second
        result = self._evaluate(dict(zip(self.variables, tensors, strict=True)))
        return result.to(tensors[0].device, dtype).broadcast_to(shape)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int


def tokenize(text: str) -> list[Token]:
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"an expression may have {MOST_CHARACTERS} characters", got=f"{len(text)}")
    plain = text.translate(TYPOGRAPHY)
    tokens, position = [], 0
    while position < len(plain):
        match = TOKEN.match(plain, position)
        if not match:
            symbols = f"use numbers, names, + - * / ^ ( ) and {', '.join([*FUNCTIONS, *FOLDS])}"
            raise InputError(f"{text[position]!r} at character {position + 1} of {text!r} has no meaning", fix=symbols)
        if match.lastgroup != "space":
            tokens.append(Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    return [*tokens, Token("end", "", len(text))]


class _Parser:
    def __init__(self, text: str, variables: tuple[str, ...]):
        self.text, self.variables = text, variables
        self.tokens = tokenize(text)
        self.index = 0
        self.depth = 0

    # --- the grammar, rule by rule ------------------------------------------------------------------------------------

    def whole(self) -> Evaluator:
        if self.token.kind == "end":
            rule = "an expression must say something"
            raise InputError(rule, got=repr(self.text), fix="write for instance sin(3*x) + x^2")
        found = self.sum()
        if self.token.kind != "end":
            raise self.unexpected()
        return found

    def sum(self) -> Evaluator:
        return self.chain(SUMS, self.product)

    def product(self) -> Evaluator:
        return self.chain(PRODUCTS, self.sign)

    def chain(self, operators: Mapping[str, Operator], operand: Callable[[], Evaluator]) -> Evaluator:
        """Operands joined from left to right; a loop and not a recursion, so that a long sum is no deep one."""
        first, rest = operand(), []
        while self.token.text in operators:
            operator = operators[self.advance().text]
            rest.append((operator, operand()))
        if not rest:
            return first
        return lambda values: reduce(lambda total, step: step[0](total, step[1](values)), rest, first(values))

    def sign(self) -> Evaluator:
        if self.token.text not in SUMS:
            return self.power()
        negative = self.advance().text == "-"
        operand = self.nested(self.sign)
        return (lambda values: -operand(values)) if negative else operand

    def power(self) -> Evaluator:
        base = self.atom()
        if self.token.text not in ("^", "**"):
            return base
        self.advance()
        exponent = self.nested(self.sign)
        return lambda values: torch.pow(base(values), exponent(values))

    def atom(self) -> Evaluator:
        token = self.advance()
        if token.kind == "number":
            return self.number(token)
        if token.kind == "name":
            return self.name(token)
        if token.text == "(":
            inside = self.nested(self.sum)
            self.close(token)
            return inside
        raise self.error(f"a value is missing before {repr(token.text) if token.text else 'the end'}", token)

    def number(self, token: Token) -> Evaluator:
        if not math.isfinite(float(token.text)):
            raise self.error(f"the number {token.text} is too large", token)
        return constant(float(token.text))

    def name(self, token: Token) -> Evaluator:
        name = token.text
        if name in self.variables:
            return lambda values: values[name]
        if name in CONSTANTS:
            return constant(CONSTANTS[name])
        if name in FUNCTIONS or name in FOLDS:
            return self.call(token)
        known = [*self.variables, *CONSTANTS, *FUNCTIONS, *FOLDS]
        raise self.error(f"unknown name {name!r}", token, fix=nearest(name, known))

    def call(self, function: Token) -> Evaluator:
        name, opening = function.text, self.token
        if opening.text != "(":
            raise self.error(f"the function {name} needs its argument", function, fix=f"write {name}(x)")
        arguments = []
        while not arguments or self.token.text == ",":
            self.advance()
            arguments.append(self.nested(self.sum))
        self.close(opening)
        if name in FOLDS:
            return lambda values: reduce(FOLDS[name], (argument(values) for argument in arguments))
        if len(arguments) > 1:
            raise self.error(f"the function {name} takes one argument, not {len(arguments)}", function)
        return lambda values: FUNCTIONS[name](arguments[0](values))

    # --- reading on, and what to say when that is not possible --------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def advance(self) -> Token:
        token = self.token
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def close(self, opening: Token) -> None:
        if self.token.kind == "end":
            raise self.error("a ) is missing for the (", opening)
        if self.token.text != ")":
            raise self.unexpected()
        self.advance()

    def nested(self, rule: Callable[[], Evaluator]) -> Evaluator:
        """A rule inside a rule, counted: nobody means to nest this deep, and Python's own stack is finite."""
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            raise self.error(f"an expression may be nested {DEEPEST_NESTING} deep and is deeper", self.token)
        found = rule()
        self.depth -= 1
        return found

    def unexpected(self) -> InputError:
        token, before = self.token, self.tokens[self.index - 1].text
        if token.text == ")":
            return self.error("a ( is missing for the )", token)
        if token.text == ",":
            return self.error("a comma stands where no function has arguments", token)
        return self.error("an operator is missing", token, fix=f"write {before}*{token.text} to multiply")

    def error(self, problem: str, token: Token, fix: str | None = None) -> InputError:
        return InputError(f"{problem} at character {token.start + 1} of {self.text!r}", fix=fix)


def constant(value: float) -> Evaluator:
    tensor = torch.tensor(value, dtype=torch.double)
    return lambda values: tensor
