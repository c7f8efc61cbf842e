"""How the signal travels forward: mean, spread and saturation of every layer, and what that means, in words.

    z_l = W_l h_{l−1} + b_l,    h_l = φ(z_l)          Var z_l = n σ_W² E[h_{l−1}²],  with weights of variance σ_W²

The spread of a layer is how much its units differ between examples, for only in that can examples be told apart. Linear
layers of n inputs multiply it by √(n σ_W²): ten layers with σ_W² = 4/n blow it up a thousandfold, σ_W² = 1/4n squashes
it as much, and 1/n (2/n with ReLU, which halves the square) keeps it. A unit of a squashing function is saturated where
its slope is small: it says the same of most examples, and passes no gradient back.

Looking changes nothing: parameters, their gradients, buffers, the state of torch's random numbers and the training mode
stay as they were.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from neuropil.errors import InputError
from neuropil.inspection.gates import gates_of
from neuropil.inspection.gradients import STEEP, ModelLayer, flat, layers_of, listed_layers, shrinkage, times, untouched
from neuropil.parts.activations import Activation, derivative
from neuropil.parts.recurrence import Cell, backwards, valid_mask

FLAT = 0.1
"""A unit is saturated where its slope is less than this share of the activation's largest."""
MOSTLY = 0.5
"""A larger share of saturated units of a squashing function is worth a word."""
MOSTLY_OFF = 0.9
"""The same for a rectifier, which is flat for half of its inputs by design."""
MANY_SILENT = 0.2
"""A larger share of units that put out the same for every example is worth a word."""

SQUASHING: Mapping[str, tuple[Activation, float]] = {
    "logistic": (torch.sigmoid, 0.25),
    "tanh": (torch.tanh, 1.0),
    "arctan": (torch.arctan, 1.0),
}
RECTIFIERS: Mapping[str, tuple[Activation, float]] = {
    "relu": (torch.relu, 1.0),
    "leaky_relu": (F.leaky_relu, 1.0),
    "elu": (F.elu, 1.0),
    "softplus": (F.softplus, 1.0),
    "gelu": (F.gelu, 1.13),
    "silu": (F.silu, 1.1),
}
"""Activations with their largest slopes, by the names that models give them."""
NAMES = {"sigmoid": "logistic", "atan": "arctan"}
"""Torch's names, where they are others."""


@dataclass(frozen=True)
class LayerSignal:
    """Of the outputs of one layer, before any activation that follows, over all examples, places and time steps of a
    batch; padding counts as a place, save in recurrent cells."""

    name: str
    mean: float
    spread: float
    """How much a unit differs between examples: its standard deviation, as root mean square over units."""
    largest: float
    """Of the sizes of all outputs."""
    input_spread: float | None = None
    """The same of what the layer is given: after the activation, normalisation and residual sum below it."""
    activation: str = ""
    """That follows, or that is inside of a recurrent cell; several are parted by commas."""
    saturated_share: float | None = None
    """Of all values of these activations, those where the slope is less than a tenth of the largest."""
    silent_share: float | None = None
    """Units that put out the same for every example."""
    has_weights: bool = True
    """Whether it holds a matrix or kernel, not only scales and biases."""
    steps: tuple[float, ...] = ()
    """Of a recurrent layer, the spread at each time step."""

    @property
    def squashes(self) -> bool:
        return all(name in SQUASHING for name in self.activation.split(", "))


@dataclass(frozen=True)
class SignalProfile:
    """The layers in the order in which they ran; one that did not run is left out."""

    layers: list[LayerSignal]

    def flow(self) -> list[tuple[str, float]]:
        """Layers with weights and the spreads of their outputs."""
        return [(layer.name, layer.spread) for layer in self.layers if layer.has_weights]


def profile_signal(model: nn.Module, run: Callable[[], object]) -> SignalProfile:
    """The signal in every layer of `model` while `run()` runs it, in the mode that it is in, and nothing else changed.

    A module with parameters and without children is one layer; one that runs several times is counted over all.
    """
    alone = [ModelLayer(type(model).__name__, model, list(model.parameters()))]
    layers = layers_of(model) if any(model.children()) else alone
    watched = {layer.module: _Watched(layer) for layer in layers if layer.module is not None}
    with untouched(model), torch.enable_grad(), _Activations() as activations, _watching(watched, activations):
        run()
    ran = sorted((each for each in watched.values() if each.outputs.count), key=lambda each: each.order)
    if not ran:
        rule = "a signal is measured in layers that a model runs as modules"
        raise InputError(rule, got=f"{type(model).__name__}, none of whose layers ran so")
    return SignalProfile([each.signal() for each in ran])


# --- statistics of units ----------------------------------------------------------------------------------------------


@dataclass
class _Units:
    """Count, mean and sum of squared deviations of each unit, added up over calls (Chan, Golub and LeVeque 1979)."""

    count: int = 0
    mean: Tensor = field(default_factory=lambda: torch.zeros(()))
    squares: Tensor = field(default_factory=lambda: torch.zeros(()))
    largest: float = 0.0

    def add(self, rows: Float[Tensor, "row unit"]) -> None:
        if not len(rows) or (self.count and rows.shape[1:] != self.mean.shape):
            return
        rows = rows.detach().double()
        mean, squares = rows.mean(0), (rows - rows.mean(0)).square().sum(0)
        total = self.count + len(rows)
        apart = mean - self.mean
        self.squares = self.squares + squares + apart.square() * (self.count * len(rows) / total)
        self.mean = self.mean + apart * (len(rows) / total)
        self.count, self.largest = total, _larger(self.largest, rows.abs().max().item())

    @property
    def deviation(self) -> Float[Tensor, " unit"]:
        return (self.squares / max(self.count, 1)).sqrt()

    @property
    def spread(self) -> float:
        return self.deviation.square().mean().sqrt().item()


def _larger(one: float, other: float) -> float:
    """NaN if either is."""
    return other if math.isnan(other) or other > one else one


def _rows(values: Tensor, layer: ModelLayer) -> Float[Tensor, "row unit"] | None:
    """One row for each example, place and time step; none where there is no axis for units."""
    if values.dim() < 2 or not values.is_floating_point():
        return None
    return values.movedim(layer.unit_axis, -1).flatten(0, -2)


class _Watched:
    """A layer while it is watched."""

    def __init__(self, layer: ModelLayer):
        self.layer, self.order = layer, 0
        self.inputs, self.outputs, self.activated = _Units(), _Units(), _Units()
        self.steps: list[_Units] = []
        self.names: dict[str, None] = {}
        self.flat = self.values = 0

    def signal(self) -> LayerSignal:
        put_out = self.activated if self.activated.count else self.outputs
        return LayerSignal(
            name=self.layer.name,
            mean=self.outputs.mean.mean().item(),
            spread=self.outputs.spread,
            largest=self.outputs.largest,
            input_spread=self.inputs.spread if self.inputs.count else None,
            activation=", ".join(self.names),
            saturated_share=self.flat / self.values if self.values else None,
            silent_share=(put_out.deviation == 0).double().mean().item(),
            has_weights=any(parameter.dim() >= 2 for parameter in self.layer.parameters),
            steps=tuple(step.spread for step in self.steps),
        )

    def see_activation(self, name: str, activation: Activation, steepest: float, z: Tensor) -> None:
        z = z.detach()
        self.names[name] = None
        self.flat += int((derivative(activation, z).abs() < FLAT * steepest).sum())
        self.values += z.numel()
        rows = _rows(activation(z), self.layer)
        if rows is not None and not self.steps:  # a cell says by its outputs whether it is silent
            self.activated.add(rows)

    def see_steps(self, outputs: Float[Tensor, "time batch unit"], valid: Bool[Tensor, "time batch"]) -> None:
        self.steps += [_Units() for _ in range(len(outputs) - len(self.steps))]
        for step, rows, there in zip(self.steps, outputs, valid, strict=False):
            step.add(rows[there])


# --- watching ---------------------------------------------------------------------------------------------------------


class _Activations(TorchFunctionMode):
    """Shows every activation to the layer that began to run last."""

    def __init__(self) -> None:
        super().__init__()
        self.current: _Watched | None = None
        self.began = 0

    def begin(self, layer: _Watched) -> None:
        self.began += 1
        layer.order = layer.order or self.began
        # What goes on in a cell is seen afterwards and for all steps at once, whichever way it is run.
        self.current = None if isinstance(layer.layer.module, Cell) else layer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        name = getattr(func, "__name__", "").removesuffix("_")
        name = NAMES.get(name, name)
        known = SQUASHING.get(name) or RECTIFIERS.get(name)
        if known is not None and self.current is not None and args and isinstance(args[0], Tensor):
            self.current.see_activation(name, *known, args[0])
        return func(*args, **(kwargs or {}))


@contextmanager
def _watching(watched: Mapping[nn.Module, _Watched], activations: _Activations) -> Iterator[None]:
    def before(module: nn.Module, args: tuple[Any, ...]) -> None:
        layer = watched[module]
        activations.begin(layer)
        rows = _rows(args[0], layer.layer) if args and isinstance(args[0], Tensor) else None
        if rows is not None:
            layer.inputs.add(rows)

    def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        layer = watched[module]
        first = next((value for value in flat(output) if isinstance(value, Tensor)), None)
        if isinstance(module, Cell):
            _see_cell(module, layer, activations, args, kwargs, output.outputs.detach())
        elif first is not None and (rows := _rows(first, layer.layer)) is not None:
            layer.outputs.add(rows)
            if isinstance(module, nn.RNNBase) and first.dim() == 3:
                by_time = first.transpose(0, 1) if module.batch_first else first
                layer.see_steps(by_time, torch.ones(by_time.shape[:2], dtype=torch.bool))

    with ExitStack() as stack:
        for module in watched:
            stack.callback(module.register_forward_pre_hook(before).remove)
            stack.callback(module.register_forward_hook(after, with_kwargs=True).remove)
        yield


def _see_cell(
    cell: Cell, layer: _Watched, activations: _Activations, args: tuple[Any, ...], kwargs: dict[str, Any], h: Tensor
) -> None:
    given = inspect.signature(cell.forward).bind(*args, **kwargs)
    given.apply_defaults()
    x, state, lengths, backward = (given.arguments[part] for part in ("x", "state", "lengths", "backward"))
    there = torch.full(h.shape[:2], True) if lengths is None else valid_mask(lengths, h.shape[1]).to(h.device)
    layer.outputs.add(h[there])
    in_order = backwards(h, lengths) if backward else h  # the first step is the one that the cell reads first
    layer.see_steps(in_order.transpose(0, 1), rearrange(there, "batch time -> time batch"))
    activations.current = layer
    gates_of(cell, x, h, state, lengths, backward=backward)


# --- in words ---------------------------------------------------------------------------------------------------------


def diagnose_signal(profile: SignalProfile) -> list[str]:
    """Plain sentences: what is wrong with this signal and what helps, or that it is healthy."""
    found = [*_not_finite(profile), *_without_signal(profile), *_saturated(profile), *_silent(profile)]
    flow = [(name, spread) for name, spread in profile.flow() if 0 < spread < math.inf]
    found += [_diagnose_depth(flow)] if len(flow) > 1 else []
    return [*found, *(_diagnose_steps(layer) for layer in profile.layers if len(layer.steps) > 1)]


def _not_finite(profile: SignalProfile) -> list[str]:
    names = [layer.name for layer in profile.layers if not math.isfinite(layer.largest)]
    remedy = "start from smaller weights, normalise layers, or lower the learning rate"
    return [f"Numbers overflowed: outputs of {listed_layers(names)} are not finite; {remedy}."] if names else []


def _without_signal(profile: SignalProfile) -> list[str]:
    names = [layer.name for layer in profile.layers if layer.spread == 0]
    return (
        [f"All examples look the same in {listed_layers(names)}: nothing can be learned from there on."]
        if names
        else []
    )


def _saturated(profile: SignalProfile) -> list[str]:
    """What ends in a squashing function, such as the pixels of a decoder, may well be saturated."""
    inner = [layer for layer in profile.layers[:-1] if layer.saturated_share is not None and layer.activation]
    limits = {layer.name: MOSTLY if layer.squashes else MOSTLY_OFF for layer in inner}
    shares = {layer.name: layer.saturated_share or 0.0 for layer in inner}
    many = [layer for layer in inner if shares[layer.name] > limits[layer.name]]
    if not many:
        return []
    worst = max(many, key=lambda layer: shares[layer.name])
    others = [layer.name for layer in many if layer is not worst]
    where = f"of {worst.name}" + (f", and most in {listed_layers(others)}," if others else "")
    return [
        f"{100 * shares[worst.name]:.0f} % of the {worst.activation} units {where} are saturated (their slope is below "
        "a tenth of the largest), and pass hardly any gradient back: start from smaller weights, or normalise before "
        "the activation."
    ]


def _silent(profile: SignalProfile) -> list[str]:
    shares = {layer.name: layer.silent_share or 0.0 for layer in profile.layers if layer.spread > 0}
    many = {name: share for name, share in shares.items() if share > MANY_SILENT}
    if not many:
        return []
    worst = max(many, key=lambda name: many[name])
    others = [name for name in many if name != worst]
    where = f"of {worst}" + (f", and more than a fifth in {listed_layers(others)}," if others else "")
    return [f"{100 * many[worst]:.0f} % of the units {where} put out the same for every example of this batch."]


def _diagnose_depth(flow: Sequence[tuple[str, float]]) -> str:
    (first, _), (last, _) = flow[0], flow[-1]
    factor, total = shrinkage([spread for _, spread in flow])
    way = f"per layer from {first} to {last}"
    if total > STEEP:
        return (
            f"The signal shrinks {factor:.1f}× {way} (squashed): examples differ 1/{times(total)} as much in {last} as "
            f"in {first}; try larger initial weights, residual connections or batch normalisation."
        )
    if total < 1 / STEEP:
        return (
            f"The signal grows {1 / factor:.1f}× {way} (blown up): examples differ {times(1 / total)} times as much in "
            f"{last} as in {first}; start from smaller weights or normalise layers."
        )
    smallest, largest = min(flow, key=lambda layer: layer[1]), max(flow, key=lambda layer: layer[1])
    ratio = largest[1] / smallest[1]
    if ratio > STEEP:
        return (
            f"The signal differs {ratio:.0f}× between layers without a trend from the input to the output: look at "
            f"{largest[0]}, where it is largest, and {smallest[0]}, where it is smallest."
        )
    return f"The signal stays within a factor of {ratio:.1f} from {first} to {last}: neither squashed nor blown up."


def _diagnose_steps(layer: LayerSignal) -> str:
    first, last = layer.steps[0], layer.steps[-1]
    over = f"Over {len(layer.steps)} steps the spread of {layer.name} goes from {first:.2g} to {last:.2g}"
    if not (0 < first < math.inf and 0 < last < math.inf) or 1 / STEEP <= last / first <= STEEP:
        return f"{over}."
    return f"{over} ({'blown up' if last > first else 'squashed'})."
