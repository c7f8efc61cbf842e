"""Population coding: one value, carried by many neurons together.

    J_i(x) = α_i ⟨e_i, x⟩ / r + β_i           encoding: the current of neuron i, by x along its encoder e_i
    a_i(x) = rate(J_i(x))                     its tuning curve, in Hz
    f̂(x) = Σ_i a_i(x) d_i                     decoding: any function f of the value, linear in the activities
    D = argmin_D ‖A D − F‖² + P σ² ‖D‖²       its decoders, from P points x with activities A and wanted values F

The penalty is what noise of the size σ on every rate costs on average: ‖(A + ε) D − F‖² = ‖A D − F‖² + P σ² ‖D‖². It is
given as a share of the highest rate. Two errors are left, which fall at different speeds with the number N of neurons:

    distortion = √⟨‖A D − F‖²⟩                what the tuning curves cannot express, like 1/N if no noise is expected
    noise = σ ‖D‖                             what noisy rates add, like 1/√N

Gains α and biases β follow from where a tuning curve begins (`intercepts`, as a share of the radius r along the
encoder) and where it ends (`max_rates`, in Hz, where the value reaches the radius). Times are in ms."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.models.lif import LIFConfig, rate

Array: TypeAlias = np.ndarray
Function: TypeAlias = Callable[[Array], Any]
"""Of one vector to a number or a vector; called point by point when decoders are solved, never in a simulation."""
Spread: TypeAlias = tuple[float, float] | Float[Array, " neuron"]
"""The lowest and the highest of numbers that are spread evenly over the neurons, or one number for each."""
Vectors: TypeAlias = Float[Array, "count dimension"]
Mode = Literal["spiking", "rate"]
Method = Literal["auto", "cholesky", "conjugate gradients"]

NOISE = 0.1
NEURON = LIFConfig()
LARGEST_FOR_CHOLESKY = 4000


class Population:
    """`encoders`, `gains` and `biases` are drawn unless given; `points` are the values that decoders are solved at.

    The neurons fire spikes, or answer with their rates; `lag` (ms) is the time constant with which such rates follow
    their input. The same seed draws the same neurons: populations of one network should have seeds of their own."""

    def __init__(
        self,
        neurons: int,
        dimensions: int = 1,
        *,
        radius: float = 1.0,
        max_rates: Spread = (200.0, 400.0),
        intercepts: Spread = (-1.0, 0.9),
        encoders: Float[Array, "neuron dimension"] | None = None,
        gains: Float[Array, " neuron"] | None = None,
        biases: Float[Array, " neuron"] | None = None,
        points: Float[Array, "point dimension"] | None = None,
        noise: float = NOISE,
        neuron: LIFConfig = NEURON,
        mode: Mode = "spiking",
        lag: float = 0.0,
        seed: int = 0,
    ):
        _require_sizes(neurons, dimensions, radius, noise)
        _require_neuron(neuron, mode, lag)
        if (gains is None) != (biases is None):
            got = "gains" if biases is None else "biases"
            raise InputError("gains and biases must be given together", got=got, fix="give both or none")
        self.neurons, self.dimensions, self.radius, self.noise = neurons, dimensions, float(radius), float(noise)
        self.neuron, self.mode, self.lag, self.seed = neuron, mode, float(lag), seed
        drawn = sobol(neurons, dimensions + 2, seed)
        self.encoders = unit_vectors(_given("encoders", encoders, (neurons, dimensions)), drawn[:, 2:])
        if gains is None or biases is None:
            _require_curves(intercepts, max_rates, neuron)
            curves = _spread("intercepts", intercepts, drawn[:, 0]), _spread("max_rates", max_rates, drawn[:, 1])
            gains, biases = gains_and_biases(*curves, neuron)
        self.gains, self.biases = _required("gains", gains, (neurons,)), _required("biases", biases, (neurons,))
        count = max(min(500 * dimensions, 2500), 750, 2 * neurons)
        self.points = ball(count, dimensions, self.radius, seed) if points is None else self._column(points)

    def currents(self, x: Float[Array, "..."]) -> Float[Array, "point neuron"]:
        """J(x), for values of shape [point dimension], or [point] where there is one dimension."""
        # J_i(x) = α_i ⟨e_i, x⟩ / r + β_i
        return self._column(x) @ self.scaled_encoders + self.biases

    def rates(self, x: Float[Array, "..."]) -> Float[Array, "point neuron"]:
        """a(x), the tuning curves, in Hz."""
        return rate(torch.from_numpy(self.currents(x)), self.neuron).numpy()

    def decoders(
        self, function: Function | None = None, *, noise: float | None = None, method: Method = "auto"
    ) -> Float[Array, "neuron output"]:
        """D for a function of the value, or for the value itself; `noise` is the population's own unless given."""
        wanted = values_of(function, self.points)
        return solve_decoders(self.rates(self.points), wanted, self.noise if noise is None else noise, method)

    def error(self, function: Function | None = None, *, noise: float | None = None) -> "DecodingError":
        """Of the decoders for this function, at values that they were not solved at."""
        noise = self.noise if noise is None else noise
        x = ball(max(1000, 2 * self.neurons), self.dimensions, self.radius, self.seed + 1)
        return decoding_error(self.rates(x), self.decoders(function, noise=noise), values_of(function, x), noise)

    @property
    def scaled_encoders(self) -> Float[Array, "dimension neuron"]:
        """α e / r: how much of each dimension reaches each neuron."""
        return np.ascontiguousarray((self.gains[:, None] * self.encoders / self.radius).T)

    def __getitem__(self, index: int | slice | list[int]) -> "SignalSlice":
        return SignalSlice(self, select(index, self.dimensions))

    def _column(self, x: Array) -> Float[Array, "point dimension"]:
        """As it is, or as one column of values."""
        x = np.asarray(x, dtype=float)
        column = x[:, None] if x.ndim == 1 and self.dimensions == 1 else x
        if column.ndim != 2 or column.shape[1] != self.dimensions:
            raise InputError(f"values must have the shape [points, {self.dimensions}]", got=f"{list(x.shape)}")
        if not np.isfinite(column).all():
            raise InputError("values must be finite", got="infinity or nan")
        return column


class SignalSlice(NamedTuple):
    """Some dimensions of a population or an input: `a[0]`, `a[1:]`, `a[[0, 2]]`."""

    whole: Any
    indices: list[int]


class DecodingError(NamedTuple):
    """Root mean squares over values: of decoding exact rates (`distortion`), and of what noise on the rates adds."""

    distortion: float
    noise: float

    @property
    def total(self) -> float:
        return math.hypot(self.distortion, self.noise)


# --- decoders ---------------------------------------------------------------------------------------------------------


def solve_decoders(
    activities: Float[Array, "..."], values: Float[Array, "..."], noise: float = NOISE, method: Method = "auto"
) -> Float[Array, "neuron output"]:
    """D = argmin ‖A D − F‖² + P σ² ‖D‖² from activities of shape [point neuron], tuning curves of any kind, and values
    of shape [point output]; σ is `noise` times the highest activity."""
    if activities.ndim != 2 or values.ndim != 2 or len(activities) != len(values) or not activities.size:
        rule = "decoders need activities of shape [points, neurons] and values of shape [points, outputs]"
        raise InputError(rule, got=f"{list(activities.shape)} and {list(values.shape)}")
    if not (np.isfinite(activities).all() and np.isfinite(values).all()):
        raise InputError("decoders need finite activities and values", got="infinity or nan")
    highest = np.abs(activities).max()
    if highest == 0:
        fix = "lower the intercepts"
        raise InputError("decoders need some neuron that is active at some point", got="activities of 0", fix=fix)
    A, F = (torch.from_numpy(np.asarray(matrix, dtype=float)) for matrix in (activities, values))
    penalty = len(A) * (noise * highest) ** 2
    if method == "auto":
        method = "cholesky" if min(A.shape) <= LARGEST_FOR_CHOLESKY else "conjugate gradients"
    return (_by_cholesky if method == "cholesky" else _by_conjugate_gradients)(A, F, float(penalty)).numpy()


def condition_number(activities: Float[Array, "point neuron"], noise: float = NOISE) -> float:
    """Of AᵀA + P σ² I, which is inverted for decoders: its largest eigenvalue over its smallest."""
    eigenvalues = gram_eigenvalues(activities)
    penalty = len(activities) * (noise * np.abs(activities).max()) ** 2
    smallest = float(eigenvalues[-1] + penalty)
    return float(eigenvalues[0] + penalty) / smallest if smallest > 0 else math.inf


def gram_eigenvalues(activities: Float[Array, "point neuron"]) -> Float[Array, " neuron"]:
    """Of AᵀA, from the largest on: squares of A's singular values, which have twice the digits that AᵀA has."""
    singular = np.linalg.svd(activities, compute_uv=False)
    return np.pad(np.square(singular), (0, activities.shape[1] - len(singular)))


def _by_cholesky(A: torch.Tensor, F: torch.Tensor, penalty: float) -> torch.Tensor:
    """(AᵀA + λI) D = AᵀF or, where points are fewer than neurons, D = Aᵀ (AAᵀ + λI)⁻¹ F, which is the same."""
    wide = A.shape[0] < A.shape[1]
    gram = A @ A.T if wide else A.T @ A
    gram.diagonal().add_(penalty)
    lower, failed = torch.linalg.cholesky_ex(gram)
    if failed:
        fix = "give some, such as 0.01"
        raise InputError("activities that depend on each other need noise to be told apart", got="noise=0", fix=fix)
    return A.T @ torch.cholesky_solve(F, lower) if wide else torch.cholesky_solve(A.T @ F, lower)


def _by_conjugate_gradients(A: torch.Tensor, F: torch.Tensor, penalty: float, tolerance: float = 1e-11) -> torch.Tensor:
    """The same without the N² numbers of AᵀA; each output takes its own steps."""
    wanted = A.T @ F
    D, residual = torch.zeros_like(wanted), wanted.clone()
    direction, size = residual.clone(), residual.square().sum(0)
    enough = tolerance**2 * size
    for _ in range(10 * A.shape[1]):
        open = size > enough
        if not open.any():
            break
        pushed = A.T @ (A @ direction) + penalty * direction
        # α = rᵀr / pᵀGp,   D ← D + α p,   r ← r − α G p,   p ← r + (rᵀr)_new / (rᵀr)_old p
        step = torch.where(open, size / (direction * pushed).sum(0), 0.0)
        D += step * direction
        residual -= step * pushed
        before, size = size, residual.square().sum(0)
        direction = residual + torch.where(open, size / before, 0.0) * direction
    return D


def decoding_error(
    activities: Float[Array, "point neuron"],
    decoders: Float[Array, "neuron output"],
    values: Float[Array, "point output"],
    noise: float,
) -> DecodingError:
    """Summed over outputs; `noise` as a share of the highest activity."""
    distortion = np.sqrt(np.square(activities @ decoders - values).sum(1).mean())
    # ⟨‖ε D‖²⟩ = σ² ‖D‖²
    return DecodingError(float(distortion), float(noise * np.abs(activities).max() * np.linalg.norm(decoders)))


def rms(values: Array) -> float:
    """Root mean square."""
    return float(np.sqrt(np.square(values).mean()))


def values_of(function: Function | None, points: Float[Array, "point dimension"]) -> Float[Array, "point output"]:
    """f at every point, or the points themselves; a sentence names the first point where f is not finite."""
    if function is None:
        return points
    try:
        values = np.array([np.asarray(function(point), dtype=float).reshape(-1) for point in points])
    except (ValueError, TypeError) as problem:
        raise InputError("a function must give a number, or as many for every value", got=f"{problem}") from problem
    broken = ~np.isfinite(values).all(1)
    if broken.any():
        where = ", ".join(f"{value:.3g}" for value in points[broken][0])
        got = f"{values[broken][0].tolist()} at ({where})"
        raise InputError("a function must be finite wherever the population may be", got=got)
    return values


# --- neurons that differ ----------------------------------------------------------------------------------------------


def gains_and_biases(
    intercepts: Float[Array, " neuron"], max_rates: Float[Array, " neuron"], neuron: LIFConfig
) -> tuple[Float[Array, " neuron"], Float[Array, " neuron"]]:
    """α and β of neurons that begin to fire at their intercepts and reach their highest rates at 1."""
    # rate(J) = a  ⇔  J = 1 / (1 − e^{(τ_ref − 1/a)/τ_m});   J = 1 at the intercept
    highest = -1 / np.expm1((neuron.tau_ref - 1000 / max_rates) / neuron.tau_m)
    gains = (highest - 1) / (1 - intercepts)
    return gains, 1 - gains * intercepts


def sobol(count: int, width: int, seed: int) -> Float[Array, "count width"]:
    """Random numbers from 0 to 1 that fill their cube more evenly than independent ones would."""
    engine = torch.quasirandom.SobolEngine(width, scramble=True, seed=seed % 2**31)
    return engine.draw(count, dtype=torch.double).numpy()


def unit_vectors(given: Vectors | None, uniform: Vectors) -> Vectors:
    """Directions, each with the length 1: those that are given, or spread over the sphere."""
    dimensions = uniform.shape[1]
    if given is not None:
        vectors = given
    elif dimensions == 1:
        vectors = np.where(uniform < 0.5, -1.0, 1.0)
    elif dimensions == 2:
        angle = 2 * np.pi * uniform[:, 0]
        vectors = np.stack([np.cos(angle), np.sin(angle)], 1)
    else:
        # normal in every dimension, and so equally likely in every direction
        vectors = torch.special.ndtri(torch.from_numpy(uniform.clip(1e-9, 1 - 1e-9))).numpy()
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (lengths > 0).all():
        raise InputError("encoders must point somewhere", got=f"a vector of zeros for neuron {int(np.argmin(lengths))}")
    return vectors / lengths


def ball(count: int, dimensions: int, radius: float, seed: int) -> Vectors:
    """Points spread evenly within the radius."""
    if dimensions == 1:
        return np.linspace(-radius, radius, count)[:, None]
    uniform = sobol(count, dimensions + 1, seed)
    return radius * uniform[:, :1] ** (1 / dimensions) * unit_vectors(None, uniform[:, 1:])


def select(index: int | slice | list[int], dimensions: int) -> list[int]:
    every = list(range(dimensions))
    try:
        chosen = [every[one] for one in index] if isinstance(index, list) else every[index]
    except IndexError:
        raise InputError(f"a part must be among the dimensions 0 to {dimensions - 1}", got=f"{index}") from None
    return chosen if isinstance(chosen, list) else [chosen]


# --- what is refused --------------------------------------------------------------------------------------------------


def _require_sizes(neurons: int, dimensions: int, radius: float, noise: float) -> None:
    if neurons < 1 or dimensions < 1:
        got = f"{neurons} and {dimensions}"
        raise InputError("a population must have at least one neuron and one dimension", got=got)
    if not 0 < radius < math.inf:
        raise InputError("the radius must be a number above 0", got=f"{radius:g}")
    if not 0 <= noise < math.inf:
        raise InputError("noise must be a share of the highest rate, 0 or more", got=f"{noise:g}")


def _require_neuron(neuron: LIFConfig, mode: Mode, lag: float) -> None:
    if (neuron.rest, neuron.threshold, neuron.reset) != (0, 1, 0):
        got = f"rest={neuron.rest:g}, threshold={neuron.threshold:g}, reset={neuron.reset:g}"
        fix = "change tau_m and tau_ref only"
        raise InputError("neurons of a population must rest at 0, fire at 1 and be reset to 0", got=got, fix=fix)
    if mode == "spiking" and neuron.tau_ref == 0:
        fix = "give a tau_ref above 0 ms or mode='rate'"
        raise InputError("neurons that spike must have a refractory period", got="tau_ref=0", fix=fix)
    if not 0 <= lag < math.inf or (lag and mode == "spiking"):
        fix = "give mode='rate'" if mode == "spiking" else None
        got = f"lag={lag:g} and mode={mode!r}"
        raise InputError("lag must be a time of 0 ms or more, of neurons in rate mode", got=got, fix=fix)


def _require_curves(intercepts: Spread, max_rates: Spread, neuron: LIFConfig) -> None:
    begin, end = np.asarray(intercepts), np.asarray(max_rates)
    fastest = 1000 / neuron.tau_ref if neuron.tau_ref else math.inf
    if not (end > 0).all() or not (end < fastest).all():
        rule = f"max_rates must be above 0 and below {fastest:g} Hz, which the refractory period allows"
        raise InputError(rule, got=f"{end.min():g} to {end.max():g} Hz")
    if (begin >= 1).any():
        raise InputError("intercepts must be below 1, where the highest rate is reached", got=f"{begin.max():g}")


def _spread(name: str, given: Spread, uniform: Float[Array, " neuron"]) -> Float[Array, " neuron"]:
    if isinstance(given, tuple):
        low, high = given
        if not -math.inf < low <= high < math.inf:
            raise InputError(f"{name} must be a pair of the lowest and the highest", got=f"{given}")
        return low + (high - low) * uniform
    return _required(name, given, uniform.shape)


def _given(name: str, values: Array | None, shape: tuple[int, ...]) -> Array | None:
    return None if values is None else _required(name, values, shape)


def _required(name: str, values: Array, shape: tuple[int, ...]) -> Array:
    values = np.asarray(values, dtype=float)
    if values.shape != shape:
        raise InputError(f"{name} must have the shape {list(shape)}", got=f"{list(values.shape)}")
    if not np.isfinite(values).all():
        raise InputError(f"{name} must be finite", got="infinity or nan")
    return values
