"""One-dimensional data four ways: smoothing with a fixed kernel, with a fitted one, attention with learned projections, a Gaussian process.

    fixed kernel         a_j(x) ∝ k(x, x_j)                         the length by Silverman's rule, which never looks at y
    length fitted        the same                                   each point foretold from the others as well as can be
    learned projections  a_j(x) ∝ exp(q(x)·k(x_j) / √d)             trained by gradient descent on the same errors
    Gaussian process     w(x) = (K + σ²I)⁻¹ k(x)                    all of its numbers by the likelihood, and an error bar

The report draws the four curves, their weights as attention matrices, functions from the prior and the posterior, and shows when a
process is no more than smoothing. Without data of your own it reads a row of a photograph that scikit-learn carries, of which a fifth of
the pixels are known: real numbers, smooth in the background and rough over the petals, so that no one length is right, and each answer
can be checked against the pixel that was held out.
"""

import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.errors import InputError
from neuropil.inspection.pictures import kernels as smoothing
from neuropil.inspection.pictures.kernels import BAND, Curve, Points
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Text, Thumbnail
from neuropil.models.gaussian_process import (
    GaussianProcess,
    GaussianProcessConfig,
    LearnedAttention,
    fit_length,
    reach_of,
    smooth,
)
from neuropil.parts.attention import Smoothing, attention_weights
from neuropil.parts.kernels import Kernel, KernelName, build_kernel
from neuropil.parts.losses import squared_error
from neuropil.protocols import Batch, Phase
from neuropil.randomness import seeded
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.study import Findings, Study
from neuropil.tasks.trial import alone, train_trial
from neuropil.training.loop import TrainingConfig
from neuropil.training.progress import Display

MOST_POINTS = 1000
"""A process of n points costs n³."""
MOST_FOR_LIKELIHOOD = 400
LEAST_POINTS = 5
KNOWN_PIXELS = 128
QUERIES_AT_ONCE = 1024
DRAWN_PLACES = 500
DRAWN_QUERIES = 150
SAMPLES = 5
WEIGHT_DECAY = 10.0
"""Of the attention's distance from smoothing: strong, because it has some thousand weights for some hundred points."""

Predict = Callable[[Tensor], Tensor]


class GaussianProcessOptions(Config):
    data: Path | None = option(
        None, "your own data: a CSV or TSV with two columns of numbers; without it, a row of a photograph"
    )
    target: str | None = option(None, "the column of your data to predict; the other one is x")
    test: float = option(0.2, "share of your data held out for the final score", low=0.01, high=0.9)
    line: int = option(100, "which row of the embedded photograph is read", low=0, high=426)
    kernel: KernelName = option("matern", "kernel of smoothing and of the process")
    length: float | None = option(
        None, "length of the fixed kernel, in units of x; without it, Silverman's rule of thumb", low=1e-12
    )
    period: float = option(1.0, "period of the periodic kernel, in units of x", low=1e-12)
    waves: int = option(16, "waves in which the attention writes x", low=1, high=256)
    updates: int = option(300, "updates of the attention's projections", low=1)


@dataclass(frozen=True)
class Series:
    """x and y of what is known, and of what is held out."""

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
class Found:
    """The four, ready to be asked."""

    fixed: Kernel
    fitted: Kernel
    attention: LearnedAttention
    process: GaussianProcess

    def means(self, series: Series) -> dict[str, Predict]:
        return {
            "fixed kernel": lambda x: smooth(x, series.x, series.y, self.fixed),
            "length fitted": lambda x: smooth(x, series.x, series.y, self.fitted),
            "learned projections": self.attention,
            "Gaussian process": self.process,
        }


def build(options: GaussianProcessOptions, seed: int) -> Study:
    config = GaussianProcessConfig(
        kernel=options.kernel, period=options.period
    )  # refuses what is not positive definite
    series = _photograph(options, seed) if options.data is None else _own(options, seed)
    _require_spread(series)

    def compute(folder: Path, display: Display) -> Findings:
        with alone():
            found = _find(options, config, series, seed, folder, display)
            return Findings(_results(found, series), _sections(found, series, seed))

    return Study("gaussian process", compute, {"source": series.source})


def _find(
    options: GaussianProcessOptions,
    config: GaussianProcessConfig,
    series: Series,
    seed: int,
    folder: Path,
    display: Display,
) -> Found:
    fixed = build_kernel(
        options.kernel, options.length or rule_of_thumb(series.x, options.kernel), period=options.period
    )
    fitted = build_kernel(
        options.kernel, fit_length(series.x, series.y, options.kernel, period=options.period), period=options.period
    )
    display.update(0.1, f"smoothing: length {fitted.length:.4g} by leaving one out")
    few = torch.randperm(len(series.x), generator=seeded(seed, "likelihood"))[:MOST_FOR_LIKELIHOOD].sort().values
    process = GaussianProcess(config).fit(series.x[few], series.y[few]).learn().fit(series.x, series.y)
    display.update(0.5, f"Gaussian process: length {process.length:.4g}, noise {math.sqrt(process.noise):.4g}")
    # Waves must reach the next point, or it could not be told from those further off.
    length = max(fit_length(series.x, series.y, "gaussian"), reach_of(series.x, "gaussian") / len(series.x))
    attention = LearnedAttention(series.x, series.y, length, waves=options.waves)
    training = TrainingConfig(
        updates=options.updates, learning_rate=3e-3, weight_decay=WEIGHT_DECAY, keep="last", device="cpu"
    )
    train_trial(folder, "attention", LeaveOneOut(attention), Rows(len(series.x), seed), None, training, seed=seed)
    display.update(1.0, f"attention: {options.updates} updates of its projections")
    return Found(fixed, fitted, attention, process)


def rule_of_thumb(x: Float[Tensor, "point 1"], kernel: KernelName) -> float:
    """Silverman: 0.9 min(σ, IQR / 1.34) n^−1/5, which knows how x is spread and nothing of y."""
    if kernel == "periodic":
        return 1.0
    low, high = x.quantile(torch.tensor([0.25, 0.75], dtype=x.dtype)).tolist()
    spread = min(width for width in (x.std().item(), (high - low) / 1.34) if width > 0)
    return 0.9 * spread * len(x) ** -0.2


# --- attention that learns ---------------------------------------------------------------------------------------------------------


class LeaveOneOut:
    """Each point is foretold from all others. Errors are in units of the values' spread."""

    def __init__(self, model: LearnedAttention):
        self.model = model
        self.scale = model.y.std()

    def phases(self) -> Sequence[Phase]:
        return [Phase("leave one out", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return self._errors(batch).mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return {"loss": self._errors(batch)}

    def _errors(self, batch: Batch) -> Float[Tensor, " batch"]:
        rows = batch["row"]
        others = torch.arange(len(self.model.x), device=rows.device) != rows[:, None]
        foretold = self.model(self.model.x[rows], others)
        return squared_error((foretold / self.scale)[:, None], (self.model.y[rows] / self.scale)[:, None])


class Rows:
    """Batches of numbers of points, shuffled anew in every pass."""

    def __init__(self, count: int, seed: int, size: int = 256):
        self.count, self.seed, self.size = count, seed, size

    def __len__(self) -> int:
        return math.ceil(self.count / self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        order = torch.randperm(self.count, generator=seeded(self.seed, number))
        yield from ({"row": rows} for rows in order.split(self.size)[start:])


# --- data --------------------------------------------------------------------------------------------------------------------------


def _photograph(options: GaussianProcessOptions, seed: int) -> Series:
    if options.target is not None:
        raise InputError(
            "a target is a column of a CSV or TSV",
            got=f"{options.target!r} for the embedded photograph",
            fix="leave it out",
        )
    from PIL import Image

    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("neuropil needs scikit-learn, which carries the photograph")
    with Image.open(Path(package.origin).parent / "datasets" / "images" / "flower.jpg") as image:
        picture = np.array(image.convert("RGB"))
        brightness = torch.from_numpy(np.array(image.convert("L"))[options.line]).double()
    picture[max(0, options.line - 2) : options.line + 3] = (255, 60, 40)
    order = torch.randperm(len(brightness), generator=seeded(seed, "test"))
    known, held = order[:KNOWN_PIXELS].sort().values, order[KNOWN_PIXELS:].sort().values
    source = f"a fifth of the {len(brightness)} pixels of row {options.line} of a photograph (scikit-learn)"
    x = torch.arange(len(brightness), dtype=torch.double)[:, None]
    return Series(
        x[known], brightness[known], x[held], brightness[held], "pixel of the row", "brightness", source, picture
    )


def _own(options: GaussianProcessOptions, seed: int) -> Series:
    splits = prepare(
        DataConfig(data=options.data, target=options.target, task="regression", validation=0.0, test=options.test), seed
    )
    schema = splits.train.schema
    if schema.shape != (1,) or any(column.kind != "number" for column in schema.columns):
        got = f"{len(schema.columns)} beside it" if len(schema.columns) > 1 else f"{splits.train.source}"
        raise InputError(
            "this study needs one column of numbers beside the target", got=got, fix="give a file with two columns"
        )
    x, y, x_test, y_test = (
        values.double() for part in (splits.train, splits.test) for values in (part.inputs, part.targets[:, 0])
    )
    source = splits.train.source
    if len(x) > MOST_POINTS:
        some = torch.randperm(len(x), generator=seeded(seed, "points"))[:MOST_POINTS].sort().values
        x, y, source = x[some], y[some], f"{source}, of which {MOST_POINTS:,} drawn at random are known"
    return Series(x, y, x_test, y_test, schema.columns[0].name if schema.columns else "x", schema.target or "y", source)


def _require_spread(series: Series) -> None:
    if len(series.x) < LEAST_POINTS:
        raise InputError(
            f"this study needs at least {LEAST_POINTS} points to learn from",
            got=f"{len(series.x)}",
            fix="hold fewer out",
        )
    for name, values in ((series.x_name, series.x), (series.y_name, series.y)):
        if not values.std() > 0:
            raise InputError(f"{name!r} must differ between rows", got=f"{values.flatten()[0]:g} in all of them")


# --- results -----------------------------------------------------------------------------------------------------------------------


def _results(found: Found, series: Series) -> list[Result]:
    metrics = {
        name: errors(_ask(predict, series.x_test), series.y_test) for name, predict in found.means(series).items()
    }
    mean, variance = found.process.predict(series.x_test)
    deviation = (variance + found.process.noise).sqrt()
    own = metrics["Gaussian process"] | {
        "coverage_share": ((mean - series.y_test).abs() <= BAND * deviation).double().mean().item(),
        "log_likelihood": torch.distributions.Normal(mean, deviation).log_prob(series.y_test).mean().item(),
    }
    return [
        Result("Gaussian process", own),
        Result("smoothing, length fitted", metrics["length fitted"]),
        Result("smoothing, fixed kernel", metrics["fixed kernel"]),
        Result("attention, learned projections", metrics["learned projections"]),
        Result("linear regression", errors(_straight_line(series)(series.x_test), series.y_test)),
        Result("always the mean", errors(series.y.mean().expand_as(series.y_test), series.y_test)),
    ]


def errors(predicted: Float[Tensor, " held"], actual: Float[Tensor, " held"]) -> dict[str, float]:
    difference = predicted - actual
    return {
        "root_mean_square_error": difference.square().mean().sqrt().item(),
        "absolute_error": difference.abs().mean().item(),
    }


def _ask(predict: Predict, x: Float[Tensor, "query 1"]) -> Float[Tensor, " query"]:
    with torch.no_grad():
        return torch.cat([predict(some) for some in x.split(QUERIES_AT_ONCE)])


def _straight_line(series: Series) -> Predict:
    middle, height = series.x.mean(), series.y.mean()
    slope = ((series.x[:, 0] - middle) * (series.y - height)).sum() / (series.x - middle).square().sum()
    return lambda x: height + slope * (x[:, 0] - middle)


# --- the report --------------------------------------------------------------------------------------------------------------------


def _sections(found: Found, series: Series, seed: int) -> list[Section]:
    process = _process_section(found.process, series, seed)
    return [
        _curves_section(found, series),
        _weights_section(found, series),
        process,
        _same_section(found.process, series),
    ]


def _curves_section(found: Found, series: Series) -> Section:
    places = series.places()
    curves = {}
    for name, predict in found.means(series).items():
        error = errors(_ask(predict, series.x_test), series.y_test)["root_mean_square_error"]
        deviation = (
            (found.process.predict(places).variance + found.process.noise).sqrt()
            if name == "Gaussian process"
            else None
        )
        curves[f"{name}: error {error:.3g}"] = Curve(_ask(predict, places), deviation)
    figure = smoothing.smoothers(
        places[:, 0],
        curves,
        series.known,
        Points(series.x_test[:, 0], series.y_test),
        xlabel=series.x_name,
        ylabel=series.y_name,
    )
    words = (
        f"Every curve mixes the values of the {len(series.x):,} known points; they differ in the weights alone. The fixed kernel has a "
        f"length of {_short(float(found.fixed.length))}, chosen without a look at y. Fitted, so that each point is foretold from the "
        f"others as well as can be, it is {_short(float(found.fitted.length))}: one length for all of x. Learned projections begin near "
        "such smoothing, and move: where one looks, and how far, may differ from place to place. A Gaussian process takes off what "
        "neighbours tell twice, and says how sure it is: its band should hold 95 % of what was held out. Errors are root mean squares "
        f"over the {len(series.x_test):,} points held out."
    )
    curves_alt = "four curves through the same points: fixed kernel, fitted length, learned projections, process"
    blocks: list[Block] = [Text(words), Picture.of(figure, alt=curves_alt)]
    if series.picture is not None:
        blocks.append(Gallery([Thumbnail(series.picture, "the photograph", "red: the row")]))
    return Section("From a fixed kernel to learned projections", blocks)


def _weights_section(found: Found, series: Series) -> Section:
    x_key, order = series.x[:, 0].sort()
    asked = series.x_test.sort(dim=0).values
    asked = asked[torch.linspace(0, len(asked) - 1, min(DRAWN_QUERIES, len(asked))).round().long()]
    weights = {
        "smoothing": attention_weights(asked, series.x[order], score=Smoothing(found.fitted)),
        "attention": found.attention.weights(asked)[:, order].detach(),
        "process": found.process.weights(asked)[:, order],
    }
    # The query with the most negative weight shows best what smoothing cannot do; at the ends of x there is nothing to mix.
    ends = len(asked) // 10
    row = ends + int(weights["process"][ends : len(asked) - ends].min(1).values.argmin())
    at = asked[row, 0].item()
    words = (
        "Row for row: how much each point that was held out takes from each known point, both in the order of x. Weights of smoothing and "
        "of attention lie between 0 and 1 and sum to one. Smoothing looks equally far everywhere; attention may look narrowly here and "
        "widely there. Those of the process are of both signs: a point behind a nearer one is counted off."
    )
    rows = [
        [name, _short(values.min().item()), _short(values.max().item()), _range(values.sum(1))]
        for name, values in weights.items()
    ]
    return Section(
        "Their weights",
        [
            Text(words),
            Picture.of(
                smoothing.weight_matrices(weights, asked[:, 0], x_key), alt="three matrices of weights, query by key"
            ),
            Picture.of(
                smoothing.weight_profiles(x_key, {name: values[row] for name, values in weights.items()}, at),
                alt="weights of one query over the known points",
                caption=f"One row of each: the query at {series.x_name} {at:.4g}. Red weights are negative.",
            ),
            Table(["weights of", "smallest", "largest", "sum of a row"], rows),
        ],
    )


def _process_section(process: GaussianProcess, series: Series, seed: int) -> Section:
    places, drawn = series.places(), {}
    for name, one in (("prior", GaussianProcess(process.found())), ("posterior", process)):
        mean, variance = one.predict(places)
        drawn[f"{SAMPLES} functions of the {name}"] = (
            Curve(mean, variance.sqrt()),
            one.sample(places, SAMPLES, seeded(seed, name)),
        )
    figure = smoothing.process_samples(places[:, 0], drawn, series.known, xlabel=series.x_name, ylabel=series.y_name)
    rows = [
        ["kernel", process.config.kernel.replace("_", " ")],
        ["length ℓ", _short(process.length)],
        ["deviation of the function √h", _short(math.sqrt(process.height))],
        ["deviation of the noise σ", _short(math.sqrt(process.noise))],
        ["mean μ", _short(process.prior.mean.item())],
        ["ln p(y), the likelihood that was made large", f"{process.log_likelihood().item():,.1f}".replace("-", "−")],
        ["jitter on the diagonal", "none" if process.jitter == 0 else f"{process.jitter:.1g}"],
    ]
    words = (
        "Before any observation every function with the right height and length is possible; afterwards those that pass by the points. "
        "The dashed mean is the mean of all such functions, and the band holds 95 % of them at each place. Length, height and noise were "
        "not chosen but found: they make the observations most likely, with the function averaged over, so that both a stiff function with "
        "much noise and a wild one with none have to earn their place."
    )
    return Section(
        "The process",
        [
            Text(words),
            Picture.of(figure, alt="functions of the prior and of the posterior"),
            Table(["", "found"], rows),
        ],
    )


def _same_section(process: GaussianProcess, series: Series) -> Section:
    """The same points and kernel, with ever more noise."""
    kernel = build_kernel(process.config.kernel, process.length, period=process.config.period)
    smoothed = attention_weights(series.x, series.x, score=Smoothing(kernel))
    rows = []
    for factor in (process.noise / process.height, 1.0, 1e2, 1e4, 1e6):
        noisy = GaussianProcess(replace(process.found(), noise=factor * process.height)).fit(series.x, series.y)
        weights = noisy.weights(series.x)
        sums = weights.sum(1, keepdim=True)
        apart = (weights / sums - smoothed).abs().max().item()
        rows.append([_short(factor), _range(sums), _short(weights.min().item()), _short(apart)])
    words = (
        "w = (K + σ²I)⁻¹ k is a multiple of k, the weights of smoothing before they are divided by their sum, where K + σ²I is a "
        "multiple of I. That is so when no two points are within a length of each other, or when the noise drowns everything. Here the "
        "noise of the process is raised, and its weights at the known points, divided by their sum, approach those of smoothing with the "
        "same kernel. What is left of the difference then is the sum itself: smoothing believes the average whole, a process that is "
        "told of much noise hardly moves from its mean."
    )
    header = ["noise σ² / h", "sum of the weights", "smallest weight", "largest difference from smoothing"]
    return Section("When a process is smoothing", [Text(words), Table(header, rows)])


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _range(values: Tensor) -> str:
    return f"{_short(values.min().item())} to {_short(values.max().item())}"


RECIPE = Recipe(GaussianProcessOptions(), build)
