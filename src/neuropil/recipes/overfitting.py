"""A network that learns its examples by heart, and what helps against it.

A network with far more weights than examples brings its training loss to zero whatever the labels say. What it has learned is seen on
examples that it was not trained on: their loss falls at first, while the network finds what digits have in common, and rises again while
it learns the rest by heart. To make that plain, some labels are wrong: they hold nothing that could be found in other examples.

    early stopping    keep the weights of the lowest validation loss
    weight decay      w ← w − η (∇E + λ w): a weight that no gradient needs fades
    dropout           hide units at random in each step, so that no unit can rely on one other
    augmentation      move, turn and zoom the examples anew in each pass
    more data         the cure that all others stand in for

Every network makes the same number of updates. Training loss is measured as validation loss is, on the examples as they are and with no
unit hidden.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples, Splits
from neuropil.data.examples.files import DataConfig
from neuropil.data.splits import choose
from neuropil.errors import InputError
from neuropil.inspection import pictures
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Text, Thumbnail
from neuropil.parts.objectives import Classification, Regression
from neuropil.protocols import Batch, Phase
from neuropil.randomness import seeded
from neuropil.tasks.classification.experiment import ObjectiveConfig, learner_for
from neuropil.tasks.classification.report import pixels
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.study import Findings, Study
from neuropil.tasks.trial import in_order, new_mlp, prepare_parts, score, shuffled, train_trial
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig
from neuropil.training.progress import Display

WRONG_DIGITS = 0.1
DOSE = 1 / 3
"""Of each cure where all are given: at full strength they would leave the network too weak to learn."""
SHOWN = 8


class OverfittingOptions(Config):
    data: DataConfig = DataConfig(validation=0.3)
    examples: int = option(150, "examples to train on; the cure `more data` takes the whole training part", low=2)
    wrong_labels: float | None = option(
        None,
        "share of the training and validation labels that are made wrong; a tenth for the digits, none for your own",
        low=0,
        high=0.9,
    )
    hidden_sizes: tuple[int, ...] = option((256, 256), "units of each hidden layer", low=1)
    updates: int = option(800, "updates of each network", low=1)
    batch_size: int = option(32, "examples in a batch", low=1)
    learning_rate: float = option(1e-3, "learning rate of AdamW, constant", low=0)
    patience: int = option(20, "early stopping waits for so many epochs without a better validation loss", low=1)
    weight_decay: float = option(8.0, "λ of weight decay", low=0)
    dropout: float = option(0.7, "share of the hidden units that dropout hides", low=0, high=0.95)
    augment: Augment = Augment(shift=1, rotate=15, zoom=0.15)


@dataclass(frozen=True)
class Cure:
    """What is done against overfitting; by default nothing."""

    name: str
    early_stopping: bool = False
    weight_decay: float = 0.0
    dropout: float = 0.0
    augment: Augment | None = None
    more_data: bool = False


@dataclass(frozen=True)
class Labelled:
    """Examples, and which of them have a label that was made wrong."""

    examples: Examples
    wrong: Bool[Tensor, " example"]


@dataclass(frozen=True)
class Outcome:
    """A network after its cure: its loss on what it was trained on and on the validation part, and its scores on the test part."""

    history: list[Row]
    train_loss: float
    validation_loss: float
    test: Mapping[str, float]
    by_heart: float | None
    """Share of the wrong labels of its training examples that it gives back."""
    model: nn.Module

    @property
    def gap(self) -> float:
        return self.validation_loss - self.train_loss


def cures(options: OverfittingOptions, kind: str) -> list[Cure]:
    """The patient first. Pictures alone can be augmented. Together, each cure is given at `DOSE` of its strength."""
    augment = options.augment if kind == "image" else None
    alone = [
        Cure("no cure"),
        Cure("early stopping", early_stopping=True),
        Cure("weight decay", weight_decay=options.weight_decay),
        Cure("dropout", dropout=options.dropout),
        Cure("augmentation", augment=augment),
        Cure("more data", more_data=True),
    ]
    together = Cure(
        "all but more data",
        early_stopping=True,
        weight_decay=DOSE * options.weight_decay,
        dropout=DOSE * options.dropout,
        augment=augment
        and augment.override(**{name: DOSE * getattr(augment, name) for name in ("shift", "rotate", "zoom")}),
    )
    everything = [*alone, together, dataclasses.replace(together, name="all together", more_data=True)]
    return [cure for cure in everything if augment or cure.name != "augmentation"]


class BothParts:
    """Batches of the validation part and of the training part as it is, weighted so that one evaluation gives the means of both."""

    def __init__(self, train: Examples, validation: Examples):
        self.parts = {"train": in_order(train), "validation": in_order(validation)}
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
    """A learner whose metrics come twice: as they are called for the validation part, and as `train_…` for the training part."""

    def __init__(self, learner: Classification | Regression):
        self.learner, self.model = learner, learner.model

    def phases(self) -> Sequence[Phase]:
        return self.learner.phases()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        values = self.learner.metrics(batch)
        own = {name: value * batch["validation"] for name, value in values.items()}
        return own | {f"train_{name}": value * batch["train"] for name, value in values.items()}


def build(options: OverfittingOptions, seed: int) -> Study:
    splits = prepare_parts(options.data, seed)
    share = _wrong_share(options, splits)
    if options.examples > len(splits.train):
        raise InputError(
            f"examples must be at most the {len(splits.train):,} of the training part", got=f"{options.examples:,}"
        )
    train, validation = (
        mislabel(splits.train, share, seed, "train"),
        mislabel(splits.validation, share, seed, "validation"),
    )
    chosen = (
        choose(_strata(splits.train), options.examples / len(splits.train), seeded(seed, "few")).nonzero().flatten()
    )
    few = Labelled(train.examples.take(chosen), train.wrong[chosen])
    parts = Splits(few.examples, validation.examples, splits.test)

    def compute(folder: Path, display: Display) -> Findings:
        outcomes: dict[str, Outcome] = {}
        plan = cures(options, splits.train.schema.kind)
        for index, cure in enumerate(plan):
            outcomes[cure.name] = outcome = _treat(cure, options, train if cure.more_data else few, parts, seed, folder)
            figures = f"{cure.name}: train loss {outcome.train_loss:.3f}, validation loss {outcome.validation_loss:.3f}"
            display.update((index + 1) / len(plan), figures)
        return _findings(outcomes, options, few, parts)

    return Study("overfitting", compute, {"source": splits.train.source})


def _treat(cure: Cure, options: OverfittingOptions, train: Labelled, parts: Splits, seed: int, folder: Path) -> Outcome:
    batches = shuffled(train.examples, options.batch_size, seed, cure.augment)
    config = TrainingConfig(
        epochs=max(1, round(options.updates / len(batches))),
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        weight_decay=cure.weight_decay,
        schedule="constant",
        warmup=0.0,
        keep="best" if cure.early_stopping else "last",
        patience=options.patience if cure.early_stopping else None,
    )
    learner = learner_for(
        new_mlp(train.examples, seed, hidden_sizes=options.hidden_sizes, dropout=cure.dropout),
        train.examples.schema,
        ObjectiveConfig(),
    )
    history = train_trial(
        folder,
        cure.name,
        MeasuredOnBoth(learner),
        batches,
        BothParts(train.examples, parts.validation),
        config,
        seed=seed,
    )
    return Outcome(
        history,
        score(learner, train.examples)["loss"],
        score(learner, parts.validation)["loss"],
        score(learner, parts.test),
        _by_heart(learner.model, train),
        learner.model,
    )


def _by_heart(model: nn.Module, train: Labelled) -> float | None:
    if not train.wrong.any():
        return None
    learned = train.examples.take(train.wrong.nonzero().flatten())
    return (_answers(model, learned) == learned.targets).double().mean().item()


def _answers(model: nn.Module, examples: Examples) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(batch["input"]) for batch in in_order(examples).epoch(0)]).argmax(-1)


# --- data --------------------------------------------------------------------------------------------------------------------


def _wrong_share(options: OverfittingOptions, splits: Splits) -> float:
    share = options.wrong_labels
    if share is None:
        return WRONG_DIGITS if options.data.data is None else 0.0
    if share and not splits.train.schema.classes:
        raise InputError("wrong_labels needs data with classes", got=splits.train.source, fix="leave it out")
    return share


def mislabel(examples: Examples, share: float, seed: int, part: str) -> Labelled:
    """Give a share of the examples another class than theirs."""
    random = seeded(seed, "wrong labels", part)
    wrong = torch.zeros(len(examples), dtype=torch.bool)
    wrong[torch.randperm(len(examples), generator=random)[: round(share * len(examples))]] = True
    if not wrong.any():
        return Labelled(examples, wrong)
    num_classes = len(examples.schema.classes)
    shift = torch.randint(1, num_classes, (len(examples),), generator=random)
    targets = torch.where(wrong, (examples.targets + shift) % num_classes, examples.targets)
    return Labelled(Examples(examples.inputs, targets, examples.schema, examples.source), wrong)


def _strata(examples: Examples) -> Tensor:
    return examples.targets if examples.schema.classes else torch.zeros(len(examples), dtype=torch.int64)


# --- the report ----------------------------------------------------------------------------------------------------------------


def _findings(outcomes: Mapping[str, Outcome], options: OverfittingOptions, few: Labelled, parts: Splits) -> Findings:
    """The cured network, the patient, then the other cures and the simplest baseline."""
    order = ["all together", "no cure", *(name for name in outcomes if name not in ("all together", "no cure"))]
    results = [Result(name, {**outcomes[name].test, "gap": outcomes[name].gap}) for name in order]
    simplest = [
        Result(f"{result.name}, {len(few.examples)} examples", result.metrics) for result in baselines(parts)[:1]
    ]
    sections = [_curves_section(outcomes, options, few), _table_section(outcomes)]
    if few.wrong.any():
        sections.append(_heart_section(outcomes, few))
    return Findings([*results, *simplest], sections)


def _curves_section(outcomes: Mapping[str, Outcome], options: OverfittingOptions, few: Labelled) -> Section:
    patient = outcomes["no cure"]
    losses = [row["loss"] for row in patient.history if row["kind"] == "validation"]
    num_wrong = int(few.wrong.sum())
    noted = f", of which {num_wrong} carry a wrong label on purpose," if num_wrong else ""
    weights = sum(parameter.numel() for parameter in patient.model.parameters())
    words = (
        f"The patient is a network with {weights:,} weights and {len(few.examples)} examples{noted} to learn from. Its training loss "
        f"goes to {patient.train_loss:.2g}; its validation loss falls to {min(losses):.3g}, then rises to {losses[-1]:.3g}. The "
        "distance between the two is what it has learned by heart. Each panel shows one cure, with the patient's validation loss in "
        "grey behind it; the ring marks the lowest validation loss."
    )
    figure = pictures.cures({name: _both_curves(outcome.history) for name, outcome in outcomes.items()})
    return Section(
        "The patient and its cures",
        [Text(words), Picture.of(figure, alt="training and validation loss under each cure")],
    )


def _both_curves(history: Sequence[Row]) -> list[Row]:
    measured = [row for row in history if row["kind"] == "validation"]
    return [{"kind": "train", "step": row["step"], "loss": row["train_loss"]} for row in measured] + measured


def _table_section(outcomes: Mapping[str, Outcome]) -> Section:
    has_classes = "accuracy" in outcomes["no cure"].test
    rows = [
        [
            name,
            f"{outcome.train_loss:.3f}",
            f"{outcome.validation_loss:.3f}",
            f"{outcome.gap:.3f}",
            f"{100 * outcome.test['accuracy']:.2f} %" if has_classes else f"{outcome.test['squared_error']:.4g}",
            *([] if outcome.by_heart is None else [f"{100 * outcome.by_heart:.0f} %"]),
        ]
        for name, outcome in outcomes.items()
    ]
    heart = [] if outcomes["no cure"].by_heart is None else ["wrong labels learned"]
    header = [
        "cure",
        "train loss",
        "validation loss",
        "gap",
        "test accuracy" if has_classes else "test squared error",
        *heart,
    ]
    words = (
        "The weights that each network ends with: the last, or with early stopping the best. A cure raises the training loss, which was "
        "never the aim, and lowers the others. `all together` gives each cure at a third of its strength: at full strength "
        "they would leave the network too weak to learn."
    )
    return Section("What each cure is worth", [Text(words), Table(header, rows)])


def _heart_section(outcomes: Mapping[str, Outcome], few: Labelled) -> Section:
    """Some of the wrongly labelled examples, and what the patient and the cured network say to them."""
    index = few.wrong.nonzero().flatten()[:SHOWN]
    shown = few.examples.take(index)
    classes = shown.schema.classes
    before, after = (_answers(outcomes[name].model, shown).tolist() for name in ("no cure", "all together"))
    words = "Examples with a wrong label: the uncured network has learned what the label says, the cured one says what the example shows."
    rows = [[classes[int(t)], classes[a], classes[b]] for t, a, b in zip(shown.targets, before, after, strict=True)]
    blocks: list[Block] = [Text(words)]
    if shown.schema.kind == "image":
        blocks.append(
            Gallery(
                [
                    Thumbnail(pixels(shown, place), f"label {label}", f"uncured {uncured}, cured {cured}")
                    for place, (label, uncured, cured) in enumerate(rows)
                ]
            )
        )
    else:
        blocks.append(Table(["label", "uncured", "cured"], rows))
    return Section("Learned by heart", blocks)


RECIPE = Recipe(OverfittingOptions(), build)
