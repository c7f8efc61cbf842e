"""A population of neurons that carries one value: tuning curves, decoders, and what is decoded from its spikes."""

import math
from typing import Any, Literal

import numpy as np

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.models.dynamics.network import Input, PopulationNetwork
from neuropil.models.population import Array, Function, Population, decoding_error, rms, values_of

FUNCTIONS: dict[str, Function | None] = {
    "x": None,
    "x²": lambda x: x[0] ** 2,
    "sin πx": lambda x: math.sin(math.pi * x[0]),
}
DURATION, QUIET, DT, EVERY = 600.0, 100.0, 1.0, 2
"""ms: of the simulation, before the value is set, of a step; and steps for each that is shown."""
SETTLED = 5
"""Time constants of the synapse after which its error counts."""
CURVES, ROWS, POINTS = 24, 60, 81
"""Tuning curves, rows of the raster and values on an axis that are shown, at most."""


class RepresentRequest(Config):
    value: float = option(0.5, "value x that is represented", low=-5, high=5)
    signal: Literal["step", "sine"] = option("step", "the value steps from 0 to x, or swings between −x and x")
    function: Literal["x", "x²", "sin πx"] = option("x", "function that is decoded")
    neurons: int = option(50, "neurons", low=2, high=400)
    radius: float = option(1.0, "radius r, the largest value that is represented well", low=0.1, high=4)
    noise: float = option(0.1, "noise that decoders are solved for, as a share of the highest rate", low=0.001, high=1)
    lowest: float = option(-1.0, "lowest intercept, as a share of the radius", low=-1, high=0.95)
    highest: float = option(0.9, "highest intercept, as a share of the radius", low=-1, high=0.95)
    tau: float = option(20.0, "time constant of the synapse that spikes are decoded through (ms)", low=1, high=200)

    def validate(self) -> None:
        if self.lowest > self.highest:
            got = f"{self.lowest:g} and {self.highest:g}"
            raise InputError("the lowest intercept must not be above the highest", got=got)

    @property
    def population(self) -> Population:
        intercepts = (self.lowest, self.highest)
        return Population(
            self.neurons, radius=self.radius, noise=self.noise, intercepts=intercepts, max_rates=(100.0, 200.0)
        )


def open_view() -> dict[str, Any]:
    """Without a picture: the first simulation after an installation is compiled, which takes longer than a page may."""
    return {**RepresentRequest().to_dict(), "functions": list(FUNCTIONS), "duration": DURATION}


def represent(request: RepresentRequest) -> dict[str, Any]:
    population, function = request.population, FUNCTIONS[request.function]
    axis = np.linspace(-1.5 * request.radius, 1.5 * request.radius, POINTS)
    rates, wanted, within = population.rates(axis), values_of(function, axis[:, None]), np.abs(axis) <= request.radius
    decoders, shown = over_time(request, population, function)
    error = decoding_error(rates[within], decoders, wanted[within], request.noise)
    at = np.array([request.value])
    return {
        "axis": axis.round(4).tolist(),
        "curves": rates[:, :CURVES].T.round(2).tolist(),
        "signs": np.sign(population.encoders[:ROWS, 0]).astype(int).tolist(),
        "wanted": wanted[:, 0].round(5).tolist(),
        "decoded": (rates @ decoders)[:, 0].round(5).tolist(),
        "true": float(values_of(function, at[:, None])[0, 0]),
        "said": float((population.rates(at) @ decoders)[0, 0]),
        "distortion": error.distortion,
        "noise_error": error.noise,
        **shown,
    }


def over_time(
    request: RepresentRequest, population: Population, function: Function | None
) -> tuple[Array, dict[str, Any]]:
    """The decoders; and the value as a signal, with what they make of the spikes through a synapse."""
    times = DT * np.arange(1, round(DURATION / DT) + 1)
    swing = np.sin(2 * np.pi * (times - QUIET) / (DURATION - QUIET)) if request.signal == "sine" else 1.0
    signal = np.where(times > QUIET, request.value * swing, 0.0)[:, None]
    network = PopulationNetwork()
    network.connect(Input(signal), population, tau=None)
    seen = network.probe(population, function=function, tau=request.tau)
    network.probe_spikes(population)
    simulation = network.simulate(DURATION, DT)
    wanted, found, spikes = values_of(function, signal)[:, 0], simulation[seen][:, 0], simulation.spikes[population]
    drawn = spikes.neurons < ROWS
    settled = times > (SETTLED * request.tau + (QUIET if request.signal == "step" else 0.0))
    return simulation.decoders[seen], {
        "times": times[::EVERY].tolist(),
        "signal": wanted[::EVERY].round(5).tolist(),
        "spoken": found[::EVERY].round(4).tolist(),
        "rmse": rms((found - wanted)[settled]) if settled.any() else None,
        "spike_times": spikes.times[drawn].round(2).tolist(),
        "spike_rows": spikes.neurons[drawn].tolist(),
        "rows": min(ROWS, request.neurons),
        "mean_rate": 1000 * len(spikes.times) / (DURATION * request.neurons),
    }


ACTIONS = {"open": open_view, "represent": represent}
