"""The experiment, written once: a learner, data in three parts, and how it is trained, evaluated and reported.

A task supplies its own ideas: how its parts become batches, what its model predicts, how that is scored and against
what, and what its report shows."""

import dataclasses
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from torch import Tensor

from neuropil.config import Config
from neuropil.data.copies import Key, save_hashes
from neuropil.data.splits import PartName
from neuropil.errors import InputError
from neuropil.inspection.report.page import Section
from neuropil.metrics import Metric, find_metric
from neuropil.parts.parameters import ParameterRow
from neuropil.protocols import Batches, Learner
from neuropil.tasks.report import learning_section, model_section
from neuropil.tasks.results import Result, headline
from neuropil.training.config import (
    TrainingConfig,
    pick_device,
    require_compilable,
    require_monitor,
    require_validation,
)
from neuropil.training.distributed.processes import World
from neuropil.training.evaluation import FirstBatch, evaluate
from neuropil.training.history import Row, Watch
from neuropil.training.loop import fit
from neuropil.training.previews import Preview

P = TypeVar("P")


@runtime_checkable
class Experiment(Protocol):
    """A run that is ready to start. `train` may be called again on the same folder: it goes on from where it
    stopped."""

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


@dataclass(frozen=True)
class Selection:
    """By what a model is chosen: a metric of the validation part, of the best weights or of the last."""

    metric: Metric
    keeps_best: bool

    def kept(self, values: Sequence[float]) -> float | None:
        """Of the weights that a run has kept after these validations; none where no value is a number."""
        if not self.keeps_best:
            return values[-1] if values and not math.isnan(values[-1]) else None
        best = None
        for value in values:
            best = value if self.metric.improves(value, best) else best
        return best


@runtime_checkable
class Tunable(Protocol):
    """An experiment whose hyper-parameters can be chosen on its validation part, without the test part."""

    @property
    def selection(self) -> Selection | None:
        """None without a validation part."""
        ...

    def train_model(self, folder: Path, *, title: str, show_progress: bool, watch: Watch | None = None) -> list[Row]:
        """Train, without what is compared with it; nothing of the test part is evaluated."""
        ...

    def own_result(self) -> Result:
        """Of the test part."""
        ...


@runtime_checkable
class Described(Protocol):
    """A model that knows its configuration, and its parameter counts by formula."""

    config: Config

    def parameter_table(self) -> Sequence[ParameterRow]: ...


@dataclass(frozen=True)
class Ablation:
    """A second learner, trained on the same batches for as many passes, whose scores stand beside the run's own. A time
    limit is divided between both, by what their passes take."""

    name: str
    learner: Learner


class TrainableExperiment(ABC, Generic[P]):
    """`P` is what the model predicts of the whole test part."""

    def __init__(
        self,
        learner: Learner,
        parts: Mapping[str, Sized],
        training: TrainingConfig,
        seed: int,
        name: str,
        source: str,
        notes: Sequence[str] = (),
        *,
        scorer: Learner | None = None,
        ablation: Ablation | None = None,
    ):
        """`source` says where the data is from, `notes` what is odd about it; `scorer` measures the test part, if not
        the learner."""
        self.learner, self.parts, self.training = learner, parts, training
        self.seed, self.name, self.source = seed, name, source
        self.notes = [*notes, training.fitted] if training.fitted else notes
        self.scorer, self.ablation = scorer or learner, ablation
        self.device, self.world = pick_device(training.device), World()
        self.model = learner.model.to(self.device)
        if ablation is not None:
            ablation.learner.model.to(self.device)
        # All before a run folder is made.
        require_parts(parts)
        require_validation(training, parts["validation"])
        require_compilable(training, self.model)
        require_monitor(training, evaluate(self.learner, FirstBatch(self.validation_batches, examples=1)))

    # --- what a task supplies -----------------------------------------------------------------------------------------

    @abstractmethod
    def batches(self, part: PartName) -> Batches:
        """Shuffled and augmented for training, in order otherwise."""

    @abstractmethod
    def predict_test(self, learner: Learner) -> P:
        """What a learner's model, as it is now, predicts of the test part."""

    def require_scorable(self) -> None:
        """Before a run is trained: refuse what could not be scored afterwards."""

    def scoring_seconds(self) -> float:
        """What scoring takes beside passes over the parts, about: measured before training, for a time limit."""
        return 0.0

    @abstractmethod
    def score(self, learner: Learner, predictions: P) -> dict[str, float]: ...

    @abstractmethod
    def baselines(self) -> Sequence[Result]: ...

    @abstractmethod
    def own_sections(self) -> Sequence[Section]:
        """The report's sections on what the model predicts, and what is inside it."""

    @abstractmethod
    def data_section(self) -> Section: ...

    def preview(self) -> Preview | None:
        """What the model, as it is now, makes of a few examples that it does not learn from: always the same ones."""
        return None

    @abstractmethod
    def fingerprinted(self) -> Iterable[Tensor]:
        """The numbers by which the data is known again."""

    @abstractmethod
    def training_keys(self) -> Iterable[Key]:
        """Of the examples to learn from: by them a run tells whether it is scored on one of them later."""

    def own_facts(self) -> dict[str, Any]:
        """What a predictor must know beside the model's configuration."""
        return {}

    def idle_options(self) -> Mapping[str, str]:
        """By their names, options that have no effect on this data, and what it is."""
        return {}

    def save(self, folder: Path) -> None:
        """Write what a predictor needs beside the weights and the facts, such as a tokenizer."""

    def calibrate(self, folder: Path) -> None:
        """Fit to the validation part what depends on the trained model, and write it beside the weights."""

    # --- what all tasks share -----------------------------------------------------------------------------------------

    @property
    def model_config(self) -> Config:
        return cast(Described, self.model).config

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "source": self.source,
            "notes": list(self.notes),
            **self.own_facts(),
            "fingerprint": fingerprint(self.fingerprinted()),
        }

    @property
    def training_batches(self) -> Batches:
        return self.batches("train")

    @property
    def watched_part(self) -> PartName:
        """What the model is looked at on while it learns."""
        return "validation" if len(self.parts["validation"]) else "test"

    @property
    def validation_batches(self) -> Batches:
        """Of the validation part, or of the test part where there is none."""
        return self.batches(self.watched_part)

    @property
    def selection(self) -> Selection | None:
        chosen = Selection(find_metric(self.training.monitor), self.training.keeps_best)
        return chosen if len(self.parts["validation"]) else None

    def train_model(self, folder: Path, *, title: str, show_progress: bool, watch: Watch | None = None) -> list[Row]:
        """Without the ablation."""
        if self.world.first:
            self.save(folder)
            save_hashes(folder, self.training_keys())
        rows = self._fit(self.learner, self.training_batches, self.training, folder, title, show_progress, watch)
        if self.world.first:
            self.calibrate(folder)
        return rows

    def train(self, folder: Path, *, show_progress: bool) -> None:
        rows = self.train_model(folder, title=self.name, show_progress=show_progress)
        if self.ablation is not None:
            passes = math.ceil(max(row["epoch"] for row in rows if row["kind"] == "train"))
            limit = {"seconds": self.training.ablation_seconds}
            length = {"epochs": passes, "minutes": None, "seconds": None} if limit["seconds"] is None else limit
            keep = "best" if self.training.keeps_best else "last"
            training = dataclasses.replace(self.training, patience=None, keep=keep, **length)
            other, batches = self.ablation, self.batches("train")
            self._fit(other.learner, batches, training, folder / "ablation", other.name, show_progress)

    @cached_property
    def predictions(self) -> P:
        """Of the trained model; `own_result` predicts anew, for a model that was changed."""
        return self.predict_test(self.learner)

    def own_result(self) -> Result:
        return Result(self.name, self.score(self.learner, self.predict_test(self.learner)))

    def evaluate(self) -> list[Result]:
        """Of the trained model, then of the ablation and the baselines, the strongest first."""
        own = Result(self.name, self.score(self.learner, self.predictions))
        others = [*self.ablation_results(), *self.baselines()]
        metric = headline([own, *others])
        if metric is None:
            return [own, *others]

        def weakness(other: Result) -> tuple[bool, float]:
            value = other.metrics.get(metric.name, math.nan)
            return other.limit, math.inf if math.isnan(value) else -value if metric.better == "higher" else value

        return [own, *sorted(others, key=weakness)]

    def ablation_results(self) -> list[Result]:
        if self.ablation is None:
            return []
        learner = self.ablation.learner
        return [Result(self.ablation.name, self.score(learner, self.predict_test(learner)))]

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return [
            learning_section(history, self.training),
            *self.own_sections(),
            model_section(cast(Described, self.model).parameter_table(), self.model),
            self.data_section(),
        ]

    def _fit(
        self,
        learner: Learner,
        batches: Batches,
        training: TrainingConfig,
        folder: Path,
        title: str,
        show_progress: bool,
        watch: Watch | None = None,
    ) -> list[Row]:
        validation = self.batches("validation") if len(self.parts["validation"]) else None
        options = {"seed": self.seed, "folder": folder, "title": title, "show_progress": show_progress}
        preview = self.preview if learner is self.learner else None
        return fit(learner, batches, validation, training, **options, watch=watch, preview=preview, world=self.world)


def require_parts(parts: Mapping[str, Sized]) -> None:
    for name in ("train", "test"):
        if not len(parts[name]):
            rule = "there must be examples for the training part and others for the test part"
            fix = "give more data; copies of an example are always in one part"
            raise InputError(rule, got=f"none for the {name} part", fix=fix)


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """Changes when any number of any tensor does: by it a run knows whether its data is still what it was started
    with."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()[:16]
