"""A trained predictive coding network that classifies, and makes examples by running the other way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.data.examples.dataset import Examples, recorded_schema
from neuropil.errors import InputError
from neuropil.inspection.report.page import Section
from neuropil.models.predictive_coding.network import PredictiveCoding
from neuropil.randomness import seeded
from neuropil.sampling.predictive_coding import LayerNoise, ancestral_samples, fit_noise, require_down
from neuropil.tasks.classification.predictor import ExamplePredictor, recorded_units
from neuropil.tasks.generated_examples import as_data
from neuropil.tasks.generation import report
from neuropil.tasks.generation.predictor import ExampleSampler
from neuropil.tasks.generation.sample_scorer import SampleScorer
from neuropil.tasks.predictor import device_of
from neuropil.training.weights import read_tensors, write_tensors

NOISE_FILE = "prediction-errors.safetensors"
MOST_SETTLED = 2_000
"""Training examples whose errors are measured."""


@dataclass(frozen=True)
class GenerativeClassifier(ExamplePredictor, ExampleSampler):
    """`noise` is that of the prediction errors of each hidden layer."""

    noise: Sequence[LayerNoise] = ()

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        """With the noise that the run kept, or none where it was stopped before or makes no examples."""
        path = folder / NOISE_FILE
        tensors = read_tensors(path)[0] if path.exists() else {}
        noise = [LayerNoise(tensors[f"mean.{n}"], tensors[f"root.{n}"]) for n in range(len(tensors) // 2)]
        return cls(model, recorded_schema(facts, folder), recorded_units(facts), noise)

    @property
    def network(self) -> PredictiveCoding:
        return cast(PredictiveCoding, self.model)

    @property
    def conditional(self) -> bool:
        return bool(self.schema.classes)

    def draw(
        self, count: int, generator: torch.Generator, labels: Int64[Tensor, " count"] | None, **options: Any
    ) -> Float[Tensor, "count *shape"]:
        """Of random classes where none are asked for; of numbers, those that are normal around their mean."""
        require_down(self.network)
        if len(self.noise) != len(self.network.down) - 1:
            raise InputError(f"samples need {NOISE_FILE} of a finished run", got="none", fix="resume the run")
        if self.conditional:
            drawn = torch.randint(self.network.config.outputs, (count,), generator=generator)
            target = self.network.encode_target((drawn if labels is None else labels).to(device_of(self.model)))
        else:
            target = torch.randn(count, self.network.config.outputs, generator=generator)
        weight = self.network.standardize.mean
        noise = [LayerNoise(layer.mean.to(weight), layer.root.to(weight)) for layer in self.noise]
        return ancestral_samples(self.network, target.to(weight), noise, generator)


def measured_noise(model: PredictiveCoding, train: Examples, seed: int) -> list[LayerNoise]:
    """By some of the training examples; none where predictions go up alone."""
    if not model.down:
        return []
    some = train.take(torch.randperm(len(train), generator=seeded(seed, "noise"))[:MOST_SETTLED])
    device = device_of(model)
    return fit_noise(model, some.inputs.to(device), some.targets.to(device))


def save_noise(folder: Path, noise: Sequence[LayerNoise]) -> None:
    if noise:
        named = {f"{name}.{n}": each for n, layer in enumerate(noise) for name, each in layer._asdict().items()}
        write_tensors(folder / NOISE_FILE, named, {})


def samples_sections(model: PredictiveCoding, scorer: SampleScorer, noise: Sequence[LayerNoise]) -> list[Section]:
    """Samples and their scores, beside those of the one example that is expected of each class; none where predictions
    go up alone, by which an input is not determined."""
    if not noise:
        return []
    schema = scorer.splits.train.schema
    sampler, labels = GenerativeClassifier(model, schema, noise=noise), scorer.labels if schema.classes else None
    samples = sampler.sample_labels(scorer.count, seeded(scorer.seed, "samples"), labels)
    scores = {"samples": scorer.score(samples, labels)}
    if labels is not None:
        classes = torch.arange(len(schema.classes), device=device_of(model))
        expected = as_data(model.generate(classes), schema)[labels]
        scores["what it expects of each class"] = scorer.score(expected, labels)
    scores |= {result.name: result.metrics for result in scorer.compared()}
    return [
        report.samples_section(samples, schema, labels),
        report.scoring_section(scorer.extractor.about, scorer.count, scores),
    ]
