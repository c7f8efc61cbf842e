"""A trained diffusion model and the schema of its data: from noise to pictures, in as many steps as there is time
for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.diffusion import Diffusion
from neuropil.sampling.diffusion import (
    DiffusionSamplingConfig,
    Estimate,
    Pictures,
    Predict,
    guided,
    sampling_times,
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
        return self._way(self._noise(count, generator), None, labels, options)

    def way_back(
        self,
        pictures: Num[Tensor, "count *shape"],
        t: int,
        generator: torch.Generator,
        labels: Int64[Tensor, " count"] | None,
        **options: Any,
    ) -> Iterator[Estimate]:
        """From pictures with the noise of the time t to x_0, by those steps that come after it."""
        schedule = self.diffusion.schedule
        if not 1 <= t <= schedule.timesteps:
            raise InputError(f"noise is added up to a time from 1 to {schedule.timesteps}", got=f"{t}")
        noise = self._noise(len(pictures), generator)
        x0 = self.diffusion.scaled(pictures.to(device_of(self.model)))
        x = schedule.add_noise(x0, noise(), torch.full((len(x0),), t))
        draws = chain([x], (noise() for _ in count()))  # the first are x_t
        return self._way(lambda: next(draws), t, labels, options)

    def _way(
        self,
        noise: Callable[[], Pictures],
        begin: int | None,
        labels: Int64[Tensor, " count"] | None,
        options: dict[str, Any],
    ) -> Iterator[Estimate]:
        model, (predict, config) = self.diffusion, self._predict(labels, options)
        times = sampling_times(model.config.timesteps, config.steps, config.spacing)
        return trajectory(
            predict,
            noise,
            model.schedule,
            config,
            prediction=model.config.prediction,
            variance=model.config.variance,
            times=times if begin is None else [begin, *(time for time in times if time < begin)],
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
