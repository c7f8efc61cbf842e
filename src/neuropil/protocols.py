"""What the rooms of the house expect of one another. No behaviour lives here.

`training` runs any `Learner` over any `Batches`; `models` provide the first, `data` the second, and `recipes` join them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from torch import Tensor
from torch.nn import Module, Parameter

Batch: TypeAlias = Mapping[str, Tensor]
"""Named tensors that share their first axis, for instance ``{"input": images, "target": labels}``."""


PADDING, START, END, UNKNOWN = range(4)
"""The tokens with which every vocabulary begins: batches are filled up with the first, texts stand between the next two."""


@dataclass(frozen=True)
class Phase:
    """One game of a training step: the gradient of `loss` is the learning rule for `parameters`."""

    name: str
    parameters: Mapping[str, Parameter]
    loss: Callable[[Batch], Tensor]


@runtime_checkable
class Learner(Protocol):
    """Something that the training loop can improve."""

    @property
    def model(self) -> Module:
        """What is trained and saved: its weights are all that the learner learns."""
        ...

    def phases(self) -> Sequence[Phase]:
        """The games of one training step, in the order in which they are played."""
        ...

    def metrics(self, batch: Batch) -> Mapping[str, Tensor]:
        """One value per example under each name; whoever evaluates takes the mean over the data."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A learner that carries something from one batch to the next, which is then saved with the weights wherever a run may go on from."""

    def memory(self) -> Mapping[str, Tensor]: ...

    def recall(self, memory: Mapping[str, Tensor]) -> None:
        """Carry on with what `memory` gave."""
        ...


@runtime_checkable
class Batches(Protocol):
    """Passes over a data set. A pass is a function of its number alone, so that a run can go on from any batch of it."""

    def __len__(self) -> int:
        """Batches in one pass."""
        ...

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of pass `number`, from batch `start` on."""
        ...


@runtime_checkable
class Shared(Protocol):
    """A model whose weights are kept as another library keeps them, so that it can be opened there too."""

    def published_state(self) -> Mapping[str, Tensor]:
        """Every tensor under its name there, as a view: what is written into it is in the model."""
        ...
