import math
from typing import Any

import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view
from neuropil.models.dynamics.network import Input, PopulationNetwork
from neuropil.models.population import Population


def followed(session: int, **values: Any) -> Any:
    return ask(find_view("dynamics"), "follow", None, {"session": session, **values})


def test_pieces_are_one_simulation_of_the_library():
    """The input is moved on the way: half a second of 1 per second, then nothing."""
    pieces = [followed(1, input=1.0, duration=500.0), followed(1, duration=100.0), followed(1, duration=100.0)]
    population, network = Population(200), PopulationNetwork()
    network.follow(population, tau=100.0)
    network.connect(Input(lambda t: 1.0 if t <= 500 else 0.0), population, change=True, tau=100.0)
    seen = network.probe(population, tau=20.0)
    decoded = network.simulate(700.0)[seen][:, 0]
    values = np.concatenate([piece["values"][0] for piece in pieces])
    np.testing.assert_allclose(values, decoded[1::2], atol=1e-4)
    assert pieces[2]["last"][0] == pytest.approx(0.5, abs=0.05)


def test_feedback_that_is_taken_away_lets_the_value_leak():
    followed(2, input=1.6, duration=500.0)
    held = followed(2, duration=300.0)["last"][0]
    left = followed(2, feedback=0.0, duration=300.0)["last"][0]
    assert held > 0.7
    assert left < 0.15


def test_an_oscillator_turns_at_its_frequency():
    pieces = [followed(3, equation="oscillator", frequency=2.0, input=1.0, duration=500.0)]
    pieces += [followed(3, equation="oscillator", frequency=2.0, duration=500.0) for _ in range(3)]
    x, y = np.concatenate([piece["values"] for piece in pieces[2:]], 1)
    turned = np.unwrap(np.arctan2(y, x))
    assert (turned[-1] - turned[0]) / (2 * math.pi) == pytest.approx(2.0, abs=0.15)
    assert pieces[-1]["length"] == pytest.approx(1.0, abs=0.15)


def test_another_equation_begins_anew():
    followed(4, duration=50.0)
    assert followed(4, equation="oscillator", duration=50.0)["start"] == 0.0


def test_what_is_asked_for_is_bounded():
    with pytest.raises(InputError) as refused:
        followed(5, neurons=100_000)
    assert str(refused.value) == "neurons must be at most 1000, but got 100000."
