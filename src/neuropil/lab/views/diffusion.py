"""Diffusion as a film: x_t and the predicted x_0 at each step of sampling, from noise or from a picture with noise."""

import time
from collections.abc import Iterator
from typing import Any

import torch

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.lab.pictures import PictureRequest, chosen_picture, offered, rounded, rows_of
from neuropil.lab.sessions import Sessions
from neuropil.randomness import seeded
from neuropil.runs.run import Run
from neuropil.sampling.diffusion import Estimate, SamplerName
from neuropil.tasks.generation.diffusion import DiffusionSampler

COUNT = 4
"""Pictures that are made at once."""
SECONDS = 0.06
"""That one answer takes, or the time of one step where that is longer: the rest is asked for piece by piece."""
POINTS = 101
"""Of the curve of the schedule."""
LONGEST = 200
Film = Iterator[Estimate]
films: Sessions[Film] = Sessions(limit=16)


class FilmRequest(PictureRequest):
    session: str = option("", "name of the film, by which more of it is asked for")
    sampler: SamplerName = option("dpm_solver", "sampler")
    steps: int = option(20, "sampling steps", low=1, high=250)
    label: str = option("", "class; empty for any")
    guidance: float = option(1.0, "scale of classifier-free guidance", low=0, high=20)
    eta: float = option(0.0, "η of DDIM", low=0, high=1)
    seed: int = option(0, "seed of the noise", low=0, high=10**9)
    noised: int = option(
        0, "time up to which noise is added to the picture; 0: begin at noise alone", low=0, high=1_000_000
    )

    def validate(self) -> None:
        super().validate()
        if max(len(self.session), len(self.label)) > LONGEST:
            got = f"{len(self.session)} and {len(self.label)}"
            raise InputError(f"a session and a class have names of at most {LONGEST} characters", got=got)


class MoreRequest(Config):
    session: str = option("", "name of the film")

    def validate(self) -> None:
        if len(self.session) > LONGEST:
            raise InputError(f"a session has a name of at most {LONGEST} characters", got=f"{len(self.session)}")


def open_view(run: Run) -> dict[str, Any]:
    sampler: DiffusionSampler = run.predictor
    schedule = sampler.diffusion.schedule
    times = torch.linspace(0, schedule.timesteps, POINTS).round().long()
    signal = schedule.alpha_bar[times]
    steps = min(FilmRequest().steps, schedule.timesteps)
    return {
        "system": run.name,
        **offered(run),
        "classes": list(sampler.schema.classes) if sampler.conditional else [],
        "timesteps": schedule.timesteps,
        "steps": steps,
        "most_steps": min(250, schedule.timesteps),
        "schedule": {"t": times.tolist(), "signal": rounded(signal.sqrt()), "noise": rounded((1 - signal).sqrt())},
    }


def film(run: Run, request: FilmRequest) -> dict[str, Any]:
    """Its first frames."""
    sampler: DiffusionSampler = run.predictor
    options: dict[str, Any] = {"sampler": request.sampler, "steps": request.steps, "eta": request.eta}
    labels = None
    if request.label:
        labels = torch.full((COUNT,), sampler.class_number(request.label))
        options["guidance"] = request.guidance
    generator = seeded(request.seed, "film")
    if request.noised:
        pictures = chosen_picture(run, request).repeat(COUNT, 1, 1, 1)
        way = sampler.way_back(pictures, request.noised, generator, labels, **options)
    else:
        way = sampler.way(COUNT, generator, labels, **options)
    films.put(_name(run, request.session), way)
    return piece(sampler, way)


def more(run: Run, request: MoreRequest) -> dict[str, Any]:
    def unknown() -> Film:
        raise InputError("a film goes on that was begun", got="one that is no longer kept", fix="begin it again")

    return piece(run.predictor, films.get(_name(run, request.session), unknown))


def piece(sampler: DiffusionSampler, way: Film) -> dict[str, Any]:
    """The next frames, as many as come in a short time."""
    frames, began = [], time.monotonic()
    for estimate in way:
        x, x0 = (sampler.diffusion.pictures(each) for each in (estimate.x, estimate.x0))
        frames.append({"t": estimate.t, "x": [rows_of(each) for each in x], "x0": [rows_of(each) for each in x0]})
        if time.monotonic() - began > SECONDS:
            break
    done = not frames or frames[-1]["t"] == 0
    return {"frames": frames, "done": done}


def _name(run: Run, session: str) -> str:
    return f"{run.folder}/{session}"


ACTIONS = {"open": open_view, "film": film, "more": more}
