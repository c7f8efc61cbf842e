from typing import Any

import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view
from neuropil.models.dynamics.network import Input, PopulationNetwork
from neuropil.models.population import Population


def represented(**values: Any) -> Any:
    return ask(find_view("population"), "represent", None, values)


def test_a_function_is_decoded_as_the_library_does():
    answer = represented(value=0.4, function="x²", neurons=60, noise=0.05, radius=0.8, lowest=-0.9, highest=0.5)
    population = Population(60, radius=0.8, noise=0.05, intercepts=(-0.9, 0.5), max_rates=(100.0, 200.0))
    decoders = population.decoders(lambda x: x**2)
    assert answer["true"] == pytest.approx(0.16)
    assert answer["said"] == pytest.approx(float((population.rates(np.array([0.4])) @ decoders)[0, 0]))
    # at points that lie less closely than the library's own
    error = population.error(lambda x: x**2)
    assert (answer["distortion"], answer["noise_error"]) == pytest.approx((error.distortion, error.noise), rel=0.1)
    np.testing.assert_allclose(answer["curves"], population.rates(np.array(answer["axis"])).T[:24], atol=0.01)


def test_spikes_say_what_the_library_hears():
    answer = represented(value=0.7, signal="step", tau=30.0)
    population, network = Population(50, max_rates=(100.0, 200.0)), PopulationNetwork()
    network.connect(Input(lambda t: 0.7 if t > 100 else 0.0), population, tau=None)
    seen = network.probe(population, tau=30.0)
    decoded = network.simulate(600.0)[seen][:, 0]
    np.testing.assert_allclose(answer["spoken"], decoded[::2], atol=1e-4)
    assert answer["rmse"] == pytest.approx(float(np.sqrt(np.square(decoded[250:] - 0.7).mean())))


def test_more_neurons_err_less():
    errors = [represented(neurons=neurons, function="sin πx")["distortion"] for neurons in (10, 100)]
    assert errors[1] < 0.2 * errors[0]


def test_intercepts_are_in_order():
    with pytest.raises(InputError) as refused:
        represented(lowest=0.5, highest=0.2)
    assert str(refused.value) == "the lowest intercept must not be above the highest, but got 0.5 and 0.2."
