"""Reconstruction: a model that keeps of an example what fits through a bottleneck, and decodes it again."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from jaxtyping import Float
from torch import Tensor

from neuropil.data.augmentation import Augment
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples
from neuropil.data.splits import PartName, Splits
from neuropil.inspection.report.page import Section
from neuropil.protocols import Learner
from neuropil.tasks import preview
from neuropil.tasks.classification.predictor import in_order
from neuropil.tasks.classification.report import data_section
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.tasks.reconstruction import report
from neuropil.tasks.reconstruction.predictor import Reconstructor
from neuropil.tasks.reconstruction.scores import PrincipalComponents, probe_accuracy, some, squared_errors
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.previews import Preview


class ReconstructionExperiment(TrainableExperiment[Float[Tensor, "example latent"]]):
    """`predictions` are the codes of the test part."""

    def __init__(
        self,
        learner: Learner,
        splits: Splits[Examples],
        training: TrainingConfig,
        *,
        latent: int,
        seed: int,
        name: str,
        augment: Augment | None = None,
        inside: Callable[[], Sequence[Section]] = list,
        require: Callable[[], None] = lambda: None,
    ):
        """`latent` is the size of a code, `inside` makes the report's sections on what is in the model, and `require`
        refuses what no score would say anything about."""
        self.require = require
        self.splits, self.schema, self.latent, self.inside = splits, splits.train.schema, latent, inside
        self.augment = augment if self.schema.kind == "image" else None
        super().__init__(learner, splits.parts, training, seed, name, splits.train.source, splits.notes)

    def own_facts(self) -> dict[str, Any]:
        return {"schema": self.schema.to_dict()}

    def training_keys(self) -> list[bytes]:
        return self.splits.train.keys

    def fingerprinted(self) -> Iterable[Tensor]:
        return (tensor for part in self.splits.parts.values() for tensor in (part.inputs, part.targets))

    def batches(self, part: PartName) -> ExampleBatches:
        if part != "train":
            return in_order(self.splits.parts[part], self.device)
        size, augment = self.training.batch_size, self.augment
        return ExampleBatches(self.splits.train, size, self.seed, shuffle=True, augment=augment, device=self.device)

    def preview(self) -> Preview:
        """Examples, encoded and decoded again."""
        shown = preview.spread(self.splits.parts[self.watched_part]).inputs
        made = self.reconstructor.as_data(self.reconstructor.decoded(shown))
        return preview.examples(made, self.schema, originals=shown)

    def require_scorable(self) -> None:
        self.require()

    # --- codes, and what they are worth -------------------------------------------------------------------------------

    def predict_test(self, learner: Learner) -> Float[Tensor, "example latent"]:
        return Reconstructor(learner.model, self.schema).encode(self.splits.test.inputs)

    def score(self, learner: Learner, predictions: Float[Tensor, "example latent"]) -> dict[str, float]:
        model, test = Reconstructor(learner.model, self.schema), self.splits.test
        errors = squared_errors(model.coder.unit_range, test.inputs, model.decode(predictions))
        probed = probe_accuracy(model.encode(self.some.inputs), self.some, predictions, test)
        return {"reconstruction_error": float(errors.mean()), **probed, **evaluate(learner, self.batches("test"))}

    @cached_property
    def some(self) -> Examples:
        return some(self.splits.train, self.seed)

    @property
    def reconstructor(self) -> Reconstructor:
        return Reconstructor(self.model, self.schema)

    def unit(self, examples: Examples) -> Float[Tensor, "example *shape"]:
        return self.reconstructor.coder.unit_range(examples.inputs.to(self.device)).cpu()

    @cached_property
    def components(self) -> PrincipalComponents:
        return PrincipalComponents.fit(self.unit(self.some), self.latent)

    def baselines(self) -> list[Result]:
        test, scale = self.splits.test, self.reconstructor.coder.unit_range
        linear, unit = self.components, self.unit(test)
        errors = squared_errors(scale, test.inputs, linear.reconstruct(unit))
        probed = probe_accuracy(linear.codes(self.unit(self.some)), self.some, linear.codes(unit), test)
        mean = squared_errors(scale, test.inputs, self.unit(self.some).mean(0, keepdim=True).expand_as(unit))
        note = f" (on {len(self.some):,} examples)" if len(self.some) < len(self.splits.train) else ""
        return [
            Result(
                f"PCA with {len(linear.directions)} components{note}",
                {"reconstruction_error": float(errors.mean()), **probed},
            ),
            Result("the mean of all examples", {"reconstruction_error": float(mean.mean())}),
        ]

    # --- report -------------------------------------------------------------------------------------------------------

    def own_sections(self) -> list[Section]:
        test, codes = self.splits.test, self.predictions
        shown = test.take(report.chosen(test))
        found = {
            "reconstruction": self.reconstructor.decoded(shown.inputs),
            f"PCA, {len(self.components.directions)} components": self.components.reconstruct(self.unit(shown)),
        }
        made = {name: self.reconstructor.as_data(unit) for name, unit in found.items()}
        return [
            report.reconstructions_section(shown, made),
            report.codes_section(codes, test),
            *self.inside(),
        ]

    def data_section(self) -> Section:
        return data_section(self.splits.parts, self.augment, self.notes)
