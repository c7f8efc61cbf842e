"""One-dimensional data four ways: smoothing with a fixed kernel, with a fitted one, attention with learned projections,
a Gaussian process.

    fixed kernel         a_j(x) ∝ k(x, x_j)                         the length by Silverman's rule, from x alone
    length fitted        the same                                   least leave-one-out error
    learned projections  a_j(x) ∝ exp(q(x)·k(x_j) / √d)             W^Q, W^K, W^V by gradient descent on the same errors
    Gaussian process     w(x) = (K + σ²I)⁻¹ k(x)                    hyperparameters by the likelihood; confidence bands

The report draws the four curves, their weights as attention matrices, functions from the prior and the posterior, and
shows what each projection adds and when a process equals smoothing. Without data of your own it reads a row of a
photograph that scikit-learn carries, of which a fifth of the pixels are known: smooth in the background and rough over
the petals, so that no one length is right, and each prediction can be checked against the pixel that was held out.
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
from neuropil.data.formats.memory import InMemory
from neuropil.errors import InputError
from neuropil.inspection.pictures import kernels as pictures
from neuropil.inspection.pictures.kernels import BAND, Curve, Points
from neuropil.inspection.pictures.style import minus
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Thumbnail, percent
from neuropil.models import gaussian_process as gp
from neuropil.models.gaussian_process import GaussianProcess, GaussianProcessConfig, LearnedAttention
from neuropil.parts.attention import Smoothing, attention_weights
from neuropil.parts.kernels import Kernel, KernelName, build_kernel
from neuropil.parts.losses import squared_error
from neuropil.progress import Display
from neuropil.protocols import Batch, Phase
from neuropil.randomness import seeded
from neuropil.tasks import study
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.loop import TrainingConfig

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
"""Of the attention, towards smoothing: strong, because it has some thousand weights for some hundred points."""

Predict = Callable[[Tensor], Tensor]
PROCESS = "Gaussian process"
PROJECTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "W^Q and W^K": ("query", "key"),
    "W^V": ("value",),
    "W^Q, W^K and W^V": ("query", "key", "value"),
}
"""Which of the attention's parameters are learned; all others stay as smoothing has them."""
ALL_PROJECTIONS = "W^Q, W^K and W^V"


class GaussianProcessOptions(Config):
    data: Path | InMemory | None = option(
        None, "a CSV or TSV with two columns of numbers; default a row of a photograph"
    )
    target: str | None = option(None, "the column of your data to predict; the other one is x")
    test: float = option(0.2, "share of your data held out for the final score", low=0.01, high=0.9)
    line: int = option(100, "which row of the embedded photograph is read", low=0, high=426)
    kernel: KernelName = option("matern", "kernel of smoothing and of the process")
    length: float | None = option(None, "length scale of the fixed kernel; default Silverman's rule", low=1e-12)
    period: float = option(1.0, "period of the periodic kernel, in units of x", low=1e-12)
    waves: int = option(16, "Fourier features of x in the attention", low=1, high=256)
    updates: int = option(300, "updates of the attention's projections", low=1)

    def validate(self) -> None:
        if self.data is not None and self.line != type(self).line:
            raise InputError("--line has no effect on data of your own", fix="leave it out")


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


def build(options: GaussianProcessOptions, seed: int) -> Study:
    # This refuses a kernel that is not positive definite.
    config = GaussianProcessConfig(kernel=options.kernel, period=options.period)
    samples = _photograph(options, seed) if options.data is None else _own(options, seed)
    _require_spread(samples)

    def compute(folder: Path, display: Display) -> Findings:
        with study.alone():
            models = _fit(options, GaussianProcess(config), samples, seed, folder, display)
            results = _results(models, samples)
            coverage = results[0].metrics["coverage_share"]
            sections = [_curves_section(models, samples, coverage), _weights_section(models, samples)]
            sections += [_projections_section(models, samples), _operation_section(models, samples)]
            sections += [_process_section(models.process, samples, seed), _limit_section(models.process, samples)]
            return Findings(results, sections)

    return Study("gaussian process", compute, {"source": samples.source})


def _fit(
    options: GaussianProcessOptions,
    process: GaussianProcess,
    samples: CurvePoints,
    seed: int,
    folder: Path,
    display: Display,
) -> Regressors:
    x, y, name, period = samples.x, samples.y, options.kernel, options.period
    fixed = build_kernel(name, options.length or rule_of_thumb(x, name), period=period)
    fitted = build_kernel(name, gp.fit_length(x, y, name, period=period), period=period)
    display.update(0.1, f"smoothing: length {fitted.length:.4g} by leave-one-out")
    few = torch.randperm(len(x), generator=seeded(seed, "likelihood"))[:MOST_FOR_LIKELIHOOD].sort().values
    process.fit(x[few], y[few]).learn().fit(x, y)
    display.update(0.5, f"Gaussian process: length {process.length:.4g}, noise {math.sqrt(process.noise):.4g}")
    # Waves must reach the next point, or it could not be told from those further off.
    length = max(gp.fit_length(x, y, "gaussian"), gp.reach_of(x, "gaussian") / len(x))
    steps = {"updates": options.updates, "learning_rate": 3e-3, "weight_decay": WEIGHT_DECAY}
    training = TrainingConfig(**steps, keep="last", device="cpu")
    attentions: dict[str, LearnedAttention] = {}
    for done, (name, learned) in enumerate(PROJECTIONS.items(), 1):
        attentions[name] = LearnedAttention(x, y, length, waves=options.waves)
        if learned:
            learner, rows = LeaveOneOut(attentions[name], learned), RowBatches(len(x), seed)
            study.train_trial(folder, f"attention {name}", learner, rows, None, training, seed=seed)
        display.update(0.5 + 0.5 * done / len(PROJECTIONS), f"attention: {name} learned")
    return Regressors(fixed, fitted, attentions, process)


def rule_of_thumb(x: Float[Tensor, "point 1"], kernel: KernelName) -> float:
    """Silverman: 0.9 min(σ, IQR / 1.34) n^−1/5, of the spread of x and not of y."""
    if kernel == "periodic":
        return 1.0
    low, high = x.quantile(torch.tensor([0.25, 0.75], dtype=x.dtype)).tolist()
    spread = min(width for width in (x.std().item(), (high - low) / 1.34) if width > 0)
    return 0.9 * spread * len(x) ** -0.2


# --- attention that learns --------------------------------------------------------------------------------------------


class LeaveOneOut:
    """Each point is predicted from all others, and the `learned` parameters follow. Errors are in units of the standard
    deviation of the values."""

    def __init__(self, model: LearnedAttention, learned: Sequence[str] = PROJECTIONS[ALL_PROJECTIONS]):
        self.model, self.learned = model, learned
        self.scale = model.y.std()

    def phases(self) -> Sequence[Phase]:
        return [Phase("leave one out", {name: self.model.get_parameter(name) for name in self.learned}, self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return self._errors(batch).mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return {"loss": self._errors(batch)}

    def _errors(self, batch: Batch) -> Float[Tensor, " batch"]:
        rows = batch["row"]
        others = torch.arange(len(self.model.x), device=rows.device) != rows[:, None]
        predicted, actual = self.model(self.model.x[rows], others), self.model.y[rows]
        return squared_error((predicted / self.scale)[:, None], (actual / self.scale)[:, None])


class RowBatches:
    """Batches of row numbers, shuffled anew in every epoch."""

    def __init__(self, count: int, seed: int, size: int = 256):
        self.count, self.seed, self.size = count, seed, size

    def __len__(self) -> int:
        return math.ceil(self.count / self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        order = torch.randperm(self.count, generator=seeded(self.seed, number))
        yield from ({"row": rows} for rows in order.split(self.size)[start:])


# --- data -------------------------------------------------------------------------------------------------------------


def _photograph(options: GaussianProcessOptions, seed: int) -> CurvePoints:
    if options.target is not None:
        got = f"{options.target!r} for the embedded photograph"
        raise InputError("a target is a column of a CSV or TSV", got=got, fix="leave it out")
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
    values = x[known], brightness[known], x[held], brightness[held]
    return CurvePoints(*values, "pixel of the row", "brightness", source, picture)


def _own(options: GaussianProcessOptions, seed: int) -> CurvePoints:
    config = DataConfig(data=options.data, target=options.target, task="regression", validation=0.0, test=options.test)
    splits = prepare(config, seed)
    schema = splits.train.schema
    if schema.shape != (1,) or any(column.kind != "number" for column in schema.columns):
        got, fix = splits.train.source, "give a file with two columns"
        got = f"{len(schema.columns)} beside it" if len(schema.columns) > 1 else got
        raise InputError("this study needs one column of numbers beside the target", got=got, fix=fix)
    offsets = (schema.offsets or (0.0,))[0], schema.target_offset
    columns = ((part.inputs, part.targets[:, 0]) for part in (splits.train, splits.test))
    x, y, x_test, y_test = (
        values.double() + offset for pair in columns for values, offset in zip(pair, offsets, strict=True)
    )
    source = splits.train.source
    if len(x) > MOST_POINTS:
        some = torch.randperm(len(x), generator=seeded(seed, "points"))[:MOST_POINTS].sort().values
        x, y, source = x[some], y[some], f"{source}, of which {MOST_POINTS:,} drawn at random are known"
    name = schema.columns[0].name if schema.columns else "x"
    return CurvePoints(x, y, x_test, y_test, name, schema.target or "y", source)


def _require_spread(samples: CurvePoints) -> None:
    if len(samples.x) < LEAST_POINTS:
        rule = f"this study needs at least {LEAST_POINTS} points to learn from"
        raise InputError(rule, got=f"{len(samples.x)}", fix="hold fewer out")
    for name, values in ((samples.x_name, samples.x), (samples.y_name, samples.y)):
        if not values.std() > 0:
            raise InputError(f"{name!r} must differ between rows", got=f"{values.flatten()[0]:g} in all of them")


# --- results ----------------------------------------------------------------------------------------------------------


def _results(models: Regressors, samples: CurvePoints) -> list[Result]:
    x, y = samples.x_test, samples.y_test
    metrics = {name: errors(_evaluate(predict, x), y) for name, predict in models.means(samples).items()}
    mean, variance = models.process.predict(x)
    deviation = (variance + models.process.noise).sqrt()
    covered = ((mean - y).abs() <= BAND * deviation).double().mean().item()
    likelihood = torch.distributions.Normal(mean, deviation).log_prob(y).mean().item()
    own = metrics[PROCESS] | {"coverage_share": covered, "log_likelihood": likelihood}
    return [
        Result(PROCESS, own),
        Result("smoothing, length fitted", metrics["length fitted"]),
        Result("smoothing, fixed kernel", metrics["fixed kernel"]),
        Result("attention, learned projections", metrics["learned projections"]),
        *(
            Result(f"attention, {name} learned", errors(_evaluate(models.attentions[name], x), y))
            for name in PROJECTIONS
            if name != ALL_PROJECTIONS
        ),
        Result("linear regression", errors(_linear_regression(samples)(x), y)),
        Result("always the mean", errors(samples.y.mean().expand_as(y), y)),
    ]


def errors(predicted: Float[Tensor, " held"], actual: Float[Tensor, " held"]) -> dict[str, float]:
    difference = predicted - actual
    squares, absolute = difference.square().mean(), difference.abs().mean()
    return {"root_mean_square_error": squares.sqrt().item(), "absolute_error": absolute.item()}


def _evaluate(predict: Predict, x: Float[Tensor, "query 1"]) -> Float[Tensor, " query"]:
    with torch.no_grad():
        return torch.cat([predict(some) for some in x.split(QUERIES_AT_ONCE)])


def _linear_regression(samples: CurvePoints) -> Predict:
    middle, height = samples.x.mean(), samples.y.mean()
    slope = ((samples.x[:, 0] - middle) * (samples.y - height)).sum() / (samples.x - middle).square().sum()
    return lambda x: height + slope * (x[:, 0] - middle)


# --- the report -------------------------------------------------------------------------------------------------------


def _curves_section(models: Regressors, samples: CurvePoints, coverage: float) -> Section:
    places = samples.places()
    curves = {}
    for name, predict in models.means(samples).items():
        error = errors(_evaluate(predict, samples.x_test), samples.y_test)["root_mean_square_error"]
        curves[f"{name}: error {error:.3g}"] = Curve(_evaluate(predict, places))
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
        f"attention may have another at each place. {_signs(weights['process'])}"
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
        found[name] = errors(_evaluate(attention, samples.x_test), samples.y_test)["root_mean_square_error"]
        curves[f"{name}: error {found[name]:.3g}"] = Curve(_evaluate(attention, places))
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
            "attention": (_evaluate(attention, x), written),
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


def _signs(weights: Float[Tensor, "query key"]) -> str:
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


RECIPE = Recipe(GaussianProcessOptions(), build, about="models.gaussian_process")
