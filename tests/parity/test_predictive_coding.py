"""Predictive coding written by hand beside autograd's gradients of its energy, beside back-propagation, and its nodes
in time beside SciPy's solution of their differential equations."""

from typing import Any, Literal, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from torch.nn import functional as F

from neuropil.models.mlp import MLP, MLPConfig
from neuropil.models.predictive_coding.network import (
    PredictiveCoding,
    PredictiveCodingConfig,
    SlopedName,
)
from neuropil.models.predictive_coding.settled_energy import SettledEnergy


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    hidden=st.lists(st.integers(1, 9), max_size=4).map(tuple),
    direction=st.sampled_from(["up", "down", "both"]),
    activation=st.sampled_from(get_args(SlopedName)),
    spreads=st.tuples(*[st.floats(0.3, 5.0)] * 3),
    held=st.lists(st.sampled_from(["all", "none", "some"]), min_size=6, max_size=6),
)
def test_states_and_weights_move_along_autograds_gradients_of_the_energy(
    seed: int,
    hidden: tuple[int, ...],
    direction: Literal["up", "down", "both"],
    activation: SlopedName,
    spreads: tuple[float, float, float],
    held: list[str],
):
    torch.manual_seed(seed)
    nu_up, nu_down, nu_target = spreads
    config = PredictiveCodingConfig(
        hidden_sizes=hidden,
        direction=direction,
        activation=activation,
        nu_up=nu_up,
        nu_down=nu_down,
        nu_target=nu_target,
        shape=(5,),
        outputs=4,
    )
    model = PredictiveCoding(config).double()
    states = [torch.randn(3, size, dtype=torch.double, requires_grad=True) for size in config.sizes]
    masks = [
        {"all": torch.zeros(size), "none": torch.ones(size)}.get(kind, torch.rand(size) < 0.5).bool()
        for kind, size in zip(held, config.sizes, strict=False)
    ]
    free: list[Any] = [mask if mask.any() and not mask.all() else bool(mask.all()) for mask in masks]

    energy = reference_energy(model, states)
    slopes = torch.autograd.grad(energy, [*states, *model.parameters()], allow_unused=True)
    with torch.no_grad():
        moved = model.settle([state.detach() for state in states], free, 1, rates=[0.1] * len(states))
        rules = model.local_rules(states, model.errors(states))
    for state, mask, slope, after in zip(states, masks, slopes, moved, strict=False):
        torch.testing.assert_close(after, (state - 0.1 * mask * (0 if slope is None else slope)).detach())
    for rule, slope in zip(rules, slopes[len(states) :], strict=True):
        torch.testing.assert_close(3 * rule, slope)


def reference_energy(model: PredictiveCoding, states: list[torch.Tensor]) -> torch.Tensor:
    """½ Σ ‖(x' − σ(x) M − β) / ν‖², written out once more."""
    total = torch.zeros((), dtype=torch.double)
    for connection in model.connections:
        x = states[connection.source]
        inner = 0 < connection.source < len(states) - 1
        mean = (model.activation(x) if inner else x) @ connection.weight + connection.bias
        total = total + 0.5 * ((states[connection.target] - mean) / connection.nu).square().sum()
    return total


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_settled_with_a_small_error_the_weights_change_as_by_backpropagation(depth: int):
    torch.manual_seed(0)
    hidden = (12,) * depth
    config = PredictiveCodingConfig(
        hidden_sizes=hidden,
        activation="tanh",
        direction="up",
        shape=(8,),
        outputs=3,
        nu_target=100.0,
        rate=0.15,
        steps=2_000,
    )
    model = PredictiveCoding(config).double()
    mlp = MLP(MLPConfig(hidden_sizes=hidden, activation="tanh", dropout=0.0, shape=(8,), outputs=3)).double()
    layers = [*(mlp.get_submodule(f"hidden.{number}") for number in range(depth)), mlp.output]
    with torch.no_grad():
        for layer, connection in zip(layers, model.connections, strict=True):
            layer.get_parameter("weight").copy_(connection.weight.T)
            layer.get_parameter("bias").copy_(connection.bias)
    x, target = torch.randn(16, 8, dtype=torch.double), torch.randint(0, 3, (16,))
    SettledEnergy(model).loss({"input": x, "target": target}).backward()
    error = mlp(x) - F.one_hot(target, 3)
    (0.5 * error.square().sum(-1).mean() / config.nu_target**2).backward()
    for layer, connection in zip(layers, model.connections, strict=True):
        weight, bias = (layer.get_parameter(name).grad for name in ("weight", "bias"))
        assert weight is not None
        assert bias is not None
        torch.testing.assert_close(connection.weight.grad, weight.T, rtol=0.01, atol=0.01 * weight.abs().max().item())
        torch.testing.assert_close(connection.bias.grad, bias, rtol=0.01, atol=0.01 * bias.abs().max().item())


def test_value_and_error_nodes_in_time_follow_scipys_solution():
    """Two hidden layers, predictions upwards: τ dε/dt = x' − μ − νε and dx/dt = −ε_x / ν + σ'(x) ⊙ (ε / ν) Mᵀ."""
    torch.manual_seed(0)
    spreads, tau, duration = (0.7, 0.7, 1.6), 0.5, 3.0
    config = PredictiveCodingConfig(
        hidden_sizes=(4, 3), activation="tanh", direction="up", nu_up=0.7, nu_target=1.6, shape=(5,), outputs=2
    )
    weights, states = PredictiveCoding(config).double().state_dict(), [torch.randn(1, n).double() for n in (5, 4, 3, 2)]
    matrices = [weights[f"up.{number}.weight"].numpy() for number in range(3)]
    x0, y = states[0][0].numpy(), states[3][0].numpy()
    borders = np.cumsum([4, 3, 4, 3])

    def change(_: float, nodes: np.ndarray) -> np.ndarray:
        x1, x2, e1, e2, e3 = np.split(nodes, borders)
        a1, a2 = np.tanh(x1), np.tanh(x2)
        errors = [x1 - x0 @ matrices[0], x2 - a1 @ matrices[1], y - a2 @ matrices[2]]
        d1 = -e1 / spreads[0] + (1 - a1**2) * (matrices[1] @ e2) / spreads[1]
        d2 = -e2 / spreads[1] + (1 - a2**2) * (matrices[2] @ e3) / spreads[2]
        found = [(miss - nu * node) / tau for miss, nu, node in zip(errors, spreads, (e1, e2, e3), strict=True)]
        return np.concatenate([d1, d2, *found])

    start = np.concatenate([states[1][0], states[2][0], np.zeros(9)])
    truth = solve_ivp(change, (0, duration), start, rtol=1e-10, atol=1e-12).y[:, -1]

    def apart(steps: int) -> float:
        dt = duration / steps
        model = PredictiveCoding(config.override(error_tau=tau / dt)).double()
        model.load_state_dict(weights)
        nodes = model.silent_errors(1)
        found = model.settle(states, [False, True, True, False], steps, rates=[dt] * 4, errors=nodes)
        return float(np.abs(torch.cat([*found[1:-1], *(nodes or [])], 1)[0].numpy() - truth).max())

    coarse, fine = apart(1_000), apart(2_000)
    assert coarse < 5e-3
    assert fine == pytest.approx(coarse / 2, rel=0.05)  # of the first order
