"""What a plan must know of a model: how many weights it has and where, what a batch leaves for the backward pass, and
how much it computes.

    gpt2, gpt2-medium, gpt2-large, gpt2-xl     by formula: the model is built without numbers
    any system that `neuropil list` shows      built here, at the sizes that are given, and measured in a few updates
"""

import dataclasses
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from neuropil import recipes
from neuropil.config import Config, option
from neuropil.errors import InputError, nearest
from neuropil.memory import BoundedModel, refused_memory
from neuropil.models.gpt2 import GPT2, SIZES, GPT2Config
from neuropil.parts.losses import LOGITS_AT_ONCE, PRODUCT_AT_ONCE
from neuropil.protocols import Batch, Batches, OptimizerName
from neuropil.recipes.gpt2 import OWN_DATA
from neuropil.runs.plan.live_bytes import LiveBytes
from neuropil.runs.planned import PlannedRun
from neuropil.tasks.experiment import TrainableExperiment
from neuropil.tasks.recipe import Recipe
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed.shares import num_examples
from neuropil.training.distributed.strategy import MOMENTS, state_bytes
from neuropil.training.loop import seconds_per_update

PLACEHOLDER = "YOUR-TEXTS"
PUBLISHED = {"gpt2": "small", "gpt2-medium": "medium", "gpt2-large": "large", "gpt2-xl": "xl"}
MEASURED_SECONDS = 2.0
SINGLE = 4
"""Bytes of a number in float32."""


class PublishedConfig(Config):
    """Of a published size of GPT-2, trained as `train gpt2` does on a user's texts, but with larger batches and a lower
    learning rate: that one's model is small."""

    data: tuple[Path, ...] = option(
        (), f"your own texts, for the command that is printed; without them it says {PLACEHOLDER}, to be replaced"
    )
    model: GPT2Config = GPT2Config()
    vocabulary_size: int = option(50_257, "vocabulary size", low=1)
    training: TrainingConfig = dataclasses.replace(
        OWN_DATA.training, batch_size=64, learning_rate=TrainingConfig().learning_rate
    )

    def command_options(self) -> tuple[Config, Config]:
        """The defaults of `train gpt2` for a user's texts, and what it must be given for this."""
        values = {each.name: each.default for each in self.options()}
        return OWN_DATA, OWN_DATA.override(**values | {"data": self.data or (Path(PLACEHOLDER),)})


@dataclasses.dataclass(frozen=True)
class TransformerShape:
    """A decoder of equal blocks whose loss never holds all logits: `NextTokenInWindow` of `GPT2`. Numbers of
    parameters are those of all, of one block, of what of a block tensor parallelism divides, and of its matrices."""

    parameters: int
    block: int
    divided: int
    matrices: int
    layers: int
    width: int
    heads: int
    feed_forward: int
    context: int
    vocabulary: int
    dropout: float
    mask_bytes: int = 1
    """Of a dropout mask: CUDA keeps a byte for each number, a CPU a number."""

    @classmethod
    def of(cls, config: GPT2Config, *, mask_bytes: int = 1) -> "TransformerShape":
        with torch.device("meta"), BoundedModel(bytes_each=0):  # it has no numbers, and so fits
            model = GPT2(config)
        rows = {row.name: row.count for row in model.parameter_table()}
        d, f = config.width, config.feed_forward_size
        matrices = 4 * d * d + 2 * d * f
        return cls(
            parameters=sum(rows.values()),
            block=rows["blocks.0"],
            divided=matrices + 3 * d + f,  # and the biases of what is divided by columns
            matrices=matrices,
            layers=config.layers,
            width=d,
            heads=config.heads,
            feed_forward=f,
            context=config.context,
            vocabulary=config.vocabulary_size,
            dropout=config.dropout,
            mask_bytes=mask_bytes,
        )

    def moments(self, optimizer: OptimizerName, tensor: int) -> float:
        """Numbers that an optimiser keeps for a model whose layers are divided."""
        matrices = self.layers * self.matrices / tensor if optimizer == "muon" else 0.0
        others = self.parameters - self.layers * self.divided * (1 - 1 / tensor) - matrices
        return MOMENTS[optimizer] * matrices + MOMENTS["adamw" if optimizer == "muon" else optimizer] * others

    @property
    def outside(self) -> int:
        """Parameters of no block."""
        return self.parameters - self.layers * self.block

    @property
    def tables(self) -> int:
        """Of the matrix that makes the logits."""
        return self.vocabulary * self.width

    def block_bytes(self, number: int, tensor: int) -> float:
        """What a token leaves in a block for its backward pass, where numbers have so many bytes: the inputs of both
        norms and of both first matrices, which are whole on every device; queries, keys, values, what attention mixed
        with its normaliser, and the feed-forward network before and after its activation, which are divided."""
        d, f = self.width, self.feed_forward
        whole = 2 * SINGLE * d + 2 * number * d + 4 * SINGLE
        masks = 2 * self.mask_bytes * d if self.dropout else 0
        return whole + masks + (4 * number * d + 2 * number * f + SINGLE * self.heads) / tensor

    def ends_bytes(self) -> int:
        """What a token leaves outside the blocks: two token numbers, the input of the last norm, and the gradient of
        its output, which the loss makes in the forward pass."""
        mask = self.mask_bytes * self.width if self.dropout else 0
        return 16 + 2 * SINGLE * self.width + 2 * SINGLE + mask

    def logits_bytes(self, tokens: int, number: int, *, gathered: bool = False) -> int:
        """Of the piece of logits that is there at once, and its hidden vectors scaled. In half precision the product,
        what is made single of it and the errors that are made half again, all hidden vectors and the matrix, and, where
        weights are not gathered in it, a piece of a product to add to the gradient."""
        at_once = min(tokens, max(1, LOGITS_AT_ONCE // self.vocabulary))
        piece = SINGLE * self.vocabulary + number * self.width
        if number == SINGLE:
            return at_once * piece
        added = 0 if gathered else min(self.tables, PRODUCT_AT_ONCE)
        halves = at_once * 2 * self.vocabulary + tokens * self.width + self.tables + added
        return at_once * piece + number * halves

    def flops(self, tokens: int, tensor: int, *, recompute: bool) -> float:
        """Of an update: two for each weight and token forward, four backward, two once more where blocks are computed
        again; attention scores every pair of tokens and mixes them."""
        each = 2 * (self.matrices + 2 * self.context * self.width)
        return tokens * ((4 if recompute else 3) * self.layers * each / tensor + 6 * self.tables)


@dataclasses.dataclass(frozen=True)
class MeasuredShape:
    """Any other model, for one device: what an example needs beside weights, gradients and moments, and what it
    computes."""

    parameters: int
    moments: int
    """Bytes that the optimiser keeps."""
    example_bytes: float
    example_flops: float


def published_options(name: str) -> PublishedConfig:
    return PublishedConfig(model=SIZES[PUBLISHED[name]])


def system_recipe(name: str) -> Recipe:
    """Of a system that is trained."""
    if name not in (systems := [each.name for each in recipes.SYSTEMS]):
        rule = "a plan is for a published size of GPT-2 or a system of `neuropil list`"
        raise InputError(rule, got=f"{name!r}", fix=nearest(name, [*PUBLISHED, *systems]))
    return recipes.recipe_for("train", name)


def transformer(options: PublishedConfig) -> TransformerShape:
    return TransformerShape.of(dataclasses.replace(options.model, vocabulary_size=options.vocabulary_size))


def measured(plan: PlannedRun) -> tuple[MeasuredShape, TrainingConfig]:
    """A system with its options, and how it is trained."""
    training = getattr(plan.typed, "training", None)
    if not isinstance(training, TrainingConfig):
        fix = f"choose from {', '.join(PUBLISHED)}, or another system"
        raise InputError("a plan is for a model that is trained by gradient steps", got=f"{plan.name!r}", fix=fix)
    with refused_memory():
        experiment = cast(TrainableExperiment[Any], plan.recipe.build(plan.typed, 0))
        model, batches = experiment.model, CountedBatches(experiment.training_batches)
        own = [*model.parameters(), *model.buffers()]
        count = sum(parameter.numel() for parameter in model.parameters())
        counter = FlopCounterMode(display=False)
        counter.mod_tracker = cast(ModuleTracker, EveryModule())
        with counter:
            seconds_per_update(experiment.learner, batches, training, most_seconds=1e-9)  # one
        flops = counter.get_total_flops() / sum(batches.examples)
        with LiveBytes(own) as live:
            seconds_per_update(experiment.learner, batches, training, most_seconds=MEASURED_SECONDS)
    states = state_bytes(model, training)
    moments = states - SINGLE * count * (2 + bool(training.average))
    # Where a batch is bounded by its tokens, batch_size is the mean, and one of short texts has more rows.
    largest = min(training.batch_size, max(batches.examples))
    return MeasuredShape(count, moments, max(0, live.peak - states) / largest, flops), training


class EveryModule(nullcontext[None]):
    """In place of what tells the counter in which module it is: its hooks fail at a gradient of a gradient."""

    parents = ("Global",)


class CountedBatches:
    """Data may have fewer examples than a batch is to have."""

    def __init__(self, batches: Batches):
        self.batches, self.examples = batches, list[int]()

    def __len__(self) -> int:
        return len(self.batches)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for batch in self.batches.epoch(number, start):
            self.examples.append(num_examples(batch))
            yield batch
