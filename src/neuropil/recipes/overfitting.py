"""A network that overfits, and what regularisation does against it.

A network with far more weights than examples brings its training loss to zero whatever the labels say. What it has
learned is seen on validation examples: their loss falls at first, while the network finds what digits have in common,
and rises again while it memorises the rest. To make that plain, some labels are wrong: they hold nothing that could be
found in other examples.

    early stopping    keep the weights of the lowest validation loss
    weight decay      w ← w − η (∇E + λ w): a weight that no gradient needs decays
    dropout           drop units at random in each step, so that no unit can rely on one other
    augmentation      shift, rotate and zoom the examples anew in each epoch
    more data         what all others stand in for

Every network makes the same number of updates. Training loss is measured as validation loss is: on the examples as they
are, without dropout.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import DataConfig
from neuropil.data.splits import Splits, choose
from neuropil.errors import InputError
from neuropil.inspection.pictures.training import regularization_curves
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Thumbnail, percent
from neuropil.parts.objectives import Classification, MultiLabel, Regression
from neuropil.progress import Display
from neuropil.protocols import Batch, Phase
from neuropil.randomness import seeded
from neuropil.tasks import study
from neuropil.tasks.classification.scores import baselines, scorer_for
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.config import TrainingConfig
from neuropil.training.history import Row

WRONG_DIGITS = 0.1
COMBINED = 1 / 3
"""Strength of each method where all are combined: at full strength they would leave the network too weak to learn."""
BASELINE, ALL = "no regularisation", "all together"
SHOWN = 8


class OverfittingOptions(Config):
    data: DataConfig = DataConfig(validation=0.3)
    examples: int = option(150, "training examples; `more data` takes the whole training part", low=2)
    wrong_labels: float | None = option(None, "label noise; default 0.1 for digits, 0 for your own", low=0, high=0.9)
    hidden_sizes: tuple[int, ...] = option((256, 256), "units of each hidden layer", low=1)
    updates: int = option(800, "updates of each network", low=1)
    batch_size: int = option(32, "examples in a batch", low=1)
    learning_rate: float = option(1e-3, "learning rate of AdamW, constant", low=0)
    patience: int = option(20, "early stopping: epochs without a better validation loss", low=1)
    weight_decay: float = option(8.0, "λ of weight decay", low=0)
    dropout: float = option(0.7, "dropout probability", low=0, high=0.95)
    augment: Augment = Augment(shift=1, rotate=15, zoom=0.15)


@dataclass(frozen=True)
class Regularization:
    """What is done against overfitting; by default nothing."""

    early_stopping: bool = False
    weight_decay: float = 0.0
    dropout: float = 0.0
    augment: Augment | None = None
    more_data: bool = False


@dataclass(frozen=True)
class NoisyExamples:
    """Examples, and which of them have a label that was made wrong."""

    examples: Examples
    wrong: Bool[Tensor, " example"]


@dataclass(frozen=True)
class RegularizedTrial:
    """A trained network: its training and validation loss, and its scores on the test part."""

    history: list[Row]
    train_loss: float
    validation_loss: float
    test: Mapping[str, float]
    memorised: float | None
    """Share of the wrong labels of its training examples that it predicts."""
    model: nn.Module

    @property
    def gap(self) -> float:
        return self.validation_loss - self.train_loss


def regularizations(options: OverfittingOptions, kind: str) -> dict[str, Regularization]:
    """The baseline first. Images alone can be augmented. Combined, each method has `COMBINED` of its strength."""
    augment = options.augment if kind == "image" else None
    weaker = augment and {name: COMBINED * getattr(augment, name) for name in ("shift", "rotate", "zoom")}
    combined = Regularization(
        early_stopping=True,
        weight_decay=COMBINED * options.weight_decay,
        dropout=COMBINED * options.dropout,
        augment=augment.override(**weaker) if augment and weaker else None,
    )
    return {
        BASELINE: Regularization(),
        "early stopping": Regularization(early_stopping=True),
        "weight decay": Regularization(weight_decay=options.weight_decay),
        "dropout": Regularization(dropout=options.dropout),
        **({"augmentation": Regularization(augment=augment)} if augment else {}),
        "more data": Regularization(more_data=True),
        "all but more data": combined,
        ALL: replace(combined, more_data=True),
    }


class BothParts:
    """Batches of the validation and of the training part, weighted so that one evaluation gives the means of both."""

    def __init__(self, train: Examples, validation: Examples):
        self.parts = {"train": study.in_order(train), "validation": study.in_order(validation)}
        self.total = len(train) + len(validation)

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for name, batches in self.parts.items():
            for batch in batches.epoch(number):
                weight = torch.full((len(batch["input"]),), self.total / len(batches.examples))
                weights = {part: weight if part == name else torch.zeros_like(weight) for part in self.parts}
                yield {**batch, **weights}


class MeasuredOnBoth:
    """A learner whose metrics come twice: those of the validation part, and as `train_…` of the training part."""

    def __init__(self, learner: Classification | MultiLabel | Regression):
        self.learner, self.model = learner, learner.model

    def phases(self) -> Sequence[Phase]:
        return self.learner.phases()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        values = self.learner.metrics(batch)
        own = {name: value * batch["validation"] for name, value in values.items()}
        return own | {f"train_{name}": value * batch["train"] for name, value in values.items()}


def build(options: OverfittingOptions, seed: int) -> Study:
    splits = study.prepare_parts(options.data, seed)
    share = _wrong_share(options, splits)
    if options.examples > len(splits.train):
        rule = f"examples must be at most the {len(splits.train):,} of the training part"
        raise InputError(rule, got=f"{options.examples:,}")
    train = mislabel(splits.train, share, seed, "train")
    validation = mislabel(splits.validation, share, seed, "validation").examples
    strata = splits.train.targets if splits.train.schema.classes else torch.zeros(len(splits.train), dtype=torch.int64)
    chosen = choose(strata, options.examples / len(splits.train), seeded(seed, "few")).nonzero().flatten()
    few = NoisyExamples(train.examples.take(chosen), train.wrong[chosen])
    parts = Splits(few.examples, validation, splits.test)

    def compute(folder: Path, display: Display) -> Findings:
        def run(name: str, method: Regularization) -> RegularizedTrial:
            return _train(name, method, options, train if method.more_data else few, parts, seed, folder)

        def figures(trial: RegularizedTrial) -> str:
            return f"train loss {trial.train_loss:.3f}, validation loss {trial.validation_loss:.3f}"

        trials = study.compare(regularizations(options, splits.train.schema.kind), run, display, figures)
        return _findings(trials, few, parts)

    return Study("overfitting", compute, {"source": splits.train.source})


def _train(
    name: str,
    method: Regularization,
    options: OverfittingOptions,
    train: NoisyExamples,
    parts: Splits,
    seed: int,
    folder: Path,
) -> RegularizedTrial:
    batches = study.shuffled(train.examples, options.batch_size, seed, method.augment)
    config = TrainingConfig(
        epochs=max(1, round(options.updates / len(batches))),
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        weight_decay=method.weight_decay,
        schedule="constant",
        warmup=0.0,
        keep="best" if method.early_stopping else "last",
        patience=options.patience if method.early_stopping else None,
    )
    model = study.new_mlp(train.examples, seed, hidden_sizes=options.hidden_sizes, dropout=method.dropout)
    learner = scorer_for(model, train.examples.schema)
    both = BothParts(train.examples, parts.validation)
    history = study.train_trial(folder, name, MeasuredOnBoth(learner), batches, both, config, seed=seed)
    own, other = (study.score(learner, part)["loss"] for part in (train.examples, parts.validation))
    return RegularizedTrial(history, own, other, study.score(learner, parts.test), _memorised(model, train), model)


def _memorised(model: nn.Module, train: NoisyExamples) -> float | None:
    if not train.wrong.any():
        return None
    wrong = train.examples.take(train.wrong.nonzero().flatten())
    return (_predictions(model, wrong) == wrong.targets).double().mean().item()


def _predictions(model: nn.Module, examples: Examples) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(batch["input"]) for batch in study.in_order(examples).epoch(0)]).argmax(-1)


# --- label noise -----------------------------------------------------------------------------------------------------


def _wrong_share(options: OverfittingOptions, splits: Splits) -> float:
    share = options.wrong_labels
    if share is None:
        return WRONG_DIGITS if options.data.data is None else 0.0
    if share and not splits.train.schema.classes:
        raise InputError("wrong_labels needs data with classes", got=splits.train.source, fix="leave it out")
    return share


def mislabel(examples: Examples, share: float, seed: int, part: str) -> NoisyExamples:
    """Give a share of the examples another class than theirs."""
    random = seeded(seed, "wrong labels", part)
    wrong = torch.zeros(len(examples), dtype=torch.bool)
    wrong[torch.randperm(len(examples), generator=random)[: round(share * len(examples))]] = True
    if not wrong.any():
        return NoisyExamples(examples, wrong)
    num_classes = len(examples.schema.classes)
    shift = torch.randint(1, num_classes, (len(examples),), generator=random)
    targets = torch.where(wrong, (examples.targets + shift) % num_classes, examples.targets)
    return NoisyExamples(Examples(examples.inputs, targets, examples.schema, examples.source), wrong)


# --- the report ------------------------------------------------------------------------------------------------------


def _findings(trials: Mapping[str, RegularizedTrial], few: NoisyExamples, parts: Splits) -> Findings:
    """The regularised network, the baseline, then the single methods and a linear model."""
    ordered = study.leading(trials, ALL, BASELINE)
    results = [Result(name, {**trial.test, "gap": trial.gap}) for name, trial in ordered.items()]
    linear = baselines(parts)[0]
    results.append(Result(f"{linear.name}, {len(few.examples)} examples", linear.metrics))
    sections = [_curves_section(trials, few), _table_section(trials)]
    return Findings(results, [*sections, _memorised_section(trials, few)] if few.wrong.any() else sections)


def _curves_section(trials: Mapping[str, RegularizedTrial], few: NoisyExamples) -> Section:
    baseline = trials[BASELINE]
    losses = [row["loss"] for row in baseline.history if row["kind"] == "validation"]
    num_wrong = int(few.wrong.sum())
    noted = f", of which {num_wrong} carry a wrong label on purpose," if num_wrong else ""
    weights = sum(parameter.numel() for parameter in baseline.model.parameters())
    fell = f"falls to {min(losses):.3g}" if min(losses) < losses[0] else f"never falls below the first, {losses[0]:.3g}"
    then = f", then rises to {losses[-1]:.3g}" if losses[-1] > min(losses) else ""
    overfits = "it overfits" if baseline.gap > 0 else "it does not overfit"
    words = (
        f"The baseline is a network with {weights:,} weights and {len(few.examples)} examples{noted} to learn from. "
        f"Its training loss ends at {baseline.train_loss:.2g}; its validation loss {fell}{then}. "
        f"The gap between the two is {baseline.gap:.3g} at the end: {overfits}. Each panel shows one method, with the "
        "baseline's validation loss in grey behind it; the ring marks the lowest validation loss."
    )
    figure = regularization_curves({name: _both_curves(trial.history) for name, trial in trials.items()})
    picture = Picture.of(figure, "training and validation loss with each regularisation")
    return Section.of("Overfitting and regularisation", words, picture)


def _both_curves(history: Sequence[Row]) -> list[Row]:
    measured = [row for row in history if row["kind"] == "validation"]
    return [{"kind": "train", "step": row["step"], "loss": row["train_loss"]} for row in measured] + measured


def _table_section(trials: Mapping[str, RegularizedTrial]) -> Section:
    has_classes = "accuracy" in trials[BASELINE].test
    rows = []
    for name, trial in trials.items():
        losses = [f"{loss:.3f}" for loss in (trial.train_loss, trial.validation_loss, trial.gap)]
        score = percent(trial.test["accuracy"], 2) if has_classes else f"{trial.test['squared_error']:.4g}"
        rows.append([name, *losses, score, *([] if trial.memorised is None else [percent(trial.memorised, 0)])])
    test = "test accuracy" if has_classes else "test squared error"
    memorised = [] if trials[BASELINE].memorised is None else ["wrong labels memorised"]
    gaps = {name: trial.gap for name, trial in trials.items()}
    words = (
        "The weights that each network ends with: the last, or with early stopping the best. The gap is validation "
        f"loss − training loss: {gaps[BASELINE]:.3g} without regularisation, smallest with "
        f"{min(gaps, key=gaps.__getitem__)} ({min(gaps.values()):.3g}). {_best_words(trials, has_classes)} `{ALL}` "
        "gives each method a third of its strength."
    )
    table = Table(["regularisation", "train loss", "validation loss", "gap", test, *memorised], rows)
    return Section.of("What each method is worth", words, table)


def _best_words(trials: Mapping[str, RegularizedTrial], has_classes: bool) -> str:
    """Which network has the best test score: a small gap alone may mean that nothing was learned."""
    if has_classes:
        scores = {name: -trial.test["accuracy"] for name, trial in trials.items()}
    else:
        scores = {name: trial.test["squared_error"] for name, trial in trials.items()}
    better = [name for name in trials if scores[name] < scores[BASELINE]]
    best = min(scores, key=scores.__getitem__)
    what = "test accuracy" if has_classes else "test error"
    if not better:
        return f"None has a better {what} than the baseline."
    return f"{len(better)} of {len(trials) - 1} have a better {what} than the baseline, {best} the best."


def _memorised_section(trials: Mapping[str, RegularizedTrial], few: NoisyExamples) -> Section:
    """Some of the wrongly labelled examples, and what the baseline and the regularised network predict for them."""
    shown = few.examples.take(few.wrong.nonzero().flatten()[:SHOWN])
    classes = shown.schema.classes
    before, after = (_predictions(trials[name].model, shown).tolist() for name in (BASELINE, ALL))
    rows = [[classes[int(t)], classes[a], classes[b]] for t, a, b in zip(shown.targets, before, after, strict=True)]
    agreed = [sum(row[0] == row[column] for row in rows) for column in (1, 2)]
    words = f"{len(rows)} training examples with a wrong label. The baseline predicts that label for {agreed[0]} of "
    words += f"them, the regularised network for {agreed[1]}."
    block: Block = Table(["label", "baseline", "regularised"], rows)
    if shown.schema.kind == "image":
        captions = [(f"label {label}", f"baseline {a}, regularised {b}") for label, a, b in rows]
        pairs = zip(shown.inputs, captions, strict=True)
        block = Gallery([Thumbnail(pixels(image), *caption) for image, caption in pairs])
    return Section.of("Memorised labels", words, block)


RECIPE = Recipe(OverfittingOptions(), build, about="recipes.overfitting")
