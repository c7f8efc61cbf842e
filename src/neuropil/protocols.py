"""What the rooms of the house expect of one another. No behaviour lives here.

`training` runs any `Learner` over any `Batches`; `models` provide the first, `data` the second, `recipes` join both.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from torch import Tensor
from torch.nn import Module, Parameter

Batch: TypeAlias = Mapping[str, Tensor]
"""Named tensors that share their first axis, for instance ``{"input": images, "target": labels}``."""

WEIGHT = "weight"
"""What a batch calls the weights of its examples, or of the steps of each, in the loss. Among metrics it is what the
mean of the loss is weighted by."""

OptimizerName: TypeAlias = Literal["sgd", "momentum", "rmsprop", "adam", "adamw", "muon"]

PADDING, START, END, UNKNOWN = range(4)
"""The special tokens with which every vocabulary begins."""


@dataclass(frozen=True)
class Phase:
    """One loss of a training step: its gradient is the learning rule for `parameters`. None: as the run has it."""

    name: str
    parameters: Mapping[str, Parameter]
    loss: Callable[[Batch], Tensor]
    optimizer: OptimizerName | None = None
    learning_rate: float | None = None
    every: int = 1
    """Played in each n-th update only."""
    denominator: Callable[[Batch], float] | None = None
    """What the loss of a batch was divided by, as the tokens of a mean over tokens: by it the losses of several batches
    are joined to the loss of all. None: the number of examples, or the sum of their weights."""


@runtime_checkable
class Learner(Protocol):
    """What the training loop can improve. Losses call the model itself, so that hooks and compilation reach them."""

    @property
    def model(self) -> Module:
        """What is trained and saved: its weights are all that the learner learns."""
        ...

    def phases(self) -> Sequence[Phase]:
        """The phases of one training step, in the order in which they are played."""
        ...

    def metrics(self, batch: Batch) -> Mapping[str, Tensor]:
        """One value per example under each name, of which evaluation takes the mean; that of the loss by the `WEIGHT`
        of each example, where it is there too. Changes nothing."""
        ...


@runtime_checkable
class StatefulLearner(Protocol):
    """A learner that carries a state from one training batch to the next: checkpoints hold it."""

    def state_dict(self) -> Mapping[str, Tensor]: ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...


@runtime_checkable
class ReplicatedState(Protocol):
    """A learner with a state of which some tensors are the same in all processes that train together. All others have a
    row for each stream, chain or example, and each process carries its own."""

    @property
    def replicated_state(self) -> Collection[str]:
        """Their names in the state."""
        ...


@runtime_checkable
class WholeBatchLearner(Protocol):
    """A learner whose loss compares the examples of a batch with one another, or is no mean over them. Where several
    processes have a share of each batch, training sets `whole`, and takes it away at the end."""

    whole: Callable[[Tensor], Tensor] | None
    """The rows of the whole batch, for rows of this process's share; gradients go back to where they came from. None,
    where a batch is whole."""


@runtime_checkable
class PenalizedLearner(Protocol):
    """A learner whose loss has an L1 penalty on the weights themselves, where `l1` is not 0."""

    @property
    def l1(self) -> float: ...


@runtime_checkable
class ScheduledLearner(Protocol):
    """A learner whose loss changes along the run, as a KL warm-up does."""

    def begin_update(self, share: float) -> None:
        """Called before each update with the share of the run that is done, from 0 to 1."""
        ...


@runtime_checkable
class WatchfulLearner(Protocol):
    """A learner that can tell what goes wrong from what validation measures."""

    def warning(self, metrics: Mapping[str, float]) -> str | None:
        """One sentence with the cure, or none. It is said once, from a quarter of the run on."""
        ...


@runtime_checkable
class StreamLearner(Protocol):
    """A learner whose metrics depend on the batches before: evaluation hands the carried state on, None at first."""

    def stream_metrics(self, batch: Batch, carried: Any) -> tuple[Mapping[str, Tensor], Any]: ...


@runtime_checkable
class Uncompilable(Protocol):
    """A model that torch.compile cannot speed up."""

    @property
    def cannot_compile(self) -> str:
        """Why; empty where it can, after all."""
        ...


@runtime_checkable
class FittedLearner(Protocol):
    """A learner whose model is fitted before it is trained: its first weights are validated too, and are kept if no
    later ones are better."""

    fitted_start: bool


@runtime_checkable
class Batches(Protocol):
    """Passes over a data set. A pass is a function of its number alone, so that a run can resume at any batch."""

    def __len__(self) -> int:
        """Batches in one pass."""
        ...

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of pass `number`, from batch `start` on."""
        ...


class ChunkLosses(NamedTuple):
    """Of some chunks: the sum of the losses of each, of how many examples, and how many words or rows were read."""

    totals: Sequence[float]
    examples: int
    read: int


@runtime_checkable
class ChunkLearner(Protocol):
    """A learner that makes its own updates in compiled code, many thousands in one call: a pass over its data is so
    many chunks, of which each is learned from with a learning rate of its own."""

    @property
    def model(self) -> Module: ...

    def __len__(self) -> int:
        """Chunks in one pass."""
        ...

    def learn(self, epoch: int, first: int, rates: Sequence[float]) -> ChunkLosses:
        """Update the model by a chunk for each of the rates, from chunk `first` of pass `epoch` on."""
        ...

    def metrics(self) -> Mapping[str, float]:
        """Of held-out data; nothing where there is none."""
        ...


@runtime_checkable
class PublishedWeights(Protocol):
    """A model whose weights are saved under the names of another library, which can open them too."""

    def published_state(self) -> Mapping[str, Tensor]:
        """Every tensor under its name there, as a view: what is written into it is in the model."""
        ...


@dataclass(frozen=True)
class ParallelPlan:
    """How a model is divided over devices, as names of its modules after `split_projections`."""

    blocks: Sequence[str]
    """The repeated ones: their weights are gathered, and their activations recomputed, a block at a time."""
    columns: Sequence[str]
    """Linear layers of which each device computes some outputs, …"""
    rows: Sequence[str]
    """… and those after them, of which each device is given some inputs; the sum over the devices is the output."""
    heads: Mapping[str, int]
    """Of the attention modules; each is computed on one device."""
    hidden: Mapping[str, int]
    """Units of the feed-forward networks."""
    parts: Mapping[str, Sequence[str]]
    """Parameters that `split_projections` divides, in equal parts of their rows."""


@runtime_checkable
class ParallelModel(Protocol):
    """A model whose weights can be divided over devices."""

    def parallel_plan(self) -> ParallelPlan: ...

    def split_projections(self) -> None:
        """One linear layer for each of query, key and value, so that each can be divided by heads."""
        ...
