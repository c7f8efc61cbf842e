"""Predictive coding: layers that predict their neighbours, settle, and learn from what the predictions missed.

    μ = σ(x) M + β                          what one layer predicts of its neighbour, above or below
    ε = (x' − μ) / ν                        error nodes of the neighbour x', in units of the spread ν
    F = ½ Σ ‖ε‖²                            the energy: −ln p of all states, if each is normal around its predictions

    states     dx  = −∂F/∂x = −ε_x / ν + σ'(x) ⊙ (ε / ν) W      errors of x, and those that x causes, through W = Mᵀ
    errors     τ dε/dt = x' − μ − νε                            at equilibrium as above, which is the default (τ = 0)
    weights    dM  = −∂F/∂M = σ(x)ᵀ ε / ν,    dβ = ε / ν,    and for a W of its own    dW = (ε / ν)ᵀ σ(x)

Every change uses what the two layers at hand know, and nothing else: there is no backward pass. x⁰ is the input, x^L
the target. To learn, both are held, the states between settle, and the weights take a step. To infer, the input alone
is held; to generate, the target alone; to complete, the pixels that are known. The layer at either end is read as it
is, σ only between.

Predictions may go up, as in a classifier (Whittington and Bogacz, 2017: settled with a small error, the weights change
as by back-propagation), down, as in a generative model, or both ways at once (Oliviers, Tang and Bogacz, 2025)."""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Literal, TypeAlias, cast

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.predictive_coding.connection import PredictiveConnection, SettlingConnection, SlopedName
from neuropil.parts.activations import ACTIVATIONS, SLOPES
from neuropil.parts.parameters import ParameterRow
from neuropil.parts.standardize import Standardize

States: TypeAlias = list[Tensor]
"""x⁰ … x^L, each [batch unit]."""
Free: TypeAlias = Sequence[bool | Tensor]
"""For each layer whether it may move: all of it, nothing of it, or the units of a mask."""

RECTIFIERS = ("relu", "gelu", "softplus")
LEAST_PROBABILITY = 1e-3
ANSWERING, LONG = 100, 1000
"""Inference steps of an answer, and of a whole input: there is no hurry, as there is in training."""


class PredictiveCodingConfig(Config):
    hidden_sizes: tuple[int, ...] = option((256, 256), "units of each hidden layer", low=1)
    activation: SlopedName = option("relu", "activation function σ")
    direction: Literal["up", "down", "both"] = option("both", "predictions go up, down (generative) or both ways")
    feedback: Literal["tied", "separate"] = option("tied", "feedback weights of errors: transposed, or learned apart")
    steps: int = option(10, "inference steps in each update", low=1)
    rate: float = option(0.1, "inference rate: largest step size of the states that is tried", low=0)
    error_tau: float = option(0.0, "time constant τ of the error nodes, in inference steps; 0: at equilibrium", low=0)
    nu_up: float = option(1.0, "standard deviation ν of upward predictions", low=0.001)
    nu_down: float | None = option(None, "ν of downward predictions; √10n for n inputs both ways, else 1", low=0.001)
    nu_target: float = option(1.0, "ν at the target; a larger one comes closer to back-propagation", low=0.001)
    shape: tuple[int, ...] = from_data((1, 8, 8), "axes of one input: features, or channels, height, width")
    outputs: int = from_data(10, "classes, or target columns")
    answers: Literal["classes", "numbers"] = from_data("classes", "what a target is")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of the layers x⁰ … x^L."""
        return (math.prod(self.shape), *self.hidden_sizes, self.outputs)

    def spread(self, source: int, target: int) -> float:
        """ν of a connection from layer to layer."""
        if target < source:  # by default all of an input weighs a tenth of one unit above: most of it no class can tell
            return self.nu_down or (math.sqrt(10 * self.sizes[0]) if self.direction == "both" else 1.0)
        return self.nu_target if target == len(self.sizes) - 1 else self.nu_up


Settling: TypeAlias = Sequence[SettlingConnection]
Rates: TypeAlias = Sequence[float] | None
Chosen: TypeAlias = Sequence[PredictiveConnection] | None
"""All of them without any."""
ErrorNodes: TypeAlias = list[Tensor] | None
"""ε of each connection, changed in place while states settle; none where they are always at equilibrium."""


class PredictiveCoding(nn.Module):
    def __init__(self, config: PredictiveCodingConfig):
        super().__init__()
        self.config = config
        self.activation, self.slope = ACTIVATIONS[config.activation], SLOPES[config.activation]
        self.standardize = Standardize(config.shape)
        self.target_scale = Standardize((config.outputs,))
        self.top = len(config.sizes) - 1
        pairs = list(pairwise(range(self.top + 1)))
        rising, falling = (pairs if config.direction in (way, "both") else [] for way in ("up", "down"))
        self.up = nn.ModuleList(self._connection(i, j) for i, j in rising)
        self.down = nn.ModuleList(self._connection(j, i) for i, j in reversed(falling))

    def _connection(self, source: int, target: int) -> PredictiveConnection:
        config = self.config
        # Var M = 1/n keeps the variance from layer to layer; 2/n where a rectifier halves it.
        halved = config.activation in RECTIFIERS and 0 < source < self.top
        sizes, nu, separate = config.sizes, config.spread(source, target), config.feedback == "separate"
        ends = source, target, (sizes[source], sizes[target])
        return PredictiveConnection(*ends, nu=nu, variance=2 if halved else 1, separate=separate)

    # --- states -------------------------------------------------------------------------------------------------------

    @property
    def connections(self) -> list[PredictiveConnection]:
        return cast(list[PredictiveConnection], [*self.up, *self.down])

    @property
    def expecting(self) -> list[PredictiveConnection]:
        """Predictions from above, or all where there are none."""
        return cast(list[PredictiveConnection], list(self.down)) or self.connections

    def read(self, layer: int, x: Float[Tensor, "batch unit"]) -> Float[Tensor, "batch unit"]:
        """What the neighbours of a layer see of it."""
        return x if layer in (0, self.top) else self.activation(x)

    def encode(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch unit"]:
        """An input as the state x⁰."""
        return self.standardize(x).flatten(1)

    def encode_target(self, target: Num[Tensor, "batch *output"]) -> Float[Tensor, "batch output"]:
        """A target as the state x^L: one unit for each class, or numbers in units of their spread."""
        if self.config.answers == "classes":
            return F.one_hot(target.long(), self.config.outputs).to(self.standardize.mean.dtype)
        return self.target_scale(target if target.ndim == 2 else target[:, None])

    def begin(self, x: Float[Tensor, "batch input"] | None, target: Float[Tensor, "batch output"] | None) -> States:
        """States to settle from: those that are given, and a sweep of predictions for the others."""
        given = {layer: state for layer, state in ((0, x), (self.top, target)) if state is not None}
        upward = bool(self.up) and (x is not None or not self.down)
        start = 0 if upward else self.top
        if start not in given:
            batch = len(next(iter(given.values())))
            given[start] = self._usual(start).expand(batch, -1)
        states = dict(given)
        for c in self.connections:
            if (c.target > c.source) == upward:
                states[c.target] = c(self.read(c.source, states[c.source]))
        return [{**states, **given}[layer] for layer in range(self.top + 1)]

    def _usual(self, layer: int) -> Float[Tensor, " unit"]:
        """The mean of the input, which is standardised, or of a target."""
        share = 1 / self.config.outputs if layer == self.top and self.config.answers == "classes" else 0.0
        return self.standardize.mean.new_full((self.config.sizes[layer],), share)

    def errors(self, states: States, connections: Chosen = None) -> list[Tensor]:
        """ε = (x' − μ) / ν of each connection, or of these."""
        connections = self.connections if connections is None else connections
        return [(states[c.target] - c(self.read(c.source, states[c.source]))) / c.nu for c in connections]

    def energy(self, states: States) -> Float[Tensor, " batch"]:
        return energy_of(self.errors(states))

    def silent_errors(self, batch: int, connections: Chosen = None) -> ErrorNodes:
        """Error nodes with a time constant, before any error has reached them."""
        connections = self.connections if connections is None else connections
        sizes = self.config.sizes
        return [c.bias.new_zeros(batch, sizes[c.target]) for c in connections] if self.config.error_tau else None

    # --- settling -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def settle(
        self,
        states: States,
        free: Free,
        steps: int | None = None,
        *,
        rates: Rates = None,
        connections: Chosen = None,
        errors: ErrorNodes = None,
    ) -> States:
        """The states after so many steps down the energy of these connections, each layer at its rate. Error nodes with
        a time constant go on from `errors`, which are changed, or begin silent."""
        # This is where the time goes: nothing is computed twice, and memory is taken once.
        rates = self.rates(connections) if rates is None else rates
        connections = self.connections if connections is None else connections
        moving = [layer for layer, is_free in enumerate(free) if is_free is not False]
        x = [state.clone() if layer in moving else state for layer, state in enumerate(states)]
        seen = [state if layer in moving else self.read(layer, state) for layer, state in enumerate(x)]
        # What is predicted from a layer that is held stays as it is: mostly from the input, the widest of all.
        tau, nodes = self.config.error_tau, [None] * len(connections) if errors is None else errors
        lines = [
            SettlingConnection(
                c, x[c.target], None if c.source in moving else c(seen[c.source]), tau=tau, error=nodes[number]
            )
            for number, c in enumerate(connections)
            if tau or c.source in moving or c.target in moving
        ]
        own = {layer: [line.pull for line in lines if line.target == layer] for layer in moving}
        caused = {layer: [line for line in lines if line.source == layer] for layer in moving}
        echoes = {layer: torch.empty_like(x[layer]) for layer in moving}
        inner = [layer for layer in moving if 0 < layer < self.top]
        for _ in range(self.config.steps if steps is None else steps):
            for layer in inner:
                seen[layer] = self.activation(x[layer])
            for line in lines:
                line.look(x[line.target], seen[line.source])
            for layer in moving:
                self._move(layer, x[layer], seen[layer], own[layer], caused[layer], echoes[layer], rates[layer])
            for layer, is_free in enumerate(free):
                if isinstance(is_free, Tensor):
                    torch.where(is_free, x[layer], states[layer], out=x[layer])
        for line in lines:
            line.keep()
        return x

    def _move(
        self, layer: int, x: Tensor, a: Tensor, own: list[Tensor], caused: Settling, echo: Tensor, rate: float
    ) -> None:
        """One layer takes its step, by its own errors and by those that it causes at its neighbours."""
        for number, line in enumerate(caused):
            echo.addmm_(line.pull, line.back) if number else torch.mm(line.pull, line.back, out=echo)
        # dx = −ε_x / ν + σ'(x) ⊙ (ε / ν) W
        if caused and 0 < layer < self.top:
            x.addcmul_(echo, self.slope(x, a), value=rate)
        elif caused:
            x.add_(echo, alpha=rate)
        for pull in own:
            x.add_(pull, alpha=-rate)

    def settling(
        self, states: States, free: Free, steps: int | None = None, *, rates: Rates = None, connections: Chosen = None
    ) -> Iterator[States]:
        """The states after each step, for those who want to watch."""
        rates = self.rates(connections) if rates is None else rates
        errors = self.silent_errors(len(states[0]), connections)
        for _ in range(self.config.steps if steps is None else steps):
            states = self.settle(states, free, 1, rates=rates, connections=connections, errors=errors)
            yield states

    def rates(self, connections: Chosen = None, norms: Sequence[float] | None = None) -> list[float]:
        """How far each layer moves in a step: as far as it is told to, or as far as is stable."""
        return [min(self.config.rate, stable) for stable in self.stable_rates(connections, norms)]

    def stable_rates(self, connections: Chosen = None, norms: Sequence[float] | None = None) -> list[float]:
        """For each layer a rate at which all come to rest, as fast as can be promised. With J_cx = ∂ε_c/∂x, near rest
        the energy bends by

        dᵀJᵀJd = Σ_c ‖Σ_x J_cx d_x‖² ≤ Σ_x ‖d_x‖² Σ_c ‖J_cx‖ s_c,    s_c = Σ_x ‖J_cx‖ ≤ (1 + ‖M_c‖) / ν_c

        A layer needs to know the norms ‖M_c‖ of its own connections for that, and no others. Error nodes that go a
        share c of their way in each step allow longer ones: λ < 2 for curvature times rate becomes λ < 2 (2/c − 1).
        """
        connections = self.connections if connections is None else connections
        norms = [float(torch.linalg.matrix_norm(c.weight.detach(), 2)) for c in connections] if norms is None else norms
        bends = [0.0] * (self.top + 1)
        for c, norm in zip(connections, norms, strict=True):
            bends[c.target] += (1 + norm) / c.nu**2
            bends[c.source] += norm * (1 + norm) / c.nu**2
        return [1 / bend if bend else math.inf for bend in bends]  # without weights no step is too long

    # --- what it is for -----------------------------------------------------------------------------------------------

    cannot_compile = "its states settle in place, in a loop of matrix products that are as fast without"

    def forward(
        self,
        x: Num[Tensor, "batch *shape"],
        target: Num[Tensor, "batch *output"] | None = None,
        *,
        states: States | None = None,
        steps: int | None = None,
        rates: Sequence[float] | None = None,
        errors: ErrorNodes = None,
    ) -> Float[Tensor, "batch output"] | States:
        """ln p of each class, or numbers in the targets' units: by an upward sweep where there is one, else settled.

        With a target, the states that settle between the two, from `states`, or from a sweep of predictions.
        """
        if target is not None:
            states = states or self.begin(self.encode(x), self.encode_target(target))
            return self.settle(states, [False, *[True] * (self.top - 1), False], steps, rates=rates, errors=errors)
        y = (self.begin(self.encode(x), None) if self.up else self.infer(x))[self.top]
        if self.config.answers == "numbers":
            return self.target_scale.inverse(y)
        # The mean of targets of 0 and 1 is a probability, and to the mean the squared error draws y.
        share = y.clamp(min=LEAST_PROBABILITY)
        return (share / share.sum(-1, keepdim=True)).log()

    def infer(self, x: Num[Tensor, "batch *shape"], steps: int = ANSWERING) -> States:
        """Hold an input and let the rest settle. Where predictions only go up, the sweep leaves no error to settle."""
        return self.settle(self.begin(self.encode(x), None), [False, *[True] * self.top], steps)

    def generate(self, target: Num[Tensor, "batch *output"], steps: int = LONG) -> Float[Tensor, "batch *shape"]:
        """Hold a target and let the rest settle: inputs that the network expects for it."""
        if self.config.answers == "classes" and not ((target >= 0) & (target < self.config.outputs)).all():
            wrong = next(each for each in target.tolist() if not 0 <= each < self.config.outputs)
            raise InputError(f"a class must be a number from 0 to {self.config.outputs - 1}", got=f"{wrong:g}")
        states = self.begin(None, self.encode_target(target))
        return self.decode(self.settle(states, [*[True] * self.top, False], steps, rates=self.stable_rates())[0])

    def complete(
        self, x: Num[Tensor, "batch *shape"], known: Bool[Tensor, "*unit"], steps: int = LONG
    ) -> Float[Tensor, "batch *shape"]:
        """Hold the known part of an input; the rest of it settles with all layers, by their predictions from above."""
        *_, last = self.completing(x, known, steps, every=max(1, steps))
        return self.decode(last[0])

    def completing(
        self, x: Num[Tensor, "batch *shape"], known: Bool[Tensor, "*unit"], steps: int = LONG, every: int = 1
    ) -> Iterator[States]:
        """The states at the beginning of `complete` and after every so many steps, for those who want to watch; their
        energy is that of `errors(states, expecting)`."""
        if known.shape != self.config.shape:
            rule = f"known must say of each unit of one input, {list(self.config.shape)}, whether it is known"
            raise InputError(rule, got=f"{list(known.shape)}")
        visible = self.encode(x) * known.flatten()  # what is not known begins at the mean
        # An upward prediction from half an input would be as wrong as it is sure.
        rates, free = self.stable_rates(self.expecting), [~known.flatten(), *[True] * self.top]
        states, errors = self.begin(visible, None), self.silent_errors(len(visible), self.expecting)
        yield states
        for done in range(0, steps, every):
            several = min(every, steps - done)
            states = self.settle(states, free, several, rates=rates, connections=self.expecting, errors=errors)
            yield states

    def decode(self, state: Float[Tensor, "batch unit"]) -> Float[Tensor, "batch *shape"]:
        """The state x⁰ as an input."""
        return self.standardize.inverse(state.unflatten(1, self.config.shape))

    # --- learning -----------------------------------------------------------------------------------------------------

    def local_rules(self, states: States, errors: Sequence[Tensor]) -> list[Tensor]:
        """For each parameter, in the order of `parameters()`, the slope of the mean energy in these states."""
        slopes: list[Tensor] = []
        for c, error in zip(self.connections, errors, strict=True):
            rules = c.rules(self.read(c.source, states[c.source]), error)
            slopes += [rules[name] for name, _ in c.named_parameters()]
        return slopes

    def parameter_table(self) -> list[ParameterRow]:
        named = [(f"{way}.{number}", c) for way in ("up", "down") for number, c in enumerate(getattr(self, way))]
        return [connection.row(name) for name, connection in named]


def energy_of(errors: Sequence[Tensor]) -> Float[Tensor, " batch"]:
    # F = ½ Σ ‖ε‖²
    return 0.5 * reduce(torch.add, [error.square().sum(-1) for error in errors])


SIZES = {"small": PredictiveCodingConfig(hidden_sizes=(64, 64)), "base": PredictiveCodingConfig()}
