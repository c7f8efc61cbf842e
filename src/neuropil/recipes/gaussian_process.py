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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.data.formats.memory import InMemory
from neuropil.errors import InputError
from neuropil.inspection.pictures.kernels import BAND
from neuropil.inspection.report.studies.gaussian_process import (
    ALL_PROJECTIONS,
    PROCESS,
    CurvePoints,
    Predict,
    Regressors,
    errors,
    evaluate,
    process_sections,
)
from neuropil.models import gaussian_process as gp
from neuropil.models.gaussian_process import GaussianProcess, GaussianProcessConfig, LearnedAttention
from neuropil.parts.kernels import KernelName, build_kernel, reach_of
from neuropil.parts.losses import squared_error
from neuropil.progress import Display
from neuropil.protocols import Batch, Phase
from neuropil.randomness import seeded
from neuropil.tasks import study
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.config import TrainingConfig

MOST_POINTS = 1000
"""A process of n points costs n³."""
MOST_FOR_LIKELIHOOD = 400
LEAST_POINTS = 5
KNOWN_PIXELS = 128
WEIGHT_DECAY = 10.0
"""Of the attention, towards smoothing: strong, because it has some thousand weights for some hundred points."""

PROJECTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "W^Q and W^K": ("query", "key"),
    "W^V": ("value",),
    ALL_PROJECTIONS: ("query", "key", "value"),
}
"""Which of the attention's parameters are learned; all others stay as smoothing has them."""


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


def build(options: GaussianProcessOptions, seed: int) -> Study:
    # This refuses a kernel that is not positive definite.
    config = GaussianProcessConfig(kernel=options.kernel, period=options.period)
    samples = _photograph(options, seed) if options.data is None else _own(options, seed)
    _require_spread(samples)

    def compute(folder: Path, display: Display) -> Findings:
        with study.alone():
            models = _fit(options, GaussianProcess(config), samples, seed, folder, display)
            results = _results(models, samples)
            sections = process_sections(models, samples, results[0].metrics["coverage_share"], seed)
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
    length = max(gp.fit_length(x, y, "gaussian"), reach_of(x, "gaussian") / len(x))
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
    metrics = {name: errors(evaluate(predict, x), y) for name, predict in models.means(samples).items()}
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
            Result(f"attention, {name} learned", errors(evaluate(models.attentions[name], x), y))
            for name in PROJECTIONS
            if name != ALL_PROJECTIONS
        ),
        Result("linear regression", errors(_linear_regression(samples)(x), y)),
        Result("always the mean", errors(samples.y.mean().expand_as(y), y)),
    ]


def _linear_regression(samples: CurvePoints) -> Predict:
    middle, height = samples.x.mean(), samples.y.mean()
    slope = ((samples.x[:, 0] - middle) * (samples.y - height)).sum() / (samples.x - middle).square().sum()
    return lambda x: height + slope * (x[:, 0] - middle)


RECIPE = Recipe(GaussianProcessOptions(), build, about="models.gaussian_process")
