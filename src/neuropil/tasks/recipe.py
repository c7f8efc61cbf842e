"""What a recipe is: the one place where data, model, training, evaluation and pictures are joined into a complete run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from neuropil.config import Config
from neuropil.inspection.report.page import Section
from neuropil.protocols import Batches, Learner
from neuropil.training.history import Row

Verb: TypeAlias = Literal["train", "simulate"]


@dataclass(frozen=True)
class Result:
    """One line of the table that a run ends with: the trained model first, then what it is compared with."""

    name: str
    metrics: Mapping[str, float]


@runtime_checkable
class Experiment(Protocol):
    """A run that is ready to start. `train` may be called again on the same folder: it goes on from where it stopped."""

    def facts(self) -> dict[str, Any]:
        """What `config.json` must hold beside the options, as plain JSON values."""
        ...

    def train(self, folder: Path, *, show_progress: bool) -> None: ...

    def evaluate(self) -> Sequence[Result]:
        """Scores on data that training has not seen, the run's own first."""
        ...

    def sections(self, history: Sequence[Row]) -> Sequence[Section]:
        """The report's pictures and tables."""
        ...


@runtime_checkable
class Teaching(Experiment, Protocol):
    """An experiment with one model and one learner, which can be looked into and changed."""

    model: nn.Module
    model_config: Config

    @property
    def learner(self) -> Learner: ...

    @property
    def training_batches(self) -> Batches: ...

    @property
    def validation_batches(self) -> Batches:
        """Of the validation part, or of the test part where there is none."""
        ...

    def own_result(self) -> Result:
        """The first of `evaluate`, without what it is compared with."""
        ...


@dataclass(frozen=True)
class Predictions:
    """`scores` are probabilities over `classes`, or, where there are no classes, the predicted values."""

    scores: Float[Tensor, "example output"]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def labels(self) -> list[str]:
        """The most probable class of each input."""
        return [self.classes[index] for index in self.scores.argmax(-1).tolist()]

    @property
    def values(self) -> Float[Tensor, " example"]:
        """The predicted value of each input, for regression."""
        return self.scores[:, 0]

    def lines(self) -> list[list[str]]:
        if not self.classes:
            return [[f"{value:.6g}"] for value in self.values.tolist()]
        best = self.scores.topk(min(3, len(self.classes)))
        return [
            [f"{self.classes[index]} {100 * share:.1f} %" for share, index in zip(shares, indices, strict=True)]
            for shares, indices in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]


@runtime_checkable
class Answers(Protocol):
    def __len__(self) -> int: ...

    def lines(self) -> list[list[str]]:
        """For each input the cells of one printed line."""
        ...


@runtime_checkable
class Trained(Protocol):
    """A model that came out of a run, with what is needed to use it on raw inputs."""

    @property
    def model(self) -> nn.Module: ...

    def predict(self, inputs: Any) -> Answers: ...

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]:
        """Inputs from files of the user's, and a name for each."""
        ...

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        """Scores on files with the right answers."""
        ...


@dataclass(frozen=True)
class Recipe:
    """`options` are the defaults, and `own_data` those for a user's data, where they differ; `build` joins everything; `restore` makes a
    usable model from a run's facts and folder, where there is one. `verb` is the command that starts it; what is simulated learns
    nothing."""

    options: Config
    build: Callable[[Any, int], Experiment]
    restore: Callable[[Mapping[str, Any], Path], Trained] | None = None
    own_data: Config | None = None
    verb: Verb = "train"

    def defaults(self, *, own_data: bool) -> Config:
        return self.own_data if own_data and self.own_data is not None else self.options
