"""Every convention beside its formula, and each converted into each other where both compute the same."""

import itertools
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.gru import GRU, OPEN, Gate, GRUConfig, Reset, convert
from neuropil.parts.parameters import count_parameters
from neuropil.parts.recurrence import Hidden

GATES: tuple[Gate, ...] = get_args(Gate)
RESETS: tuple[Reset, ...] = get_args(Reset)
GATE_PAIRS = list(itertools.product(GATES, GATES))


def random_cell(gate: Gate, reset: Reset, inputs: int = 3, units: int = 4, seed: int = 0) -> GRU:
    torch.manual_seed(seed)
    cell = GRU(GRUConfig(input_size=inputs, hidden_size=units, gate=gate, reset=reset)).double()
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter)
    return cell


def logistic(a: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-a))


def by_formula(cell: GRU, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """r, g, h̃ and h' of one row, from the papers."""
    n = cell.hidden_size
    U, W, b = (list(part.split(n)) for part in (cell.input_weight, cell.state_weight, cell.bias))
    opened = logistic(W[-2] @ h + U[-2] @ x + b[-2])
    g = opened if cell.config.gate == "take" else 1 - opened
    if cell.config.reset == "after":
        r = logistic(W[0] @ h + U[0] @ x + b[0])
        candidate = torch.tanh(r * (W[2] @ h + cell.state_bias) + U[2] @ x + b[2])
    elif cell.config.reset == "before":
        r = logistic(W[0] @ h + U[0] @ x + b[0])
        candidate = torch.tanh(W[2] @ (r * h) + U[2] @ x + b[2])
    elif cell.config.reset == "none":
        r = torch.ones(n, dtype=h.dtype)
        candidate = torch.tanh(W[1] @ h + U[1] @ x + b[1])
    else:
        r = g
        candidate = torch.tanh(W[1] @ (g * h) + U[1] @ x + b[1])
    return r, g, candidate, g * candidate + (1 - g) * h


@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("gate", GATES)
def test_gates_and_step_are_the_formulas(gate: Gate, reset: Reset):
    cell, x, h = random_cell(gate, reset), torch.randn(5, 3).double(), torch.randn(5, 4).double()
    expected = [
        torch.stack(parts) for parts in zip(*(by_formula(cell, *row) for row in zip(x, h, strict=True)), strict=True)
    ]
    torch.testing.assert_close([*cell.gates(cell.drive(x), h), cell.step(x, Hidden(h)).h], expected)


def test_the_minimal_gated_unit_is_its_papers():
    """Zhou et al. 2016: f = σ(W_f [h, x] + b_f), h̃ = tanh(W_h [f ⊙ h, x] + b_h), h' = (1 − f) ⊙ h + f ⊙ h̃."""
    cell, x, h = random_cell("take", "shared"), torch.randn(2, 3).double(), torch.randn(2, 4).double()
    W_f, W_h = (
        torch.cat(parts, 1) for parts in zip(cell.state_weight.split(4), cell.input_weight.split(4), strict=True)
    )
    b_f, b_h = cell.bias.split(4)
    f = torch.sigmoid(torch.cat([h, x], 1) @ W_f.mT + b_f)
    candidate = torch.tanh(torch.cat([f * h, x], 1) @ W_h.mT + b_h)
    torch.testing.assert_close(cell.step(x, Hidden(h)).h, (1 - f) * h + f * candidate)


@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("gate", GATES)
def test_the_table_counts_what_it_learns(gate: Gate, reset: Reset):
    cell = random_cell(gate, reset, 5, 7)
    once = 7**2 + 7 * 5 + 7
    expected = {"after": 3 * once + 7, "before": 3 * once}.get(reset, 2 * once)
    assert count_parameters(cell) == cell.parameter_table()[0].count == expected


def test_only_torchs_own_convention_has_a_kernel():
    with_kernel = [(gate, reset) for gate in GATES for reset in RESETS if random_cell(gate, reset).kernel() is not None]
    assert with_kernel == [("keep", "after")]


# --- one convention as another ----------------------------------------------------------------------------------------


def require_same(cell: GRU, other: GRU) -> None:
    x, first = torch.randn(3, 6, cell.input_size).double(), Hidden(torch.randn(3, cell.hidden_size).double())
    torch.testing.assert_close(other(x, first).outputs, cell(x, first).outputs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize(("gate", "other"), GATE_PAIRS)
def test_the_sign_of_the_update_gate_can_always_be_changed(gate: Gate, other: Gate, reset: Reset):
    cell = random_cell(gate, reset)
    changed = convert(cell, other, reset)
    assert changed.config == GRUConfig(input_size=3, hidden_size=4, gate=other, reset=reset)
    require_same(cell, changed)
    back = convert(changed, gate, reset)
    assert all(torch.equal(value, back.state_dict()[name]) for name, value in cell.state_dict().items())


@settings(deadline=None, max_examples=40)
@given(
    gates=st.sampled_from(GATE_PAIRS),
    resets=st.sampled_from(list(itertools.product(RESETS[:3], RESETS[:3]))),
    seed=st.integers(0, 2**16),
)
def test_where_the_reset_gate_is_open_its_place_and_its_being_make_no_difference(
    gates: tuple[Gate, Gate], resets: tuple[Reset, Reset], seed: int
):
    cell = random_cell(gates[0], resets[0], seed=seed)
    if cell.config.num_gates == 2:
        with torch.no_grad():
            for part in (cell.input_weight, cell.state_weight):
                part[:4] = 0
            cell.bias[:4] = OPEN
    require_same(cell, convert(cell, gates[1], resets[1]))


@pytest.mark.parametrize(("gate", "other"), GATE_PAIRS)
@pytest.mark.parametrize(("reset", "wanted"), [("after", "before"), ("before", "after")])
def test_where_no_unit_sees_another_the_place_makes_no_difference(gate: Gate, other: Gate, reset: Reset, wanted: Reset):
    cell = random_cell(gate, reset)
    with torch.no_grad():
        cell.state_weight[-4:] = cell.state_weight[-4:].diagonal().diag()
        if reset == "after":
            cell.state_bias.zero_()
    require_same(cell, convert(cell, other, wanted))


@pytest.mark.parametrize(("gate", "other"), GATE_PAIRS)
def test_one_gate_for_both_is_two_of_the_same_weights(gate: Gate, other: Gate):
    cell = random_cell(gate, "shared")
    two = convert(cell, other, "before")
    require_same(cell, two)
    back = convert(two, gate, "shared")
    assert all(torch.equal(value, back.state_dict()[name]) for name, value in cell.state_dict().items())


def diagonal(cell: GRU) -> GRU:
    with torch.no_grad():
        cell.state_weight[-4:] = torch.eye(4)
    return cell


SEEN = "units that see one another, where the order of a product with W and with r matters"
NOT_OPEN = "a reset gate that is not always open"
NOT_THE_UPDATE_GATE = "a reset gate that is not the update gate"
INSIDE = "a bias b' that is not zero, which no other reset gate multiplies"


@pytest.mark.parametrize(
    ("cell", "reset", "why"),
    [
        (random_cell("keep", "after"), "before", SEEN),
        (random_cell("take", "before"), "after", SEEN),
        (random_cell("take", "shared"), "after", SEEN),
        (random_cell("keep", "after"), "shared", SEEN),
        (diagonal(random_cell("keep", "after")), "before", INSIDE),
        (random_cell("keep", "after"), "none", NOT_OPEN),
        (random_cell("take", "before"), "none", NOT_OPEN),
        (random_cell("take", "shared"), "none", NOT_OPEN),
        (random_cell("take", "before"), "shared", NOT_THE_UPDATE_GATE),
        (random_cell("take", "none"), "shared", NOT_THE_UPDATE_GATE),
        (diagonal(random_cell("take", "shared")), "none", NOT_OPEN),
    ],
)
@pytest.mark.parametrize("gate", GATES)
def test_what_is_another_function_is_refused(cell: GRU, gate: Gate, reset: Reset, why: str):
    with pytest.raises(InputError) as error:
        convert(cell, gate, reset)
    rule = f"a GRU with reset={cell.config.reset!r} can become one with reset={reset!r} only if both compute the same"
    assert str(error.value) == f"{rule}, but got {why}."


def test_precision_and_mode_come_along_and_weights_are_copies():
    cell = random_cell("keep", "after").eval()
    changed = convert(cell, "keep", "after")
    assert (changed.dtype, changed.training) == (torch.float64, False)
    assert all(parameter.requires_grad for parameter in changed.parameters())
    with torch.no_grad():
        changed.bias.zero_()
    assert cell.bias.all()
