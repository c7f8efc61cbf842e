"""Why several heads, and whether all are needed: one against many at equal width, then pruned one by one.

A query asks for k of the slots in front of it at once, each with n numbers of its own. It knows them by their tags: the
scores depend on the tags alone, the values on the contents alone.

    head_h = W^V_h Σ_j a^h_j x_j          y = W^O [head_1 … head_H] + b          wanted: [x_p1 … x_pk]

A head returns one weighted mean of the slots, n numbers at most, whatever its width. With contents of unit variance
that have nothing to do with each other, H heads of width w explain no more than H min(n, w) of the k n numbers asked
for, so that the mean squared error is

    at least 1 − H min(n, w) / (k n),   and so 1 − H/k for H ≤ k heads of a width of k n in all

One head must average what k heads keep apart. Parameters are as many with any number of heads. A Vision Transformer on
pictures, where nobody knows how many heads are needed, learns beside it.

Then heads are removed for good, the least important first, until none is left.
"""

import copy
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.files import DataConfig
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.inspection.heads import gradient_importance, least_important
from neuropil.inspection.recording import record
from neuropil.inspection.report.page import percent
from neuropil.inspection.report.studies.heads import (
    AT_RANDOM,
    BY_IMPORTANCE,
    GATHERING,
    PICTURES,
    HeadComparison,
    comparison_section,
    heads_in_words,
    pruning_section,
    shares_section,
)
from neuropil.models.vit import ViT, ViTConfig
from neuropil.parts.blocks import initialise
from neuropil.parts.multi_head import MultiHeadAttention, heads_of
from neuropil.parts.objectives import Classification, Objective
from neuropil.parts.parameters import count_parameters
from neuropil.progress import Display
from neuropil.protocols import Batch, Batches, Learner
from neuropil.randomness import initialised, mix, seeded
from neuropil.recipes.vit import cut_into_patches
from neuropil.tasks import study
from neuropil.tasks.classification.experiment import require_pictures
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate

BATCH, EVALUATED = 128, 20
"""Queries in a batch, and batches of them that a network is scored on."""
PRUNING_BATCH = 32


class HeadsOptions(Config):
    data: DataConfig = DataConfig()
    heads: tuple[int, ...] = option((1, 2, 4, 8, 16, 32), "numbers of heads that gather; each divides the width", low=1)
    picture_heads: tuple[int, ...] = option((1, 2, 4, 8), "numbers of heads in each layer that sees pictures", low=1)
    width: int = option(32, "embedding width (d_model) of every network", low=1)
    asked: int = option(4, "slots that a query asks for at once; they divide the width", low=1)
    slots: int = option(16, "slots to choose from", low=2)
    layers: int = option(2, "layers of each Vision Transformer", low=1)
    patch: int | None = option(None, "patch size in pixels; none: the smallest that leaves at most 8 a side", low=1)
    updates: int = option(800, "updates of each network that gathers", low=1)
    picture_updates: int = option(300, "updates of each network that sees pictures, and at least ten epochs", low=1)
    learning_rate: float = option(5e-3, "peak learning rate of each network that gathers", low=0)
    picture_learning_rate: float = option(3e-3, "peak learning rate of each network that sees pictures", low=0)
    repeats: int = option(3, "networks for each number of heads", low=1)
    pruned: int = option(8, "heads of each layer in the networks that are pruned; one of the numbers compared", low=1)

    def validate(self) -> None:
        for compared in (self.heads, self.picture_heads):
            if len(set(compared)) < len(compared):
                raise InputError("the numbers of heads must differ", got=", ".join(map(str, compared)))
        for heads in (*self.heads, *self.picture_heads):
            if self.width % heads:
                raise InputError("the heads must divide the width", got=f"{heads} heads for a width of {self.width}")
        if self.width % self.asked:
            rule = "the slots asked for must divide the width"
            raise InputError(rule, got=f"{self.asked} slots for a width of {self.width}")
        if self.asked > self.slots:
            rule = "a query asks for different slots"
            raise InputError(rule, got=f"{self.asked} of {self.slots}", fix="give more --slots")
        for compared in (self.heads, self.picture_heads):
            if self.pruned not in compared:
                got = f"{self.pruned} of {', '.join(map(str, compared))}"
                raise InputError("--pruned must be one of the numbers of heads compared", got=got)

    @property
    def compared(self) -> dict[str, tuple[int, ...]]:
        """Numbers of heads by task."""
        return {GATHERING: self.heads, PICTURES: self.picture_heads}

    @property
    def numbers(self) -> int:
        """n, of the contents of a slot: what is asked for fills the width."""
        return self.width // self.asked

    def least_error(self, heads: int, head_width: int) -> float:
        # 1 − H min(n, w) / (k n)
        return max(0.0, 1 - heads * min(self.numbers, head_width) / (self.asked * self.numbers))


@dataclass(frozen=True)
class HeadTrial:
    """A trained network, its scores, and the scores of what is left of it without so many heads, by the order of their
    removal."""

    learner: Learner
    validation: float
    test: float
    pruned: Mapping[str, Mapping[int, float]]


Trials: TypeAlias = Mapping[int, Sequence[HeadTrial]]
"""Of each number of heads, one for each repeat."""


def build(options: HeadsOptions, seed: int) -> Study:
    splits = study.prepare_classes(options.data, seed)
    require_pictures("a Vision Transformer", splits)
    vit = ViTConfig(width=options.width, layers=options.layers, heads=1, patch=options.patch, shape=())
    splits, patch = cut_into_patches(splits, options.data, options.patch)
    vit = replace(vit, patch=patch, shape=splits.train.schema.shape, classes=splits.train.schema.num_outputs)

    def compute(folder: Path, display: Display) -> Findings:
        runs: dict[str, Callable[[str, int, int], HeadTrial]] = {
            GATHERING: partial(_gather, options, folder),
            PICTURES: partial(_see, options, vit, splits, folder),
        }
        trials: dict[str, dict[int, list[HeadTrial]]] = {
            task: {heads: [] for heads in compared} for task, compared in options.compared.items()
        }
        planned = _each(options)
        for done, (task, heads, repeat) in enumerate(planned, 1):
            trial = runs[task](f"{task} {heads} heads {repeat}", heads, mix(seed, task, repeat))
            trials[task][heads].append(trial)
            display.update(done / len(planned), f"{task}, {heads_in_words(heads)}: {_shown(task, trial.test)}")
        curves = {task: pruning_curves(each[options.pruned]) for task, each in trials.items()}
        width = options.width // options.pruned
        least = {left: options.least_error(left, width) for left in range(options.pruned + 1)}
        shares = {
            heads: attention_shares(trials[GATHERING][heads][0].learner, options, seed)
            for heads in _some_heads(options)
        }
        sections = [comparison_section(_comparison(options, trials)), shares_section(shares, options.asked)]
        return Findings(_results(options, trials, splits), [*sections, pruning_section(curves, least)])

    return Study("heads", compute, {"source": splits.train.source})


def _each(options: HeadsOptions) -> list[tuple[str, int, int]]:
    return [
        (task, heads, repeat)
        for repeat in range(options.repeats)
        for task, compared in options.compared.items()
        for heads in compared
    ]


# --- gathering --------------------------------------------------------------------------------------------------------


class Gather(nn.Module):
    """One layer of multi-head attention whose queries and keys are made of tags and whose values of contents."""

    def __init__(self, options: HeadsOptions, heads: int):
        super().__init__()
        self.asked, self.slots = options.asked, options.slots
        self.ask = nn.Linear(options.asked * options.slots, options.width)
        self.attention = MultiHeadAttention(
            options.width, heads, key_width=options.slots, value_width=options.numbers, fused=False
        )

    def forward(
        self, places: Int64[Tensor, "batch asked"], contents: Float[Tensor, "batch slot number"]
    ) -> Float[Tensor, "batch asked number"]:
        asked = rearrange(F.one_hot(places, self.slots), "batch asked slot -> batch 1 (asked slot)")
        tags = torch.eye(self.slots, device=contents.device).expand(len(contents), -1, -1)
        mixed = self.attention(self.ask(asked.to(contents.dtype)), tags, contents)
        return rearrange(mixed, "batch 1 (asked number) -> batch asked number", asked=self.asked)


class Gathering(Objective[Gather]):
    """Mean squared error, of which the mean of all contents, 0, has 1."""

    phase = "gathering"

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return self._errors(batch).mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return {"loss": self._errors(batch)}

    def _errors(self, batch: Batch) -> Float[Tensor, " batch"]:
        gathered = self.model(batch["places"], batch["contents"])
        return (gathered - batch["target"]).square().mean((1, 2))


class Queries:
    """Batches of slots with contents from N(0, 1), of which some are asked for, none twice."""

    def __init__(self, options: HeadsOptions, count: int, *key: int | str):
        self.options, self.count, self.key = options, count, key

    def __len__(self) -> int:
        return self.count

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        slots, asked = self.options.slots, self.options.asked
        for index in range(start, self.count):
            generator = seeded(*self.key, number, index)
            places = torch.rand(BATCH, slots, generator=generator).argsort(-1)[:, :asked]
            contents = torch.randn(BATCH, slots, self.options.numbers, generator=generator)
            target = contents.gather(1, places[..., None].expand(-1, -1, self.options.numbers))
            yield {"places": places, "contents": contents, "target": target}


def _gather(options: HeadsOptions, folder: Path, name: str, heads: int, seed: int) -> HeadTrial:
    learner = Gathering(initialised(lambda: Gather(options, heads), seed))
    training = _training(options.learning_rate, epochs=1, weight_decay=0.0)
    study.train_trial(folder, name, learner, Queries(options, options.updates, seed), None, training, seed=seed)
    validation, test = (Queries(options, EVALUATED, seed, part) for part in ("validation", "test"))
    score = partial(_loss, batches=test)
    pruned = prune_both_ways(learner, list(validation.epoch(0)), score, seed) if heads == options.pruned else {}
    return HeadTrial(learner, _loss(learner, validation), score(learner), pruned)


def _loss(learner: Learner, batches: Batches) -> float:
    return evaluate(learner, batches)["loss"]


# --- pictures ---------------------------------------------------------------------------------------------------------


def _see(
    options: HeadsOptions, config: ViTConfig, splits: Splits, folder: Path, name: str, heads: int, seed: int
) -> HeadTrial:
    model = initialised(lambda: _new_vit(config.override(heads=heads)), seed)
    model.standardize.fit(splits.train.inputs)
    learner, training = Classification(model), _training(options.picture_learning_rate, updates=options.picture_updates)
    batches = study.shuffled(splits.train, training.batch_size, seed)
    study.train_trial(folder, name, learner, batches, None, training, seed=seed)
    few = list(ExampleBatches(splits.validation, PRUNING_BATCH, seed=0, shuffle=False).epoch(0))
    score = lambda learner: study.score(learner, splits.test)["accuracy"]  # noqa: E731
    pruned = prune_both_ways(learner, few, score, seed) if heads == options.pruned else {}
    return HeadTrial(learner, study.score(learner, splits.validation)["accuracy"], score(learner), pruned)


def _new_vit(config: ViTConfig) -> ViT:
    """Weights with a standard deviation of 0.02, as published for widths of 768, learn slowly in narrow networks."""
    model = ViT(config)
    initialise(model, std=config.width**-0.5)
    return model


def _training(learning_rate: float, **others: Any) -> TrainingConfig:
    return TrainingConfig(learning_rate=learning_rate, warmup=0.1, clip=1.0, keep="last", device="cpu", **others)


# --- pruning ----------------------------------------------------------------------------------------------------------


def prune_both_ways(
    learner: Learner, batches: Sequence[Batch], score: Callable[[Learner], float], seed: int
) -> dict[str, dict[int, float]]:
    """Score by the number of heads that are left; importance is measured on `batches` anew before each removal."""

    def least(learner: Learner) -> tuple[str, int]:
        losses = (partial(_mean_loss, learner, batch) for batch in batches)
        ((name, (head,)),) = least_important(gradient_importance(learner.model, losses), 1).items()
        return name, head

    random = seeded(seed, "removal")

    def any_of(learner: Learner) -> tuple[str, int]:
        left = [(name, head) for name, each in heads_of(learner.model).items() for head in range(each.heads)]
        return left[int(torch.randint(len(left), (), generator=random))]

    return {way: prune(learner, choose, score) for way, choose in ((BY_IMPORTANCE, least), (AT_RANDOM, any_of))}


def prune(
    learner: Learner, choose: Callable[[Learner], tuple[str, int]], score: Callable[[Learner], float]
) -> dict[int, float]:
    """Take the chosen head out of a copy of the model, again and again, until none is left."""
    learner = copy.deepcopy(learner)
    attentions = heads_of(learner.model.eval())
    scores = {sum(each.heads for each in attentions.values()): score(learner)}
    while left := sum(each.heads for each in attentions.values()):
        name, head = choose(learner)
        attentions[name].remove_heads([head])
        scores[left - 1] = score(learner)
    return scores


def _mean_loss(learner: Learner, batch: Batch) -> Float[Tensor, ""]:
    return learner.metrics(batch)["loss"].mean()


# --- results ----------------------------------------------------------------------------------------------------------


def _best(task: str, trials: Trials) -> int:
    """The number of heads with the best mean score on validation data."""
    sign = -1 if task == GATHERING else 1
    return max(trials, key=lambda heads: sign * statistics.mean(trial.validation for trial in trials[heads]))


def _mean(trials: Sequence[HeadTrial]) -> float:
    return statistics.mean(trial.test for trial in trials)


def _results(options: HeadsOptions, trials: Mapping[str, Trials], splits: Splits) -> list[Result]:
    results: list[Result] = []
    for task, metric in ((GATHERING, "squared_error"), (PICTURES, "accuracy")):
        best, few = _best(task, trials[task]), min(trials[task])
        for heads in dict.fromkeys((best, few, *trials[task])):
            results.append(Result(f"{task}, {heads_in_words(heads)}", {metric: _mean(trials[task][heads])}))
        if task == GATHERING:
            results.insert(1, Result("gathering, always the mean", {metric: 1.0}))
            least = options.least_error(few, options.width // few)
            results.append(Result(f"gathering, {heads_in_words(few)}, least possible", {metric: least}, limit=True))
    for way, curve in pruning_curves(trials[PICTURES][options.pruned]).items():
        half, left = max(curve) // 2, max(curve) - max(curve) // 2
        name = f"pictures, {half} of {max(curve)} heads removed, {way}"
        results.append(Result(name, {"accuracy": statistics.mean(curve[left])}))
    return [*results, *baselines(splits)]


def _comparison(options: HeadsOptions, trials: Mapping[str, Trials]) -> HeadComparison:
    compared = sorted({heads for each in trials.values() for heads in each})
    return HeadComparison(
        scores={
            task: {heads: [trial.test for trial in each] for heads, each in of.items()} for task, of in trials.items()
        },
        best={task: _best(task, of) for task, of in trials.items()},
        least={heads: options.least_error(heads, options.width // heads) for heads in compared},
        parameters={
            task: {count_parameters(t.learner.model) for each in of.values() for t in each}
            for task, of in trials.items()
        },
        width=options.width,
        asked=options.asked,
        slots=options.slots,
        layers=options.layers,
    )


def _some_heads(options: HeadsOptions) -> list[int]:
    """At most three: the fewest, and those up to twice what is asked for."""
    few = [heads for heads in sorted(set(options.heads)) if heads <= 2 * options.asked]
    return sorted({*few[:1], *few[-2:]}) or [min(options.heads)]


@torch.no_grad()
def attention_shares(learner: Learner, options: HeadsOptions, seed: int) -> Float[Tensor, "head asked"]:
    batch = next(Queries(options, 1, seed, "shares").epoch(0))
    with record(learner.model) as tape:
        learner.model(batch["places"], batch["contents"])
    weights = tape.attention["attention"][:, :, 0]  # batch head slot
    places = batch["places"][:, None].expand(-1, weights.shape[1], -1)
    return weights.gather(2, places).mean(0)


def pruning_curves(trials: Sequence[HeadTrial]) -> dict[str, dict[int, list[float]]]:
    """By the order of removal, the scores of all repeats for each number of heads left."""
    return {
        way: {left: [trial.pruned[way][left] for trial in trials] for left in curve}
        for way, curve in trials[0].pruned.items()
    }


def _shown(task: str, score: float) -> str:
    return f"error {score:.3f}" if task == GATHERING else f"test accuracy {percent(score)}"


RECIPE = Recipe(HeadsOptions(), build, about="parts.multi_head")
