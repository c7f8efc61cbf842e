"""The expression graph of a formula that is typed, stepped forward and backward."""

import re
from typing import Any, cast

import numpy as np

from neuropil.autodiff import BackwardStep, Graph, Op, Var
from neuropil.autodiff.cards import SYMBOLS
from neuropil.autodiff.drawing import GraphDrawing, link_path
from neuropil.autodiff.formula import FUNCTIONS, LONGEST, Formula
from neuropil.config import Config, option
from neuropil.errors import InputError

EXAMPLE = "(a*b + sin(c))**2"
EXAMPLES = {
    EXAMPLE: "a product, a sum, a function and a power",
    "x * tanh(w*x + b)": "x is used twice: its two gradients are added",
    "-log(sigmoid(y * (w*x + b)))": "the loss of logistic regression, y = ±1",
    "relu(w*x + b)": "no gradient passes where the unit is silent",
    "sigmoid(sigmoid(sigmoid(sigmoid(w))))": "a vanishing gradient",
    "exp(-(x - m)**2 / (2 * s**2))": "the bell curve",
}
VALUES = (1.5, -0.8, 0.5, 2.0, -1.5, 1.0)
"""Of variables that have none yet, in turn."""
MOST_VARIABLES = 8


class FormulaRequest(Config):
    formula: str = option(EXAMPLE, "numbers, names, + - * / ** and functions of one number")
    names: tuple[str, ...] = option((), "variables that have a value")
    values: tuple[float, ...] = option((), "their values", low=-100, high=100)

    def validate(self) -> None:
        if len(self.names) != len(self.values) or len(self.names) > MOST_VARIABLES:
            got = f"{len(self.names)} and {len(self.values)}"
            raise InputError(f"names and values must be as many, at most {MOST_VARIABLES}", got=got)
        if len(self.formula) > LONGEST:
            raise InputError(f"a formula has at most {LONGEST} characters", got=f"{len(self.formula)}")


def open_view() -> dict[str, Any]:
    return {"examples": EXAMPLES, "functions": list(FUNCTIONS), "shown": read(FormulaRequest())}


def read(request: FormulaRequest) -> dict[str, Any]:
    """The graph where the library puts it, the steps forward, and each step of `backward` with its numbers."""
    formula = Formula(request.formula)
    if len(formula.names) > MOST_VARIABLES:
        got = ", ".join(formula.names)
        raise InputError(f"the page has room for a formula of {MOST_VARIABLES} variables", got=got)
    given = dict(zip(request.names, request.values, strict=True))
    default = dict(zip(formula.names, VALUES * 2, strict=False))
    values = {name: given.get(name, default[name]) for name in formula.names}
    with np.errstate(all="ignore"):
        root = formula(**values)
        graph = Graph(root)
        steps = list(root.backward(steps=True))
        if not steps:
            raise InputError("the graph of a formula needs an operation", got=f"{formula.text.strip()!r}")
        place = {var: number for number, var in enumerate(graph.vars)}
        return {
            "formula": formula.text,
            "values": values,
            "graph": _drawn(graph, steps, place),
            "forward": [_forward(var, var.creator, place) for var in graph.vars if var.creator],
            "backward": [
                _backward(step, previous, place) for previous, step in zip([None, *steps], steps, strict=False)
            ],
            "gradients": {var.name: float(var.grad) for var in graph.vars if var.name},
            "quotients": formula.difference_quotients(**values),
        }


def _drawn(graph: Graph, steps: list[BackwardStep], place: dict[Var, int]) -> dict[str, Any]:
    """Laid out as it is at the last step, with room for every gradient."""
    view = GraphDrawing(graph, set(), steps[-1], "layered", interactive=False).view(graph.box, seen=True)
    nodes = []
    for var in graph.vars:
        item = view.items[var]
        nodes.append(
            {
                "x": round(item.left, 1),
                "y": round(item.top, 1),
                "width": round(item.width, 1),
                "height": round(item.height, 1),
                "row": item.row,
                "name": var.name,
                "constant": var.constant,
                "value": float(var.val),
                "op": SYMBOLS.get(var.creator.name, var.creator.name) if var.creator else None,
                "arguments": [place[arg] for arg in var.creator.args] if var.creator else [],
            }
        )
    ends = {item: place[child] for child, item in view.items.items() if isinstance(child, Var)}
    links = [
        {
            "path": link_path(link, view),
            "from": place[cast(Var, link.key)],
            "to": ends.get(link.target),  # none where it only passes a row
            "row": link.target.row,
        }
        for link in view.level.links
    ]
    return {"nodes": nodes, "links": links, "width": round(view.level.width, 1), "height": round(view.level.height, 1)}


def _forward(var: Var, op: Op, place: dict[Var, int]) -> dict[str, Any]:
    arguments = [float(arg.val) for arg in op.args]
    return {"node": place[var], "op": op.name, "arguments": arguments, "value": float(var.val)}


def _backward(step: BackwardStep, previous: BackwardStep | None, place: dict[Var, int]) -> dict[str, Any]:
    """The gradient s of the output, and for each argument s · ∂output/∂argument and what is there now."""
    output = next(var for var in place if var.creator is step.op)
    s = float(step.grads[output])
    before = previous.grads if previous else {}
    flows = [
        {
            "node": place[arg],
            "local": float(local),
            "product": s * float(local),
            "before": float(before[arg]) if arg in before else 0.0,
            "after": float(step.grads[arg]),
        }
        for arg, local in zip(step.op.args, step.op.local_derivatives(), strict=True)
        if not arg.constant
    ]
    rule = re.sub(r"\s+", " ", (step.op.rule.__doc__ or "").partition("\n")[0])
    return {
        "node": place[output],
        "op": step.op.name,
        "rule": rule,
        "s": s,
        "flows": flows,
        "gradients": {str(place[var]): float(grad) for var, grad in step.grads.items()},
    }


ACTIONS = {"open": open_view, "read": read}
