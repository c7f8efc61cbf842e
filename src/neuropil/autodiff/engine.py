"""Automatic differentiation: an expression graph that records how it was made, and the chain rule run backwards over
it.

    f = g(x, y)      makes   Op(g) with args (x, y)   and   Var(f) with creator Op(g)
    x.grad  +=  Σ over the ops that use x of   s · ∂op/∂x        s: the gradient of that op's output

An op is written as one function on arrays. It returns its value and, for each argument, a pullback: the function that
turns the gradient s of the output into s · ∂output/∂argument. Decorated with `@op` it takes and gives Vars.

`backward` visits each op once, after all that use its output, so its cost grows with the number of ops. The textbook
recursion (a Var passes on each gradient as it comes) visits each *path*, and a graph of n diamonds has 2ⁿ of them.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError

Array: TypeAlias = Float[np.ndarray, "..."]
Pullback: TypeAlias = Callable[[Array], Array]
Rule: TypeAlias = Callable[..., tuple[Any, ...]]

OPS: dict[str, Callable[..., "Var"]] = {}
"""Every op by its name; the operators of `Var` are looked up here when they are used."""

_births = itertools.count()


def _operator(name: str) -> Callable[..., "Var"]:
    return lambda self, *args, **settings: OPS[name](self, *args, **settings)


def _swapped(name: str) -> Callable[..., "Var"]:
    return lambda self, other: OPS[name](other, self)


class Var:
    """A value of the expression, and the derivative of the whole with respect to it. Both always have one shape.

    A constant (data, for instance) gets no gradient, and no time is spent on one. Numbers and arrays that meet a Var in
    an expression become constants by themselves.
    """

    __slots__ = ("birth", "constant", "creator", "grad", "name", "val")
    __array_ufunc__ = None  # array + Var is then left to Var.__radd__

    def __init__(self, val: Any, *, name: str | None = None, constant: bool = False, creator: "Op | None" = None):
        val = np.asarray(val)
        if val.dtype.kind not in "fiub":
            raise InputError("a Var holds real numbers", got=f"an array of {val.dtype}")
        self.val = val if val.dtype.kind == "f" else val.astype(np.float64)
        self.grad = np.zeros_like(self.val)
        self.creator, self.name, self.constant, self.birth = creator, name, constant, next(_births)

    @overload
    def backward(self, seed: Any = None, steps: Literal[False] = False) -> None: ...
    @overload
    def backward(self, seed: Any = None, *, steps: Literal[True]) -> "Iterator[BackwardStep]": ...
    def backward(self, seed: Any = None, steps: bool = False) -> "Iterator[BackwardStep] | None":
        """Add to `grad`, here and in all that this Var was made from, the derivative of `seed · self`.

        A scalar needs no seed. With `steps`, nothing happens until the returned iterator is drawn from: it
        differentiates one op and yields a `BackwardStep`, until all are done.
        """
        walk = self._walk(self._checked_seed(seed))
        if steps:
            return self._steps(walk)
        for _ in walk:
            pass
        return None

    def _walk(self, seed: Array) -> "Iterator[Op]":
        """The chain rule, one op at a time: yield each op after its gradient has gone to its arguments."""
        self.grad = np.asarray(self.grad + seed)
        flow: dict[Var, Array] = {self: seed}  # what this pass has brought so far; `grad` may hold earlier passes too
        for var in reversed(topological_order(self)):
            if var.creator is None or var.constant:
                continue
            s = flow.pop(var)
            for arg, pullback in zip(var.creator.args, var.creator.pullbacks, strict=True):
                if not arg.constant:
                    gradient = undo_broadcasting(np.asarray(pullback(s)), arg.shape)
                    flow[arg] = np.asarray(flow[arg] + gradient) if arg in flow else gradient
                    arg.grad = np.asarray(arg.grad + gradient)  # NumPy makes no array of the sum of two 0-d arrays
            yield var.creator

    def _steps(self, walk: "Iterator[Op]") -> "Iterator[BackwardStep]":
        grads, done = {}, frozenset()
        for op in walk:
            changed = {arg: arg.grad for arg in op.args if not arg.constant}
            grads, done = grads | {self: self.grad} | changed, done | {op}
            yield BackwardStep(op, tuple(changed), grads, done)

    def _checked_seed(self, seed: Any) -> Array:
        if self.constant:
            rule = "backward starts from a Var that depends on a variable"
            raise InputError(rule, got="a constant", fix="make one with Var(...)")
        if seed is None and self.val.size != 1:
            got, fix = f"a Var of shape {self.shape}", "take its sum or mean first, or give a seed of that shape"
            raise InputError("backward without a seed starts from a scalar", got=got, fix=fix)
        seed = np.ones_like(self.val) if seed is None else np.asarray(seed, self.dtype)
        if seed.shape != self.shape:
            raise InputError(f"the seed of backward has the shape of its Var, {self.shape}", got=f"shape {seed.shape}")
        return seed

    def zero_grad(self) -> None:
        """Set `grad` to zero, here and in all that this Var was made from."""
        for var in topological_order(self):
            var.grad = np.zeros_like(var.val)

    __add__ = __radd__ = _operator("add")
    __mul__ = __rmul__ = _operator("mul")
    __sub__, __rsub__ = _operator("sub"), _swapped("sub")
    __truediv__, __rtruediv__ = _operator("div"), _swapped("div")
    __pow__, __rpow__ = _operator("power"), _swapped("power")
    __matmul__, __rmatmul__ = _operator("matmul"), _swapped("matmul")
    __neg__, __abs__ = _operator("neg"), _operator("abs")
    __getitem__ = _operator("index")
    sum, mean, max, min = _operator("sum"), _operator("mean"), _operator("max"), _operator("min")
    exp, log, reshape, transpose = _operator("exp"), _operator("log"), _operator("reshape"), _operator("transpose")
    T = property(_operator("transpose"))
    shape = property(lambda self: self.val.shape)
    ndim = property(lambda self: self.val.ndim)
    dtype = property(lambda self: self.val.dtype)

    def __len__(self) -> int:
        return len(self.val)

    def __iter__(self) -> "Iterator[Var]":
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        return float(self.val.item())

    def __repr__(self) -> str:
        named = "" if self.name is None else f", name={self.name!r}"
        return f"Var({np.array2string(self.val, precision=4, threshold=20, separator=', ')}{named})"


class Op:
    """One use of an operation. Calling it makes its output Var; it records its arguments and their pullbacks."""

    __slots__ = ("args", "group", "named", "pullbacks", "rule", "settings")

    def __init__(self, rule: Rule, *settings: Any, **named: Any):
        self.rule, self.settings, self.named = rule, settings, named
        self.group = _group.get()

    def __call__(self, *args: Any) -> Var:
        self.args = as_vars(args)
        try:
            val, *self.pullbacks = self.rule(*(arg.val for arg in self.args), *self.settings, **self.named)
        except InputError:
            raise
        except (ValueError, IndexError) as error:  # NumPy's complaints about shapes, told in one way for all ops
            shapes = " and ".join(str(arg.shape) for arg in self.args)
            raise InputError(f"{self.name} needs shapes that fit", got=shapes, fix=str(error).strip()) from error
        return Var(val, constant=all(arg.constant for arg in self.args), creator=self)

    @property
    def name(self) -> str:
        return self.rule.__name__

    def local_derivatives(self) -> tuple[Array, ...]:
        """∂output/∂argument of an op on numbers, for each of its arguments."""
        return tuple(np.asarray(pullback(np.ones(()))) for pullback in self.pullbacks)

    def __repr__(self) -> str:
        return f"Op({self.name}, args={self.args})"


def op(rule: Rule) -> Callable[..., Var]:
    """Turn `rule(*arrays, *settings) -> value, *pullbacks` into a function of Vars.

    Positional-only parameters (and `*args`) are differentiated; those after the slash are settings.
    """
    kinds = [parameter.kind for parameter in inspect.signature(rule).parameters.values()]
    num_vars = None if inspect.Parameter.VAR_POSITIONAL in kinds else kinds.count(inspect.Parameter.POSITIONAL_ONLY)

    @functools.wraps(rule)
    def apply(*args: Any, **settings: Any) -> Var:
        split = len(args) if num_vars is None else num_vars
        return Op(rule, *args[split:], **settings)(*args[:split])

    OPS.setdefault(rule.__name__, apply)  # the operators of Var stay ours, whatever names others give to their ops
    return apply


def as_vars(args: tuple[Any, ...]) -> tuple[Var, ...]:
    """Numbers and arrays become constants; a plain number takes the precision of the Var that it meets."""
    dtype = next((arg.dtype for arg in args if isinstance(arg, Var)), None)

    def constant(arg: Any) -> Var:
        return Var(np.asarray(arg, dtype if isinstance(arg, int | float) else None), constant=True)

    return tuple(arg if isinstance(arg, Var) else constant(arg) for arg in args)


def undo_broadcasting(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Where an argument was repeated along an axis, each copy has its own gradient: their sum is the argument's."""
    if gradient.shape == shape:
        return gradient
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1 != gradient.shape[axis])
    return np.asarray(gradient.sum(repeated, keepdims=True))


def topological_order(root: Var) -> list[Var]:
    """All that `root` was made from, each after its own arguments: a Var is always younger than they are."""
    found, stack = {root}, [root]
    while stack:
        op = stack.pop().creator
        new = set(op.args) - found if op else set()
        found |= new
        stack += new
    return sorted(found, key=lambda var: var.birth)


@dataclass(frozen=True)
class BackwardStep:
    """One moment of `backward(steps=True)`. It stays as it was, whatever the pass does next."""

    op: Op
    """The op that was just differentiated."""
    changed: tuple[Var, ...]
    """Its arguments, whose gradients have just grown."""
    grads: Mapping[Var, Array]
    """The gradient of each Var that the pass has reached so far; complete once all ops that use the Var are done."""
    done: frozenset[Op]
    """All ops differentiated so far."""


class OpGroup:
    """A named stretch of computation. Entering the same name again makes another group."""

    __slots__ = ("name", "parent")

    def __init__(self, name: str, parent: "OpGroup | None"):
        self.name, self.parent = name, parent


_group: ContextVar[OpGroup | None] = ContextVar("group", default=None)


@contextmanager
def group(name: str) -> Iterator[None]:
    """Ops used inside belong to `name`, which drawings show as one box that opens. Groups nest."""
    token = _group.set(OpGroup(name, _group.get()))
    try:
        yield
    finally:
        _group.reset(token)
