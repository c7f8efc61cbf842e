"""Populations and their networks beside Nengo's: the same decoders, and the same spikes and values step for step."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from neuropil.models.dynamics.network import PES, Input, PopulationNetwork, Simulation
from neuropil.models.lif import LIFConfig
from neuropil.models.population import Population, gains_and_biases

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it looks for NumPy's clip where it used to be
    nengo: Any = importlib.import_module("nengo")
    get_activities: Any = importlib.import_module("nengo.builder.ensemble").get_activities

SECONDS = 0.001


def built(ensemble: Any, simulator: Any, **options: Any) -> Population:
    """Our population with the numbers that Nengo drew."""
    theirs = simulator.data[ensemble]
    return Population(
        ensemble.n_neurons,
        ensemble.dimensions,
        radius=ensemble.radius,
        encoders=theirs.encoders,
        gains=theirs.gain,
        biases=theirs.bias,
        points=theirs.eval_points,
        **options,
    )


def at_rest() -> Any:
    return nengo.LIF(initial_state={"voltage": nengo.dists.Choice([0])})


def from_rest(network: PopulationNetwork, duration: float, **options: Any) -> Simulation:
    return network.simulate(
        duration, first={population: np.zeros(population.neurons) for population in network.populations}, **options
    )


@pytest.mark.parametrize(
    ("neurons", "dimensions", "radius", "function"),
    [
        (50, 1, 1.0, None),
        (50, 1, 2.0, lambda x: np.sin(3 * x)),
        (120, 3, 1.5, lambda x: [x[0] * x[1], x[2] ** 2]),
        (900, 1, 1.0, lambda x: x**2),
    ],
)
@pytest.mark.parametrize("reg", [0.01, 0.1, 0.2])
def test_tuning_curves_and_decoders_equal_nengos(
    neurons: int, dimensions: int, radius: float, function: Callable[[np.ndarray], Any] | None, reg: float
):
    with nengo.Network(seed=3) as model:
        ensemble = nengo.Ensemble(neurons, dimensions, radius=radius)
        size = len(np.atleast_1d(function(np.zeros(dimensions)))) if function else dimensions
        node = nengo.Node(size_in=size)
        connection = nengo.Connection(ensemble, node, function=function, solver=nengo.solvers.LstsqL2(reg=reg))
    with nengo.Simulator(model, progress_bar=False) as simulator:
        ours = built(ensemble, simulator)
        x = simulator.data[ensemble].eval_points
        np.testing.assert_allclose(
            ours.rates(x), get_activities(simulator.data[ensemble], ensemble, x), rtol=1e-9, atol=1e-9
        )
        theirs = simulator.data[connection].weights.T
        for method in ("cholesky", "conjugate gradients"):
            decoders = ours.decoders(function, noise=reg, method=method)
            np.testing.assert_allclose(decoders, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())


def test_fewer_points_than_neurons_give_nengos_decoders_too():
    with nengo.Network(seed=1) as model:
        ensemble = nengo.Ensemble(200, 2, eval_points=nengo.dists.UniformHypersphere(), n_eval_points=90)
        connection = nengo.Connection(ensemble, nengo.Node(size_in=2))
    with nengo.Simulator(model, progress_bar=False) as simulator:
        theirs = simulator.data[connection].weights.T
        np.testing.assert_allclose(
            built(ensemble, simulator).decoders(), theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max()
        )


def test_gains_and_biases_equal_nengos():
    rng = np.random.default_rng(0)
    max_rates, intercepts = rng.uniform(5, 420, 300), rng.uniform(-1, 0.95, 300)
    theirs = nengo.LIF(tau_rc=0.03, tau_ref=0.0021).gain_bias(max_rates, intercepts)
    for ours, other in zip(
        gains_and_biases(intercepts, max_rates, LIFConfig(tau_m=30.0, tau_ref=2.1)), theirs, strict=True
    ):
        np.testing.assert_allclose(ours, other, rtol=1e-9)


@pytest.mark.parametrize("dt", [1.0, 0.5])
def test_a_network_with_a_nonlinear_connection_and_a_recurrence_runs_as_nengos_does(dt: float):
    with nengo.Network(seed=4) as model:
        model.config[nengo.Ensemble].neuron_type = at_rest()
        wave = nengo.Node(lambda t: np.sin(8 * t))
        a, b = nengo.Ensemble(60, 1), nengo.Ensemble(80, 2, radius=1.5)
        nengo.Connection(wave, a)
        nengo.Connection(a, b[1], function=lambda x: x**2, synapse=0.01)
        nengo.Connection(a, b[0], transform=0.5, synapse=0.02)
        nengo.Connection(b, b, transform=[[0.2, -0.5], [0.5, 0.2]], synapse=0.1)
        probes = [nengo.Probe(wave, synapse=0.01), nengo.Probe(a, synapse=0.01), nengo.Probe(b, synapse=0.02)]
        spikes = nengo.Probe(b.neurons)
    with nengo.Simulator(model, dt=dt * SECONDS, progress_bar=False) as simulator:
        simulator.run(0.4)
        ours_a, ours_b = built(a, simulator), built(b, simulator)

    network, source = PopulationNetwork(), Input(lambda t: np.sin(8 * t * SECONDS))
    network.connect(source, ours_a)
    network.connect(ours_a, ours_b[1], function=lambda x: x**2, tau=10.0)
    network.connect(ours_a, ours_b[0], transform=0.5, tau=20.0)
    network.connect(ours_b, ours_b, transform=[[0.2, -0.5], [0.5, 0.2]], tau=100.0)
    ours = [network.probe(source, tau=10.0), network.probe(ours_a, tau=10.0), network.probe(ours_b, tau=20.0)]
    network.probe_spikes(ours_b)
    simulation = from_rest(network, 400.0, dt=dt)

    np.testing.assert_allclose(simulation.times, simulator.trange() / SECONDS)
    for probe, theirs in zip(ours, probes, strict=True):
        np.testing.assert_allclose(simulation[probe], simulator.data[theirs], atol=1e-7)
    steps, neurons = np.nonzero(simulator.data[spikes])
    times, fired = simulation.spikes[ours_b]
    order = np.lexsort((fired, np.ceil(times / dt - 1e-9)))
    np.testing.assert_array_equal(fired[order], neurons)
    np.testing.assert_array_equal(np.ceil(times / dt - 1e-9).astype(int)[order] - 1, steps)


def test_rates_in_place_of_spikes_run_as_nengos_do():
    with nengo.Network(seed=4) as model:
        model.config[nengo.Ensemble].neuron_type = nengo.LIFRate()
        a = nengo.Ensemble(60, 1)
        nengo.Connection(nengo.Node(0.3), a, synapse=0.1)
        nengo.Connection(a, a, function=lambda x: 0.9 * x, synapse=0.05)
        probe = nengo.Probe(a, synapse=0.01)
    with nengo.Simulator(model, progress_bar=False) as simulator:
        simulator.run(0.3)
        ours = built(a, simulator, mode="rate")
    network = PopulationNetwork()
    network.connect(Input(0.3), ours, tau=100.0)
    network.connect(ours, ours, function=lambda x: 0.9 * x, tau=50.0)
    seen = network.probe(ours, tau=10.0)
    np.testing.assert_allclose(network.simulate(300.0)[seen], simulator.data[probe], atol=1e-9)


def test_a_decoder_learns_online_as_nengos_does():
    with nengo.Network(seed=2) as model:
        model.config[nengo.Ensemble].neuron_type = at_rest()
        wave = nengo.Node(lambda t: np.sin(10 * t))
        a, b, error = nengo.Ensemble(60, 1), nengo.Ensemble(60, 1), nengo.Ensemble(70, 1)
        nengo.Connection(wave, a)
        learned = nengo.Connection(a, b, function=lambda x: 0, learning_rule_type=nengo.PES(3e-4))
        nengo.Connection(b, error)
        nengo.Connection(wave, error, transform=-1)
        nengo.Connection(error, learned.learning_rule)
        probe, weights = nengo.Probe(b, synapse=0.01), nengo.Probe(learned, "weights")  # as they were used in each step
    with nengo.Simulator(model, progress_bar=False) as simulator:
        simulator.run(0.5)
        ours_a, ours_b, ours_error = (built(each, simulator) for each in (a, b, error))
    network, source = PopulationNetwork(), Input(lambda t: np.sin(10 * t * SECONDS))
    network.connect(source, ours_a)
    plastic = network.connect(ours_a, ours_b, function=lambda x: 0, learning=PES(3e-4))
    network.connect(ours_b, ours_error)
    network.connect(source, ours_error, transform=-1)
    network.connect(ours_error, plastic)
    seen = network.probe(ours_b, tau=10.0)
    simulation = from_rest(network, 500.0)
    np.testing.assert_allclose(simulation[seen], simulator.data[probe], atol=1e-7)
    before = from_rest(network, 499.0).decoders[plastic]
    np.testing.assert_allclose(before.T, simulator.data[weights][-1], rtol=1e-6, atol=1e-12)
    assert np.abs(simulation.decoders[plastic]).max() > 1e-5


def test_a_step_of_the_decoders_of_a_classifier_is_nengos_pes():
    from neuropil.models.learning_rules.pes import PopulationClassifier, PrescribedErrorSensitivity

    kappa, dimensions, classes, neurons = 1e-4, 4, 3, 50
    x, target = np.array([0.5, -1.0, 2.0, 0.3]), 1
    model = PopulationClassifier((dimensions,), classes, neurons, seed=5)
    population = Population(neurons, dimensions, radius=3.0, seed=5)
    with nengo.Network(seed=0) as network:
        value = nengo.Node(x)
        ensemble = nengo.Ensemble(
            neurons,
            dimensions,
            radius=3.0,
            neuron_type=nengo.LIFRate(),
            encoders=population.encoders,
            gain=population.gains,
            bias=population.biases,
            normalize_encoders=False,
        )
        output, error = nengo.Node(size_in=classes), nengo.Node(-np.eye(classes)[target])
        nengo.Connection(value, ensemble, synapse=None)
        rule = nengo.PES(kappa, pre_synapse=None)
        learned = nengo.Connection(
            ensemble, output, function=lambda x: np.zeros(classes), learning_rule_type=rule, synapse=None
        )
        nengo.Connection(error, learned.learning_rule, synapse=None)
        weights = nengo.Probe(learned, "weights")
    with nengo.Simulator(network, progress_bar=False) as simulator:
        simulator.run(0.004)
    batch = {"input": torch.from_numpy(x[None]), "target": torch.tensor([target])}
    (gradient,) = torch.autograd.grad(PrescribedErrorSensitivity(model).loss(batch), [model.decoders])
    # y = 0 as long as decoders are, and e = y − t is held: every step of a millisecond changes them by as much
    steps = simulator.data[weights]
    np.testing.assert_allclose((steps[-1] - steps[-2]).T, -kappa * SECONDS * gradient.numpy(), rtol=1e-4, atol=1e-12)
