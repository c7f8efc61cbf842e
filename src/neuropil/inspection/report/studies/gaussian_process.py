"""Report of one-dimensional data four ways: the curves, their weights, what each projection adds, the process, and when
it is smoothing."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.inspection.pictures import kernels as pictures
from neuropil.inspection.pictures.kernels import Curve, Points
from neuropil.inspection.pictures.style import minus
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Thumbnail, percent
from neuropil.models import gaussian_process as gp
from neuropil.models.gaussian_process import GaussianProcess, LearnedAttention
from neuropil.parts.attention import Smoothing, attention_weights
from neuropil.parts.kernels import Kernel, build_kernel
from neuropil.randomness import seeded

QUERIES_AT_ONCE = 1024
DRAWN_PLACES = 500
DRAWN_QUERIES = 150
SAMPLES = 5

Predict = Callable[[Tensor], Tensor]
PROCESS = "Gaussian process"
ALL_PROJECTIONS = "W^Q, W^K and W^V"
"""All that attention can learn; the others are named by those that they learn, `none` first."""


@dataclass(frozen=True)
class CurvePoints:
    """x and y of the points that are known, and of those held out."""

    x: Float[Tensor, "point 1"]
    y: Float[Tensor, " point"]
    x_test: Float[Tensor, "held 1"]
    y_test: Float[Tensor, " held"]
    x_name: str
    y_name: str
    source: str
    picture: UInt8[np.ndarray, "height width 3"] | None = None
    """The photograph, if it is from there."""

    @property
    def known(self) -> Points:
        return Points(self.x[:, 0], self.y)

    def places(self) -> Float[Tensor, "place 1"]:
        """Where curves are drawn: over all of x, and a little beyond."""
        low, high = (end(torch.cat([self.x, self.x_test])).item() for end in (torch.min, torch.max))
        room = 0.03 * (high - low)
        return torch.linspace(low - room, high + room, DRAWN_PLACES, dtype=torch.double)[:, None]


@dataclass(frozen=True)
class Regressors:
    """The four, fitted."""

    fixed: Kernel
    fitted: Kernel
    attentions: Mapping[str, LearnedAttention]
    """By the projections that were learned."""
    process: GaussianProcess

    @property
    def attention(self) -> LearnedAttention:
        return self.attentions[ALL_PROJECTIONS]

    def means(self, samples: CurvePoints) -> dict[str, Predict]:
        return {
            "fixed kernel": lambda x: gp.smooth(x, samples.x, samples.y, self.fixed),
            "length fitted": lambda x: gp.smooth(x, samples.x, samples.y, self.fitted),
            "learned projections": self.attention,
            PROCESS: self.process,
        }


def process_sections(models: Regressors, samples: CurvePoints, coverage: float, seed: int) -> list[Section]:
    """`coverage` is the share of the points held out that the band of 95 % holds."""
    return [
        _curves_section(models, samples, coverage),
        _weights_section(models, samples),
        _projections_section(models, samples),
        _operation_section(models, samples),
        _process_section(models.process, samples, seed),
        _limit_section(models.process, samples),
    ]


def errors(predicted: Float[Tensor, " held"], actual: Float[Tensor, " held"]) -> dict[str, float]:
    difference = predicted - actual
    squares, absolute = difference.square().mean(), difference.abs().mean()
    return {"root_mean_square_error": squares.sqrt().item(), "absolute_error": absolute.item()}


def evaluate(predict: Predict, x: Float[Tensor, "query 1"]) -> Float[Tensor, " query"]:
    with torch.no_grad():
        return torch.cat([predict(some) for some in x.split(QUERIES_AT_ONCE)])


def _curves_section(models: Regressors, samples: CurvePoints, coverage: float) -> Section:
    places = samples.places()
    curves = {}
    for name, predict in models.means(samples).items():
        error = errors(evaluate(predict, samples.x_test), samples.y_test)["root_mean_square_error"]
        curves[f"{name}: error {error:.3g}"] = Curve(evaluate(predict, places))
    title, curve = curves.popitem()
    curves[title] = curve._replace(deviation=(models.process.predict(places).variance + models.process.noise).sqrt())
    held_out = Points(samples.x_test[:, 0], samples.y_test)
    labels = {"xlabel": samples.x_name, "ylabel": samples.y_name}
    figure = pictures.smoothers(places[:, 0], curves, samples.known, held_out, **labels)
    words = (
        f"Every curve is a weighted mean of the {len(samples.x):,} known points; they differ in the weights alone. The "
        f"fixed kernel has a length of {_short(float(models.fixed.length))}, chosen without y. By least leave-one-out "
        f"error it is {_short(float(models.fitted.length))}: one length for all of x. Learned projections are "
        "initialised near such smoothing; then the width of the weights may differ from place to place. A Gaussian "
        f"process corrects for correlated neighbours and has confidence bands: that of 95 % holds {percent(coverage)} "
        f"of the {len(samples.x_test):,} points held out, over which errors are root mean squares."
    )
    alt = "four curves through the same points: fixed kernel, fitted length, learned projections, process"
    blocks: list[Block] = [Picture.of(figure, alt)]
    if samples.picture is not None:
        blocks.append(Gallery([Thumbnail(samples.picture, "the photograph", "red: the row")]))
    return Section.of("From a fixed kernel to learned projections", words, *blocks)


def _weights_section(models: Regressors, samples: CurvePoints) -> Section:
    x_key, order = samples.x[:, 0].sort()
    queries = samples.x_test.sort(dim=0).values
    queries = queries[torch.linspace(0, len(queries) - 1, min(DRAWN_QUERIES, len(queries))).round().long()]
    weights = {
        "smoothing": attention_weights(queries, samples.x[order], score=Smoothing(models.fitted)),
        "attention": models.attention.weights(queries)[:, order].detach(),
        "process": models.process.weights(queries)[:, order],
    }
    # The most negative weight shows best what smoothing cannot do; at the ends of x there is nothing to mix.
    ends = len(queries) // 10
    row = ends + int(weights["process"][ends : len(queries) - ends].min(1).values.argmin())
    at = queries[row, 0].item()
    words = (
        "The weight of each known point (column) in the prediction of each point held out (row), both in the order of "
        "x. Weights of smoothing and of attention are positive and sum to one. The kernel has one width everywhere; "
        f"attention may have another at each place. {signs(weights['process'])}"
    )
    ranges = {name: [_short(end.item()) for end in values.aminmax()] for name, values in weights.items()}
    rows = [[name, *ranges[name], _range(values.sum(1))] for name, values in weights.items()]
    matrices = pictures.weight_matrices(weights, queries[:, 0], x_key)
    profiles = pictures.weight_profiles(x_key, {name: values[row] for name, values in weights.items()}, at)
    caption = f"One row of each: the query at {samples.x_name} {at:.4g}. Red weights are negative."
    return Section.of(
        "Their weights",
        words,
        Picture.of(matrices, "three matrices of weights, query by key"),
        Picture.of(profiles, "weights of one query over the known points", caption),
        Table(["weights of", "smallest", "largest", "sum of a row"], rows),
    )


def _projections_section(models: Regressors, samples: CurvePoints) -> Section:
    """From smoothing to attention, one projection after another."""
    places, curves, found = samples.places(), dict[str, Curve](), dict[str, float]()
    for name, attention in models.attentions.items():
        found[name] = errors(evaluate(attention, samples.x_test), samples.y_test)["root_mean_square_error"]
        curves[f"{name}: error {found[name]:.3g}"] = Curve(evaluate(attention, places))
    added = (models.attention.values() - samples.y).detach()
    words = (
        "Attention with all projections as smoothing has them, and with some of them learned by leave-one-out error. "
        "W^Q and W^K decide the weights. W^V decides what they mix: v_j = W^V [y_j, φ(x_j)] in place of y_j, where φ "
        "are the waves that queries and keys are made of; with W^V = [1, 0] it is kernel regression with a learned "
        "score. What a point contributes may then depend on where it is: here W^V adds between "
        f"{_short(added.min().item())} and {_short(added.max().item())} to y. The error on the points held out is "
        f"{_listed({name: f'{value:.3g}' for name, value in found.items()})}."
    )
    labels = {"xlabel": samples.x_name, "ylabel": samples.y_name}
    held_out = Points(samples.x_test[:, 0], samples.y_test)
    figure = pictures.smoothers(places[:, 0], curves, samples.known, held_out, **labels)
    alt = "curves of attention with no projection, with two, with the third and with all learned"
    return Section.illustrated("Where W^Q, W^K and W^V enter", words, figure, alt)


def _listed(values: Mapping[str, str]) -> str:
    *first, last = (f"{value} with {'nothing' if name == 'none' else name} learned" for name, value in values.items())
    return f"{', '.join(first)} and {last}"


def _operation_section(models: Regressors, samples: CurvePoints) -> Section:
    """The same operation three times at the known points, each beside its formula as it is written."""
    x, y = samples.x, samples.y
    k = models.fitted(x, x)
    attention, process = models.attention, models.process
    with torch.no_grad():
        query, key = attention.project(x)
        written = torch.softmax(query @ key.T / math.sqrt(query.shape[1]), dim=-1) @ attention.values()
        pairs = {
            "smoothing": (gp.smooth(x, x, y, models.fitted), k @ y / k.sum(1)),
            "attention": (evaluate(attention, x), written),
            "process": (gp.attended_mean(process, x), process.predict(x).mean),
        }
    apart = {name: (ours - theirs).abs().max().item() / y.std().item() for name, (ours, theirs) in pairs.items()}
    words = (
        "Score, softmax, mix: one operation gives all three. Smoothing and attention normalise their weights. Those of "
        "a process, k(x)ᵀ(K + σ²I)⁻¹, at its own points K(K + σ²I)⁻¹, are not normalised: the softmax's division by "
        "the sum of k(x, x_j) is undone, and the values u = (K + σ²I)⁻¹(y − μ) mix the points before. W^V mixes the "
        "numbers of one point and not the points, so that no W^V makes a process of attention; and where W^Q and W^K "
        "differ, the score need not be symmetric, as a covariance must be."
    )
    rows = [
        ["smoothing", "x, x_j", "ln k(x, x_j)", "y_j", "1", _short(apart["smoothing"])],
        ["attention", "W^Q φ(x), W^K φ(x_j)", "q·k / √d", "W^V [y_j, φ(x_j)]", "1", _short(apart["attention"])],
        ["process", "x, x_j", "ln k(x, x_j)", "u_j", "Σ_j h k(x, x_j)", _short(apart["process"])],
    ]
    header = [
        "",
        "query, key",
        "score",
        "value",
        "multiplied by",
        "largest difference from the formula / deviation of y",
    ]
    return Section.of("One operation", words, Table(header, rows))


def signs(weights: Float[Tensor, "query key"]) -> str:
    share = (weights < 0).double().mean().item()
    if share == 0:
        return "Here no weight of the process is negative."
    return f"Of the weights of the process {percent(share)} are negative: a point behind a nearer one is subtracted."


def _process_section(process: GaussianProcess, samples: CurvePoints, seed: int) -> Section:
    places, drawn = samples.places(), {}
    for name, one in (("prior", GaussianProcess(process.found())), ("posterior", process)):
        mean, variance = one.predict(places)
        functions = one.sample(places, SAMPLES, seeded(seed, name))
        drawn[f"{SAMPLES} functions of the {name}"] = (Curve(mean, variance.sqrt()), functions)
    labels = {"xlabel": samples.x_name, "ylabel": samples.y_name}
    figure = pictures.process_samples(places[:, 0], drawn, samples.known, **labels)
    rows = [
        ["kernel", process.config.kernel.replace("_", " ")],
        ["length ℓ", _short(process.length)],
        ["deviation of the function √h", _short(math.sqrt(process.height))],
        ["deviation of the noise σ", _short(math.sqrt(process.noise))],
        ["mean μ", _short(process.prior.mean.item())],
        ["log marginal likelihood ln p(y)", minus(f"{process.log_likelihood().item():,.1f}")],
        ["jitter on the diagonal", "none" if process.jitter == 0 else f"{process.jitter:.1g}"],
    ]
    words = (
        "Functions drawn from the prior, which has seen no point, and from the posterior, which has. The dashed line "
        "is the mean of all such functions, and the band holds 95 % of them at each place. Length, variance and noise "
        "maximise the marginal likelihood of the observations, with the function integrated out, which weighs a smooth "
        "function with much noise against a rough one with little."
    )
    picture = Picture.of(figure, "functions of the prior and of the posterior")
    return Section.of("The process", words, picture, Table(["", "fitted"], rows))


def _limit_section(process: GaussianProcess, samples: CurvePoints) -> Section:
    """The same points and kernel, with ever more noise."""
    kernel = build_kernel(process.config.kernel, process.length, period=process.config.period)
    smoothed = attention_weights(samples.x, samples.x, score=Smoothing(kernel))
    rows = []
    for factor in (process.noise / process.height, 1.0, 1e2, 1e4, 1e6):
        noisy = GaussianProcess(replace(process.found(), noise=factor * process.height)).fit(samples.x, samples.y)
        weights = noisy.weights(samples.x)
        sums = weights.sum(1, keepdim=True)
        apart = (weights / sums - smoothed).abs().max().item()
        rows.append([_short(factor), _range(sums), _short(weights.min().item()), _short(apart)])
    words = (
        "w = (K + σ²I)⁻¹ k is a multiple of k, the weights of smoothing before normalisation, where K + σ²I is a "
        "multiple of I: when no two points are within a length of each other, or when the noise dominates. Here the "
        "noise of the process is raised; the last column compares its normalised weights at the known points with "
        f"those of smoothing with the same kernel, at first {rows[0][-1]} apart and {rows[-1][-1]} at last. The "
        f"weights of a point then sum to {rows[-1][1]}: a process leaves its prior mean by no more than that share."
    )
    header = ["noise σ² / h", "sum of the weights", "smallest weight", "largest difference from smoothing"]
    return Section.of("When a process is smoothing", words, Table(header, rows))


def _short(value: float) -> str:
    return minus(f"{value:.3g}")


def _range(values: Tensor) -> str:
    return f"{_short(values.min().item())} to {_short(values.max().item())}"
