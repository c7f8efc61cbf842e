"""Optimisers racing over a surface of two weights from where it is clicked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.recipes.optimizers import RATES, RULES, OptimizersOptions, race
from neuropil.training.loss_surfaces import Surface, diabetes_surface, rosenbrock_surface, two_wells_surface

MAP = 61
"""Places of the map along each axis."""
SEED = 0
DIGITS = 6
SURFACES: dict[str, tuple[Callable[[], Surface], float]] = {
    "diabetes": (diabetes_surface, 0.02),
    "rosenbrock": (rosenbrock_surface, 0.001),
    "two_wells": (two_wells_surface, 0.03),
}
"""Each with a learning rate at which all optimisers get somewhere."""


class SurfaceRequest(Config):
    surface: Literal["diabetes", "rosenbrock", "two_wells"] = option("diabetes", "loss of two weights")


class StartRequest(SurfaceRequest):
    x: float | None = option(None, "first weight at the start; none: the surface's own start", low=-10, high=10)
    y: float | None = option(None, "second weight at the start", low=-10, high=10)
    momentum: float = option(0.9, "momentum coefficient β", low=0, high=0.999)
    weight_decay: float = option(0.1, "weight decay of AdamW", low=0, high=10)
    batch_size: int = option(32, "examples in a mini-batch; gradient descent takes all", low=1, high=442)
    steps: int = option(100, "updates by each optimiser", low=10, high=150)

    def options_of_race(self) -> OptimizersOptions:
        return OptimizersOptions(
            steps=self.steps, batch_size=self.batch_size, momentum=self.momentum, weight_decay=self.weight_decay
        )


class RaceRequest(StartRequest):
    rates: tuple[float, ...] = option((0.02,) * len(RULES), "learning rate of each optimiser", above=0, high=1)

    def validate(self) -> None:
        if len(self.rates) != len(RULES):
            raise InputError(f"rates must be {len(RULES)}, one for each optimiser", got=str(len(self.rates)))


@cache
def surface_of(name: str) -> Surface:
    return SURFACES[name][0]()


@cache
def mapped(name: str) -> dict[str, Any]:
    surface = surface_of(name)
    _, _, excess = surface.contours(MAP)
    return {
        "x": surface.window[0],
        "y": surface.window[1],
        "excess": _rounded(excess),
        "start": surface.start,
        "minimum": surface.minimum,
        "words": surface.words,
        "rate": SURFACES[name][1],
        "examples": surface.num_examples,
    }


def open_view() -> dict[str, Any]:
    request = RaceRequest()
    return {
        "rules": list(RULES),
        "surfaces": list(SURFACES),
        **request.to_dict(),
        "map": mapped(request.surface),
        "race": run(request),
    }


def show(request: SurfaceRequest) -> dict[str, Any]:
    """The map of a surface."""
    return mapped(request.surface)


def run(request: RaceRequest) -> dict[str, Any]:
    """The path and the excess loss of each optimiser; from where they overflow there is nothing."""
    descents = race(_entries(request.rates), _surface(request), request.options_of_race(), SEED)
    return {
        "racers": [
            {
                "name": name,
                "rate": descent.rate,
                "x": _rounded(descent.path[:, 0]),
                "y": _rounded(descent.path[:, 1]),
                "losses": _rounded(descent.losses),
                "converged": descent.convergence(),
            }
            for name, descent in zip(RULES, descents, strict=True)
        ]
    }


def tune(request: StartRequest) -> dict[str, Any]:
    """The learning rate of one grid with which each optimiser ends lowest from this start."""
    entries = [(rule, rate) for rule in RULES.values() for rate in RATES]
    tried = np.array([d.final for d in race(entries, _surface(request), request.options_of_race(), SEED)])
    best = tried.reshape(len(RULES), len(RATES)).argmin(1)
    return {"rates": [RATES[place] for place in best]}


def _entries(rates: Sequence[float]) -> list[Any]:
    return list(zip(RULES.values(), rates, strict=True))


def _surface(request: StartRequest) -> Surface:
    surface = surface_of(request.surface)
    start = [own if given is None else given for own, given in zip(surface.start, (request.x, request.y), strict=True)]
    return replace(surface, start=(start[0], start[1]))


def _rounded(values: np.ndarray) -> list[Any]:
    """To as many digits as are seen; a path that overflows leaves its numbers before that."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        size = np.where(np.isfinite(values) & (values != 0), np.abs(values), 1)
        unit = 10.0 ** (np.floor(np.log10(size)) - DIGITS + 1)
        return (np.round(values / unit) * unit).tolist()


ACTIONS = {"open": open_view, "show": show, "run": run, "tune": tune}
