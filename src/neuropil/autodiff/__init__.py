"""Automatic differentiation from scratch, on NumPy alone.

    x, w = Var(2.0, name="x"), Var(-3.0, name="w")
    loss = (ops.tanh(x * w) - 1) ** 2
    loss.backward()
    w.grad                            # ∂loss/∂w
    graph(loss).draw("loss.svg")

`engine` is the idea; `ops` are its operations, `modules` and `networks` what is built from them; the rest draws.
"""

from neuropil.autodiff import modules, networks, ops
from neuropil.autodiff.engine import BackwardStep, Op, Var, group, op
from neuropil.autodiff.expression import Graph, graph

__all__ = ["BackwardStep", "Graph", "Op", "Var", "graph", "group", "modules", "networks", "op", "ops"]
