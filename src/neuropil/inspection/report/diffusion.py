"""Sections on a diffusion model: the way from noise to a picture, and its noise schedule."""

from collections.abc import Sequence

import torch
from torch import Tensor

from neuropil.inspection.pictures.diffusion import noise_schedule, strips
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Picture, Section, Text
from neuropil.models.diffusion import Diffusion

SHOWN = 9
"""Times of a strip, evenly spaced among the steps."""


def strip_section(model: Diffusion, times: Sequence[int], states: Sequence[Tensor], names: Sequence[str]) -> Section:
    """`states` are x_t at each of the times, for each of the examples that are followed."""
    chosen = torch.linspace(0, len(times) - 1, min(SHOWN, len(times))).round().long().tolist()
    pictures = [[_shown(model, states[place][row]) for place in chosen] for row in range(len(states[0]))]
    figure = strips(pictures, [f"t = {times[place]}" for place in chosen], names)
    words = f"Sampling begins with noise, at t = {times[0]}, and takes it away step by step."
    return Section("From noise to pictures", [Text(words), Picture.of(figure, alt="x_T to x_0 of several samples")])


def schedule_section(model: Diffusion) -> Section:
    schedule = model.schedule
    figure = noise_schedule(schedule.alpha_bar, model.bound_weights)
    words = (
        f"The {model.config.beta_schedule} schedule of {schedule.timesteps:,} steps: the share of the picture's "
        "variance that is left, and the weight λ of each step in the bound on the likelihood. The simple loss has the "
        f"weight 1 everywhere. This model was trained by the {model.config.loss} loss, and predicts "
        f"{model.config.prediction}."
    )
    return Section("Noise schedule", [Text(words), Picture.of(figure, alt="noise schedule and weights of the bound")])


def _shown(model: Diffusion, x: Tensor) -> Tensor:
    picture = model.pictures(x[None].to(model.unit_range.low.device))[0]
    return torch.from_numpy(pixels(picture.round().clamp(0, 255).to(torch.uint8).cpu()))
