"""Gaussian process: a distribution over functions, told what the function was at some points. Beside it, its kin that
only average.

    prior        f ~ GP(μ, h k(x, z)),   y_j = f(x_j) + noise,   noise ~ N(0, σ²)
    mean         m(x) = μ + Σ_j w_j(x) (y_j − μ)               w(x) = (K + σ²I)⁻¹ k(x)
                 K_ij = h k(x_i, x_j)                          k_j(x) = h k(x, x_j)
    variance     v(x) = h − k(x)ᵀ (K + σ²I)⁻¹ k(x)
    likelihood   ln p(y) = −½ (y − μ)ᵀ (K + σ²I)⁻¹ (y − μ) − ½ ln |K + σ²I| − ½ n ln 2π

    smoothing    m(x) = Σ_j a_j(x) y_j                         a_j(x) = k(x, x_j) / Σ_j' k(x, x_j')
    attention    m(x) = Σ_j a_j(x) v_j                         a(x) = softmax_j(q(x)·k(x_j) / √d)
                 q(x) = W^Q φ(x),  k(x_j) = W^K φ(x_j),  v_j = W^V [y_j, φ(x_j)],  all three learned

All three compare x with the points that they hold and mix the values found there. Smoothing is attention with a fixed
score, and with W^V = [1, 0], which lets y_j through as it is: its weights lie in [0, 1] and sum to one, so that no
answer leaves the range of the values. W^Q and W^K change the weights; W^V changes what is mixed, and no weight. The
weights of a Gaussian process may be negative and need not sum to one, because (K + σ²I)⁻¹ takes off what points tell
twice; far from all points they vanish, and the answer is μ. Divided by their sum they are the weights of smoothing
where K + σ²I is a multiple of I: with points far apart, or noise that drowns h.

The mean of a process is the same operation too, without the division by the sum of the weights:

    m(x) − μ = Σ_j k_j(x) u_j = (Σ_j k_j(x)) Σ_j a_j(x) u_j     u = (K + σ²I)⁻¹ (y − μ),   a of smoothing

but its values u mix the points, and W^V the numbers of one point: no W^V turns one into the other.
"""

import itertools
import math
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Self, TypeAlias

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.func import functional_call

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.parts.attention import ScaledDot, Smoothing, attend, attention_weights
from neuropil.parts.kernels import Kernel, KernelName, Square, build_kernel, factorise, reach_of
from neuropil.parts.parameters import Model

Points: TypeAlias = Float[Tensor, "point width"]
Values: TypeAlias = Float[Tensor, " point"]
Asked: TypeAlias = Float[Tensor, "query width"]
Mask: TypeAlias = Bool[Tensor, "query point"]
Logs: TypeAlias = Float[Tensor, " 3"]

QUERIES_AT_ONCE = 1024
LENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Where the search for a length begins, as shares of the points' reach."""
NOISES = (0.01, 0.1, 0.5, 0.9)
"""The same for the noise, as shares of the values' variance."""
SEARCHES, STEPS = 3, 60


class GaussianProcessConfig(Config):
    kernel: KernelName = option("matern", "covariance function")
    length: float = option(1.0, "length scale ℓ, in units of x (of the periodic kernel: on a circle of radius 1)")
    height: float = option(1.0, "signal variance h, in squared units of y")
    noise: float = option(0.01, "noise variance σ²; 0 for exact observations", low=0)
    mean: float = option(0.0, "prior mean μ")
    period: float = option(1.0, "period of the periodic kernel, in units of x")
    points: int = from_data(0, "number of observations")
    width: int = from_data(1, "number of input dimensions")

    def validate(self) -> None:
        for name in ("length", "height", "period"):
            if not 0 < getattr(self, name) < math.inf:
                rule = f"{name} must be above zero and finite"
                raise InputError(rule, got=f"{getattr(self, name):g}")
        if not build_kernel(self.kernel, 1.0).positive_definite:
            rule = "a Gaussian process needs a kernel that is positive definite"
            raise InputError(rule, got=f"{self.kernel!r}", fix="choose gaussian or matern")
        if self.kernel == "periodic" and self.width > 1:
            rule = "the periodic kernel is positive definite on a line only"
            raise InputError(rule, got=f"x of {self.width} numbers", fix="choose gaussian or matern")


class Prediction(NamedTuple):
    """`variance` is that of the function; an observation of it varies by the noise besides."""

    mean: Float[Tensor, " query"]
    variance: Float[Tensor, " query"]


class Prior(nn.Module):
    """The prior. Its hyperparameters are positive, and learned as logarithms; a noise of 0 stays 0."""

    def __init__(self, config: GaussianProcessConfig):
        super().__init__()
        self.kernel_name: KernelName = config.kernel
        self.period = config.period
        self.mean = nn.Parameter(torch.tensor(float(config.mean), dtype=torch.double))
        self.log_length, self.log_height, self.log_noise = (
            nn.Parameter(torch.tensor(float(value), dtype=torch.double).log())
            for value in (config.length, config.height, config.noise)
        )

    def forward(self, x: Points, y: Values) -> Float[Tensor, ""]:
        """ln p(y), the logarithm of how probable these observations are."""
        lower, _ = self.factorise(x)
        # (y − μ)ᵀ (K + σ²I)⁻¹ (y − μ) = ‖L⁻¹ (y − μ)‖²,   ½ ln |K + σ²I| = Σ ln L_jj
        surprise = torch.linalg.solve_triangular(lower, (y.double() - self.mean)[:, None], upper=False)
        return -0.5 * surprise.square().sum() - lower.diagonal().log().sum() - 0.5 * len(y) * math.log(2 * math.pi)

    def covariance(self, x: Asked, z: Float[Tensor, "key width"]) -> Float[Tensor, "query key"]:
        """h k(x, z) in double precision: its differences are small where points are near."""
        kernel = build_kernel(self.kernel_name, self.log_length.double().exp(), period=self.period)
        return self.log_height.double().exp() * kernel(x.double(), z.double())

    def factorise(self, x: Points) -> tuple[Square, float]:
        """L with L Lᵀ = K + σ²I, and the jitter."""
        noise = self.log_noise.double().exp().expand(len(x))
        return factorise(self.covariance(x, x) + torch.diag(noise), self.log_height.double().exp())


class GaussianProcess(Model):
    """Holds its observations as buffers and what is believed of functions as parameters. Before `fit` it is the prior;
    a configuration with `points` makes room for observations that are loaded.

    Everything is computed in double precision, and answers have the precision of what was asked.
    """

    x: Tensor
    y: Tensor

    def __init__(self, config: GaussianProcessConfig):
        super().__init__()
        self.config = config
        self.prior = Prior(config)
        self.register_buffer("x", torch.zeros(config.points, config.width, dtype=torch.double))
        self.register_buffer("y", torch.zeros(config.points, dtype=torch.double))

    def fit(self, x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Self:
        """Take these observations, x [point width] and y [point], in place of those before; the prior stays."""
        require_observations(x, y)
        if self.noise == 0:
            require_function(x, y)
        self.config = replace(self.config, points=len(x), width=x.shape[1])
        self.x, self.y = (values.detach().to(self.x.device, torch.double, copy=True) for values in (x, y))
        return self

    def forward(self, x: Asked) -> Float[Tensor, " query"]:
        """The mean."""
        lower, _ = self.prior.factorise(self.x)
        # m(x) = μ + k(x)ᵀ (K + σ²I)⁻¹ (y − μ)
        solved = torch.cholesky_solve((self.y.double() - self.prior.mean)[:, None], lower)[:, 0]
        return (self.prior.mean + self.prior.covariance(x, self.x) @ solved).to(x.dtype)

    @torch.no_grad()
    def predict(self, x: Asked) -> Prediction:
        lower, _ = self.prior.factorise(self.x)
        # k(x)ᵀ (K + σ²I)⁻¹ k(x) = ‖L⁻¹ k(x)‖², and the last digits of a difference may fall below zero
        explained = [
            torch.linalg.solve_triangular(lower, self.prior.covariance(self.x, some), upper=False).square().sum(0)
            for some in x.split(QUERIES_AT_ONCE)
        ]
        return Prediction(self(x), (self.height - torch.cat(explained)).clamp(min=0).to(x.dtype))

    @torch.no_grad()
    def weights(self, x: Asked) -> Float[Tensor, "query point"]:
        """w(x): how the mean mixes the observations."""
        lower, _ = self.prior.factorise(self.x)
        return torch.cholesky_solve(self.prior.covariance(self.x, x), lower).T.to(x.dtype)

    @torch.no_grad()
    def sample(self, x: Asked, count: int, generator: torch.Generator) -> Float[Tensor, "sample query"]:
        """Sample functions, by their values at x, from the posterior or, before `fit`, from the prior."""
        lower, _ = self.prior.factorise(self.x)
        explained = torch.linalg.solve_triangular(lower, self.prior.covariance(self.x, x), upper=False)
        # f = m + L z with z ~ N(0, I) has the covariance L Lᵀ
        covariance = self.prior.covariance(x, x) - explained.T @ explained
        spread, _ = factorise(covariance, self.prior.log_height.double().exp())
        z = torch.randn(count, len(x), generator=generator, dtype=torch.double).to(x.device)
        return (self(x.double()) + z @ spread.T).to(x.dtype)

    def log_likelihood(self) -> Float[Tensor, ""]:
        """ln p(y) of the observations, the function being averaged over: what a good prior makes large."""
        return self.prior(self.x, self.y)

    def learn(self) -> Self:
        """Put μ at the mean of the observations, and find the length, height and noise that make them most likely.

        The likelihood has several peaks: it is looked at from a grid of starts, and climbed by L-BFGS from the best of
        them.
        """
        starts, low, high = self._starts()
        with torch.no_grad():
            self.prior.mean.copy_(self.y.mean())
            starts = sorted(starts, key=lambda start: -float(self._likelihood_at(start)))[:SEARCHES]
        found = [self._climb(start, low, high) for start in starts]
        _, best = max(found, key=lambda pair: pair[0])
        with torch.no_grad():
            for parameter, value in zip(
                (self.prior.log_length, self.prior.log_height, self.prior.log_noise), best, strict=True
            ):
                parameter.copy_(value)
        return self

    def found(self) -> GaussianProcessConfig:
        """The prior as it is now, without observations: `GaussianProcess(process.found())` samples from it."""
        return replace(
            self.config, length=self.length, height=self.height, noise=self.noise, mean=self.prior.mean.item(), points=0
        )

    @property
    def length(self) -> float:
        return self.prior.log_length.exp().item()

    @property
    def height(self) -> float:
        return self.prior.log_height.exp().item()

    @property
    def noise(self) -> float:
        return self.prior.log_noise.exp().item()

    @property
    def jitter(self) -> float:
        """The jitter: above 0 where K + σ²I is singular in double precision."""
        with torch.no_grad():
            return self.prior.factorise(self.x)[1]

    def _starts(self) -> tuple[list[Tensor], Tensor, Tensor]:
        """ln of (length, height, noise) to begin with, and the smallest and largest worth trying."""
        reach, variance = reach_of(self.x, self.config.kernel), self.y.var(correction=0).item()
        if not (reach > 0 and variance > 0):
            what = "x" if not reach > 0 else "y"
            rule = "GaussianProcess.learn needs observations that differ"
            raise InputError(rule, got=f"the same {what} in all {len(self.x)}")
        shares = NOISES if self.noise > 0 else (0.0,)
        starts = [
            (reach * length, variance * (1 - share), variance * share)
            for length, share in itertools.product(LENGTHS, shares)
        ]
        low, high = (1e-4 * reach, 1e-4 * variance, 1e-8 * variance), (1e3 * reach, 1e6 * variance, 10 * variance)
        if self.noise == 0:
            low, high = (*low[:2], 0.0), (*high[:2], 0.0)
        logs = torch.tensor([*starts, low, high], dtype=torch.double, device=self.x.device).log()
        return list(logs[:-2]), logs[-2], logs[-1]

    def _climb(self, start: Logs, low: Logs, high: Logs) -> tuple[float, Logs]:
        logs = start.clone().requires_grad_()
        optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            value = -self._likelihood_at(logs.clamp(low, high)) / len(self.y)
            value.backward()
            return value

        with suppress(InputError):  # a matrix so nearly singular that its gradient is no number ends the climb
            optimizer.step(loss)
        best = torch.where(logs.isnan(), start, logs.detach()).clamp(low, high)
        with torch.no_grad():
            return float(self._likelihood_at(best)), best

    def _likelihood_at(self, logs: Logs) -> Float[Tensor, ""]:
        names = ("log_length", "log_height", "log_noise")
        return functional_call(self.prior, dict(zip(names, logs, strict=True)), (self.x, self.y))


def require_observations(x: Tensor, y: Tensor) -> None:
    if x.ndim != 2 or y.ndim != 1 or len(x) != len(y) or not x.numel():
        rule = "GaussianProcess.fit needs x of shape [points, numbers] and y of shape [points]"
        raise InputError(rule, got=f"{list(x.shape)} and {list(y.shape)}")
    if not (x.isfinite().all() and y.isfinite().all()):
        raise InputError("GaussianProcess.fit needs finite observations", got="infinity or nan", fix="remove them")


def require_function(x: Tensor, y: Tensor) -> None:
    """Without noise there is one y for each x."""
    _, place = x.unique(dim=0, return_inverse=True)
    low, high = (
        torch.zeros_like(y).scatter_reduce(0, place, y, which, include_self=False)[place] for which in ("amin", "amax")
    )
    apart = (high > low).nonzero().flatten()
    if len(apart):
        first = int(apart[0])
        raise InputError(
            "observations of the same x that differ need a noise above zero",
            got=f"{low[first]:g} and {high[first]:g} at x = {', '.join(f'{value:g}' for value in x[first].tolist())}",
        )


# --- its kin ----------------------------------------------------------------------------------------------------------


def smooth(query: Asked, x: Points, y: Values, kernel: Kernel, mask: Mask | None = None) -> Float[Tensor, " query"]:
    """Kernel smoothing (Nadaraya, Watson): attention with a fixed score; where no point is near, the mean of y."""
    middle = y.mean()
    return middle + attend(query, x, (y - middle)[:, None], score=Smoothing(kernel), mask=mask)[:, 0]


@torch.no_grad()
def attended_mean(process: GaussianProcess, query: Asked) -> Float[Tensor, " query"]:
    """The mean of a process by the operation that smooths, with other values and without its division."""
    kernel = build_kernel(process.config.kernel, process.length, period=process.config.period)
    lower, _ = process.prior.factorise(process.x)
    # u = (K + σ²I)⁻¹ (y − μ),   m(x) = μ + (Σ_j k_j(x)) Σ_j a_j(x) u_j
    values = torch.cholesky_solve((process.y - process.prior.mean)[:, None], lower)
    mixed = attend(query.double(), process.x, values, score=Smoothing(kernel))[:, 0]
    return (process.prior.mean + process.prior.covariance(query, process.x).sum(1) * mixed).to(query.dtype)


def fit_length(x: Points, y: Values, kernel: KernelName, *, period: float = 1.0, tries: int = 80) -> float:
    """The length scale with the smallest leave-one-out error: a point that saw itself would ask for length 0."""
    others = ~torch.eye(len(x), dtype=torch.bool, device=x.device)
    reach = reach_of(x, kernel)

    def error(length: float) -> float:
        return (smooth(x, x, y, build_kernel(kernel, length, period=period), others) - y).square().mean().item()

    lengths = torch.logspace(math.log10(reach / len(x) / 10), math.log10(2 * reach), tries, dtype=torch.double).tolist()
    return min(lengths, key=error)


class LearnedAttention(nn.Module):
    """Scaled dot-product attention over the points, as in a Transformer, with x written in waves as positions are
    there:

        φ(x) = g [cos Ωx, sin Ωx],   q(x) = (I + W_Q) φ(x),   k(x) = (I + W_K) φ(x),   v_j = y_j + s W_V [z_j, φ(x_j)]

    At first W_Q = W_K = 0. Then q(x)·k(z) / √d = c Σ cos(ω (x − z)) / F, with frequencies ω spread as N(0, 1/cℓ²), is
    about c exp(−(x − z)² / 2cℓ²), and its softmax is about Gaussian smoothing with the length ℓ. From there W_Q and W_K
    lead to scores that differ from place to place, and weight decay leads back. `sharpness` is c: the greater, the
    nearer to smoothing it begins. W_V = 0 at first too, so that y is mixed; then what a point contributes may depend on
    where it is. z is y in standard units, and s their unit.
    """

    x: Tensor
    y: Tensor
    frequencies: Tensor

    def __init__(
        self,
        x: Points,
        y: Values,
        length: float,
        *,
        waves: int = 16,
        sharpness: float = 16.0,
    ):
        super().__init__()
        inner = 2 * waves * x.shape[1]
        self.register_buffer("x", x.double())
        self.register_buffer("y", y.double())
        quantiles = torch.special.ndtri(0.5 + (torch.arange(waves, dtype=torch.double) + 0.5) / (2 * waves))
        self.register_buffer("frequencies", quantiles / (length * math.sqrt(sharpness)))
        self.gain = math.sqrt(sharpness * math.sqrt(inner) / waves)
        self.query, self.key = (nn.Parameter(torch.zeros(inner, inner, dtype=torch.double)) for _ in range(2))
        self.value = nn.Parameter(torch.zeros(1 + inner, dtype=torch.double))

    def forward(self, query: Asked, mask: Mask | None = None) -> Float[Tensor, " query"]:
        mixed = attend(*self.project(query), self.values()[:, None], score=ScaledDot(), mask=mask)
        return mixed[:, 0].to(query.dtype)

    def weights(self, query: Asked) -> Float[Tensor, "query point"]:
        return attention_weights(*self.project(query), score=ScaledDot()).to(query.dtype)

    def project(self, query: Asked) -> tuple[Float[Tensor, "query inner"], Float[Tensor, "point inner"]]:
        """q(x) of what is asked, k(x) of the points."""
        asked, held = self.waves(query), self.waves(self.x)
        return asked + asked @ self.query, held + held @ self.key

    def values(self) -> Values:
        """v_j = y_j + s W_V [z_j, φ(x_j)] of the points."""
        unit = self.y.std(correction=0).clamp(min=torch.finfo(self.y.dtype).tiny)  # of values that are all the same
        token = torch.cat([((self.y - self.y.mean()) / unit)[:, None], self.waves(self.x)], -1)
        return self.y + unit * token @ self.value

    def waves(self, x: Asked) -> Float[Tensor, "query inner"]:
        """φ(x), each axis of x by itself."""
        phase = (x.double() - self.x.mean(0))[..., None] * self.frequencies
        phase = rearrange(phase, "query width wave -> query (width wave)")
        return self.gain * torch.cat([phase.cos(), phase.sin()], -1)


SIZES = {
    "smooth": GaussianProcessConfig(kernel="gaussian", points=16),
    "base": GaussianProcessConfig(points=16),
    "rough": GaussianProcessConfig(kernel="laplacian", points=16),
    "many_lengths": GaussianProcessConfig(kernel="rational_quadratic", points=16),
    "periodic": GaussianProcessConfig(kernel="periodic", points=16),
}
"""A process is as large as its observations are many; these differ in the functions that they expect."""
