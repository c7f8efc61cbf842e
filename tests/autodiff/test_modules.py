import numpy as np

from neuropil.autodiff import Var
from neuropil.autodiff.modules import SGD, LinearLayer, Module


class Stack(Module):
    def __init__(self, rng: np.random.Generator):
        self.layers = [LinearLayer(2, 3, rng), LinearLayer(3, 2, rng)]
        self.scale = Var(2.0)

    def forward(self, x: Var) -> Var:
        for layer in self.layers:
            x = layer(x)
        return x * self.scale


def test_parameters_are_found_in_parts_and_lists_under_dotted_names():
    parameters = Stack(np.random.default_rng(0)).parameters()
    assert {name: var.shape for name, var in parameters.items()} == {
        "layers.0.weight": (2, 3), "layers.0.bias": (3,), "layers.1.weight": (3, 2), "layers.1.bias": (2,), "scale": (),
    }  # fmt: skip
    assert [var.name for var in parameters.values()] == ["weight", "bias", "weight", "bias", "scale"]


def test_the_ops_of_a_module_are_its_group():
    y = Stack(np.random.default_rng(0))(Var(np.ones((1, 2))))
    assert y.creator.group.name == "Stack"
    inner = y.creator.args[0].creator.group
    assert (inner.name, inner.parent.name) == ("layers.1", "Stack")


def test_a_step_replaces_values_so_that_a_graph_made_before_stays_true():
    x = Var(3.0)
    y = x * x
    y.backward()
    SGD({"x": x}, rate=0.5).step()
    assert x.val == 0
    y.zero_grad()
    y.backward()
    assert x.grad == 6
