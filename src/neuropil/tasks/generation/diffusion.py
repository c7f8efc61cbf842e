"""A trained diffusion model and the schema of its data: from noise to pictures, in as many steps as there is time
for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.diffusion import Diffusion
from neuropil.sampling.diffusion import (
    DiffusionSamplingConfig,
    Estimate,
    Pictures,
    Predict,
    guided,
    trajectory,
)
from neuropil.tasks.generation.predictor import ExampleSampler
from neuropil.tasks.predictor import device_of


@dataclass(frozen=True)
class DiffusionSampler(ExampleSampler):
    options: ClassVar[tuple[str, ...]] = ("sampler", "steps", "eta", "guidance")

    @property
    def diffusion(self) -> Diffusion:
        return cast(Diffusion, self.model)

    @property
    def conditional(self) -> bool:
        return bool(self.diffusion.config.classes)

    def draw(
        self, count: int, generator: torch.Generator, labels: Int64[Tensor, " count"] | None, **options: Any
    ) -> Float[Tensor, "count *shape"]:
        *_, last = self.way(count, generator, labels, **options)
        return self.diffusion.pictures(last.x)

    def way(
        self, count: int, generator: torch.Generator, labels: Int64[Tensor, " count"] | None, **options: Any
    ) -> Iterator[Estimate]:
        """From x_T to x_0."""
        model, (predict, config) = self.diffusion, self._predict(labels, options)
        return trajectory(
            predict,
            self._noise(count, generator),
            model.schedule,
            config,
            prediction=model.config.prediction,
            variance=model.config.variance,
        )

    def _predict(
        self, labels: Int64[Tensor, " count"] | None, options: dict[str, Any]
    ) -> tuple[Predict, DiffusionSamplingConfig]:
        usual = DiffusionSamplingConfig()
        steps = min(usual.steps, self.diffusion.config.timesteps)
        config = usual.override(**{"steps": steps, **options})
        if labels is None:
            if "guidance" in options:
                fix = "name one (--class)" if self.conditional else "leave it out"
                raise InputError("guidance leads to a class", got="none", fix=fix)
            return lambda x, t: self.diffusion(x, t, None), config
        return guided(self.diffusion, labels.to(device_of(self.model)), config.guidance), config

    def _noise(self, count: int, generator: torch.Generator) -> Callable[[], Pictures]:
        """Drawn where the generator lives, so that a seed means the same on every device."""
        return lambda: torch.randn(count, *self.schema.shape, generator=generator).to(device_of(self.model))
