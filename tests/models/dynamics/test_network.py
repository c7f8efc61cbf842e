"""What is true of populations that are connected, to each other and to themselves."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from neuropil.errors import InputError
from neuropil.models.dynamics.network import PES, Input, PopulationNetwork, PopulationSimulator
from neuropil.models.lif import LIF, LIFConfig
from neuropil.models.population import Population
from neuropil.parts.synapses import Synapse


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))


# --- encode, fire, decode ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [0.2, 1.0])
def test_neurons_fire_exactly_as_single_ones_do(dt: float):
    """Inputs that keep every voltage above 0, below which a population's neurons do not go."""
    population = Population(20, intercepts=(-1.0, -0.2), max_rates=(50.0, 200.0), encoders=np.ones((20, 1)), seed=1)
    wave = 0.4 + 0.3 * np.sin(np.arange(300) * dt / 20)[:, None]
    network = PopulationNetwork()
    network.connect(Input(wave), population, tau=None)
    network.probe_spikes(population)
    times, neurons = network.simulate(300 * dt, dt, first={population: np.zeros(20)}).spikes[population]
    alone = LIF(LIFConfig()).simulate(torch.from_numpy(population.currents(wave)), duration=300 * dt, dt=dt)
    order = np.argsort(times, kind="stable")
    assert len(times) > 100
    np.testing.assert_array_equal(neurons[order], alone.neurons.numpy())
    np.testing.assert_allclose(times[order], alone.times.numpy(), atol=1e-9)


def test_what_is_said_is_the_spikes_through_decoders_and_synapse():
    population, network = Population(30, 2), PopulationNetwork()
    network.connect(Input([0.3, -0.5]), population)
    seen = network.probe(population, function=lambda x: [x[0] * x[1], x[0], 1.0], tau=7.0)
    network.probe_spikes(population)
    simulation = network.simulate(200.0)
    raster = np.zeros((200, 30))
    times, neurons = simulation.spikes[population]
    raster[np.ceil(times - 1e-9).astype(int) - 1, neurons] = 1000.0
    decoded = torch.from_numpy(raster @ simulation.decoders[seen])
    expected = Synapse(7.0).smooth(decoded, 1.0, dim=0).numpy()
    np.testing.assert_allclose(simulation[seen][1:], expected[:-1], atol=1e-9)
    np.testing.assert_array_equal(simulation[seen][0], 0)


def test_a_value_and_its_square_pass_through_spikes():
    a, b, network = Population(400, seed=1), Population(400, seed=2), PopulationNetwork()
    wave = Input(lambda t: math.sin(t / 150))
    network.connect(wave, a)
    network.connect(a, b, function=lambda x: x**2)
    value, square = network.probe(a, tau=20.0), network.probe(b, tau=20.0)
    through_two, through_three = network.probe(wave, tau=25.0), network.probe(wave, function=lambda x: x**2, tau=30.0)
    simulation = network.simulate(1500.0)
    assert rms(simulation[value] - simulation[through_two]) < 0.03
    assert rms(simulation[square] - simulation[through_three]) < 0.04


@settings(deadline=None, max_examples=8)
@given(dimensions=st.integers(1, 3), neurons=st.integers(5, 40), seed=st.integers(0, 99), spiking=st.booleans())
def test_decoding_and_encoding_is_the_same_as_a_weight_for_every_pair(
    dimensions: int, neurons: int, seed: int, spiking: bool
):
    rng, mode = np.random.default_rng(seed), "spiking" if spiking else "rate"
    a = Population(neurons, dimensions, seed=seed, mode=mode)
    b = Population(neurons + 3, dimensions, seed=seed + 1, mode=mode, radius=1.4)
    network = PopulationNetwork()
    network.connect(Input(rng.normal(size=dimensions)), a)
    network.connect(a, b, function=lambda x: x**2, transform=rng.normal(size=(dimensions, dimensions)))
    network.connect(b, b[0], function=lambda x: 0.5 * x[0], tau=50.0, start=[0.3])
    network.connect(b, a, transform=0.3, tau=20.0)
    seen = network.probe(b)
    factored, full = network.simulate(150.0, seed=seed), network.simulate(150.0, seed=seed, full_weights=True)
    np.testing.assert_allclose(factored[seen], full[seen], atol=1e-8)


def test_the_weights_of_every_pair_are_decoders_times_encoders():
    a, b, network = Population(20), Population(30, seed=5), PopulationNetwork()
    connection = network.connect(a, b)
    full = network.simulate(5.0, full_weights=True).decoders[connection]
    np.testing.assert_allclose(full, a.decoders() @ b.scaled_encoders)
    assert np.linalg.matrix_rank(full) == 1


def test_parts_are_connected_to_parts():
    a, b, network = Population(200, 2, seed=1), Population(200, 2, seed=2), PopulationNetwork()
    network.connect(Input([0.2, 0.7]), a)
    network.connect(a[1], b[0])
    network.connect(Input([9.0, -0.4])[1], b[1])
    seen, first = network.probe(b, tau=50.0), network.probe(a[0], tau=50.0)
    simulation = network.simulate(500.0)
    np.testing.assert_allclose(simulation[seen][-1], [0.7, -0.4], atol=0.06)
    assert simulation[first][-1, 0] == pytest.approx(0.2, abs=0.06)


def test_the_same_seed_gives_the_same_spikes_and_another_seed_others():
    network, population = PopulationNetwork(), Population(50)
    network.connect(Input(0.5), population)
    network.probe_spikes(population)
    first, second, other = (network.simulate(100.0, seed=seed).spikes[population] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.times, second.times)
    assert len(first.times) != len(other.times) or not np.array_equal(first.times, other.times)


def test_a_simulator_runs_as_often_as_it_is_asked():
    network, population = PopulationNetwork(), Population(50)
    network.connect(Input(lambda t: t / 100), population)
    seen = network.probe(population)
    simulator = PopulationSimulator(network)
    once, again = simulator.run(100.0), simulator.run(100.0)
    np.testing.assert_array_equal(once[seen], again[seen])
    np.testing.assert_array_equal(once[seen], network.simulate(100.0)[seen])


def test_inputs_of_every_kind_say_the_same():
    times = np.arange(1.0, 51.0)
    for value in (0.25, [0.25], np.full((50, 1), 0.25), lambda t: 0.25):
        np.testing.assert_array_equal(Input(value).over(times), np.full((50, 1), 0.25))
    assert Input(lambda t: [t, 1.0]).over(times)[3].tolist() == [4.0, 1.0]


# --- dynamics ---------------------------------------------------------------------------------------------------------


def test_a_thousand_neurons_hold_a_value_with_less_than_one_percent_drift_in_a_second():
    drifts = []
    for value in (-0.8, -0.3, 0.2, 0.7):
        network, population = PopulationNetwork(), Population(1000)
        network.follow(population, tau=100.0, start=value)
        seen = network.probe(population, tau=20.0)
        simulation = network.simulate(3000.0)
        late = simulation.times > 500
        drifts.append(100 * np.polyfit(simulation.times[late] / 1000, simulation[seen][late, 0], 1)[0])
        assert simulation[seen][-1, 0] == pytest.approx(value, abs=0.03)
    assert max(map(abs, drifts)) < 1.0


def test_an_integrator_adds_up_what_arrives():
    network, population = PopulationNetwork(), Population(500)
    network.follow(population, tau=100.0)
    network.connect(Input(lambda t: 2.0 if t <= 300 else 0.0), population, change=True, tau=100.0)
    seen = network.probe(population, tau=20.0)
    simulation = network.simulate(1500.0)
    assert simulation[seen][-1, 0] == pytest.approx(0.6, abs=0.03)


@pytest.mark.parametrize("spiking", [False, True])
def test_a_population_follows_its_equation_as_scipy_solves_it(spiking: bool):
    """A pendulum with friction."""

    def f(x: np.ndarray) -> list[float]:
        return [5 * x[1], -5 * math.sin(2 * x[0]) - 0.5 * x[1]]

    network, population = (
        PopulationNetwork(),
        Population(1000, 2, radius=1.5, noise=0.02, mode="spiking" if spiking else "rate"),
    )
    network.follow(population, f, tau=100.0, start=[1.0, 0.0])
    seen = network.probe(population, tau=None if not spiking else 5.0)
    simulation = network.simulate(2000.0)
    solved = solve_ivp(lambda _, x: f(x), (0, 2), [1.0, 0.0], t_eval=simulation.times / 1000, rtol=1e-8).y.T
    assert rms(simulation[seen][50:] - solved[50:]) < (0.12 if spiking else 0.05)


def test_a_rate_of_change_is_stepped_as_euler_does():
    """With decoders that are all but exact the recurrence is x + dt f(x), for any ratio of dt and τ."""
    population = Population(400, noise=1e-4, mode="rate", radius=1.2)
    for tau, dt in ((100.0, 1.0), (10.0, 5.0)):
        network = PopulationNetwork()
        network.follow(population, lambda x: -3 * x, tau=tau, start=1.0)
        seen = network.probe(population, tau=None)
        said = network.simulate(500.0, dt)[seen][1:, 0]
        euler = (1 - 3 * dt / 1000) ** np.arange(len(said))
        np.testing.assert_allclose(said, euler, atol=5e-3)


def test_controls_enter_the_equation_and_are_not_moved_by_it():
    """A speed that another dimension sets: dx/dt = u."""
    network, population = PopulationNetwork(), Population(600, 2, radius=1.5, noise=0.02)
    network.follow(population, lambda x: [x[1]], tau=100.0)
    network.connect(Input(0.5), population[1])
    seen = network.probe(population, tau=20.0)
    simulation = network.simulate(1500.0)
    np.testing.assert_allclose(simulation[seen][-1], [0.75, 0.5], atol=0.08)


def test_each_time_constant_alone_is_the_limit_in_which_the_other_vanishes():
    """τ_s ds/dt = −s + …, τ_m dv/dt = −v + σ(s): the distance from the limit falls with the ratio of the two."""

    def oscillation(tau_s: float | None, tau_m: float) -> np.ndarray:
        network = PopulationNetwork()
        population = Population(100, 2, radius=1.4, mode="rate", lag=tau_m)
        turning = [[1.0, -0.6], [0.6, 1.0]]
        network.connect(population, population, function=lambda x: x / (0.5 + x @ x / 2), transform=turning, tau=tau_s)
        network.connect(Input(lambda t: [1.0, 0.0] if t < 50 else [0.0, 0.0]), population, tau=tau_s)
        seen = network.probe(population, tau=None)
        return network.simulate(1000.0, 0.5)[seen]

    for long_s in (True, False):
        limit = oscillation(100.0, 0.0) if long_s else oscillation(None, 100.0)
        apart = [
            rms((oscillation(100.0, short) if long_s else oscillation(short, 100.0)) - limit)
            for short in (20.0, 5.0, 1.25)
        ]
        assert apart[0] > 2 * apart[1] > 4 * apart[2] > 0


def test_a_decoder_learns_online_what_least_squares_would_solve():
    a, b, error, network = (
        Population(150, seed=1),
        Population(150, seed=2),
        Population(150, seed=3),
        PopulationNetwork(),
    )
    wave = Input(lambda t: math.sin(t / 150))
    network.connect(wave, a)
    learned = network.connect(a, b, function=lambda x: 0.0, learning=PES(rate=5e-4))
    network.connect(b, error)
    network.connect(wave, error, function=lambda x: -(x**2))
    network.connect(error, learned)
    simulation = network.simulate(15_000.0)
    x = np.linspace(-1, 1, 101)[:, None]
    assert rms(a.rates(x) @ simulation.decoders[learned] - x**2) < 0.06
    assert simulation.decoders[learned].shape == (150, 1)


# --- what is refused --------------------------------------------------------------------------------------------------


def driven(**options: float) -> PopulationNetwork:
    network = PopulationNetwork()
    network.connect(Input(0.5), Population(10, **options))  # type: ignore[arg-type]
    return network


@pytest.mark.parametrize(
    ("duration", "dt", "message"),
    [
        (
            100.0,
            3.0,
            "dt must be a time above 0 ms, no longer than any time constant or refractory period, but got 3: the "
            "largest that works here is 2.",
        ),
        (0.5, 1.0, "duration must be a time of at least one step, but got 0.5 ms in steps of 1 ms."),
    ],
)
def test_times_that_make_no_sense_are_refused(duration: float, dt: float, message: str):
    with pytest.raises(InputError) as error:
        driven().simulate(duration, dt)
    assert str(error.value) == message


def test_a_network_without_populations_is_refused():
    with pytest.raises(InputError) as error:
        PopulationNetwork().simulate(10.0)
    assert str(error.value) == "a network must have a population, but got none: connect an input to one."


def test_connections_that_do_not_fit_are_refused():
    a, b, network = Population(10), Population(10, 2), PopulationNetwork()
    refused = [
        (
            lambda: network.connect(a, b),
            "a connection must bring 2 numbers to its target, from 1, but got no transform: give a function with 2 "
            "values or a transform of shape [2, 1].",
        ),
        (
            lambda: network.connect(b, a, transform=[[1.0, 2.0, 3.0]]),
            "a connection must bring 1 numbers to its target, from 2, but got a transform of shape [1, 3]: give a "
            "function with 1 values or a transform of shape [1, 2].",
        ),
        (lambda: network.connect(a, a, tau=0.0), "a synapse must have a time constant above 0 ms, but got tau=0."),
        (
            lambda: network.connect(a, a, tau=None, change=True),
            "what changes a value must pass a synapse, but got tau=None: give a tau above 0 ms.",
        ),
        (
            lambda: network.connect(Input(1.0), a, learning=PES()),
            "only a population has decoders that can learn, but got an input as the source.",
        ),
        (
            lambda: network.connect(a, a, transform=2.0, learning=PES()),
            "a connection that learns must have no transform, but got one: let the function do it.",
        ),
        (
            lambda: network.connect(a, network.connect(a, a)),
            "an error must go to a connection that learns, but got one that does not: connect it with learning=PES().",
        ),
        (lambda: network.connect(a, Input(1.0)[0]), "a target must be a population, but got an input."),
        (lambda: PES(rate=-1.0), "a learning rate must be a number of 0 or more, but got -1."),
        (lambda: network.follow(a, start=[0.1, 0.2]), "start must hold 1 finite numbers, but got [0.1, 0.2]."),
        (
            lambda: network.connect(Input(1.0), a, start=0.5),
            "only what leaves a population has a start, but got a start for an input.",
        ),
        (
            lambda: Input(np.zeros((2, 2, 2))),
            "an input must be a number, a vector, an array [step, dimension] or a function of time, but got an array "
            "with 3 axes.",
        ),
    ]
    for attempt, message in refused:
        with pytest.raises(InputError) as error:
            attempt()
        assert str(error.value) == message


def test_inputs_that_do_not_fit_the_simulation_are_refused():
    network, population = PopulationNetwork(), Population(10)
    network.connect(Input(np.zeros((7, 1))), population)
    with pytest.raises(InputError) as error:
        network.simulate(10.0)
    assert str(error.value) == "an input that changes must have a row for each of the 10 steps, but got 7."
    network = PopulationNetwork()
    network.connect(Input(lambda t: [0.5] if t < 5 else [0.5, 0.5]), population)
    with pytest.raises(InputError) as error:
        network.simulate(10.0)
    assert str(error.value) == "an input must have 1 numbers at all times, but got 2 at 5 ms."
    network = PopulationNetwork()
    network.connect(Input(lambda t: math.inf if t > 3 else 0.0), population)
    with pytest.raises(InputError) as error:
        network.simulate(10.0)
    assert str(error.value) == "an input must be finite, but got infinity or nan."
    network = PopulationNetwork()
    network.connect(Input(0.5), population)
    with pytest.raises(InputError) as error:
        network.simulate(10.0, first={population: np.zeros(3)})
    assert str(error.value) == "first must hold 10 finite voltages of this population, but got [3]."


# --- going on ---------------------------------------------------------------------------------------------------------


def wired(feedback: float = 0.9) -> tuple[PopulationNetwork, Population]:
    a, b, network = Population(30, seed=1), Population(20, mode="rate", lag=8.0, seed=2), PopulationNetwork()
    network.connect(Input(lambda t: math.sin(t / 30)), a, tau=20.0)
    network.connect(a, a, transform=feedback, tau=50.0)
    network.connect(a, b, function=lambda x: x**2)
    network.probe(b)
    network.probe(Input(lambda t: t / 100), tau=10.0)
    network.probe_spikes(a)
    return network, a


def test_pieces_are_the_whole():
    network, a = wired()
    simulator = PopulationSimulator(network)
    whole, state = simulator.run(120.0, seed=3), simulator.begin(seed=3)
    parts = [simulator.advance(state, duration) for duration in (50.0, 1.0, 69.0)]
    for probe in network.connections[-2:]:
        np.testing.assert_allclose(np.concatenate([part[probe] for part in parts]), whole[probe], atol=1e-12)
    np.testing.assert_allclose(np.concatenate([part.spikes[a].times for part in parts]), whole.spikes[a].times)
    np.testing.assert_array_equal(np.concatenate([part.times for part in parts]), whole.times)


def test_decoders_go_on_learning():
    a, b, network = Population(30, seed=1), Population(30, seed=2), PopulationNetwork()
    network.connect(Input(0.5), a)
    learned = network.connect(a, b, function=lambda x: 0.0, learning=PES(rate=1e-3))
    network.connect(b, learned)
    network.connect(Input(-0.8), learned)
    simulator = PopulationSimulator(network)
    state = simulator.begin()
    halves = [simulator.advance(state, 100.0).decoders[learned] for _ in range(2)]
    np.testing.assert_allclose(halves[1], simulator.run(200.0).decoders[learned], atol=1e-12)
    assert np.abs(halves[0] - halves[1]).max() > 1e-6


def test_a_value_goes_on_with_other_feedback():
    """An integrator holds its value until its feedback is taken away; then it leaks with the synapse."""

    def memory(feedback: float) -> PopulationSimulator:
        network = PopulationNetwork()
        network.connect(population, population, transform=feedback, tau=100.0, start=[0.8])
        network.probe(population, tau=20.0)
        return PopulationSimulator(network)

    population = Population(500, seed=4)
    holding, leaking = memory(1.0), memory(0.0)
    state = holding.begin()
    held = holding.advance(state, 300.0)[holding.network.connections[1]]
    leaked = leaking.advance(state, 300.0)[leaking.network.connections[1]]
    assert rms(held[100:] - 0.8) < 0.05
    assert abs(leaked[0, 0] - held[-1, 0]) < 0.05
    times = np.arange(1, 301)
    # the leak, and the lag of the probe behind it
    expected = 0.8 * (100 * np.exp(-times / 100) - 20 * np.exp(-times / 20)) / 80
    assert rms(leaked[:, 0] - expected) < 0.05


def test_a_state_of_another_network_is_refused():
    network, _ = wired()
    small = PopulationNetwork()
    small.connect(Input(0.5), Population(10))
    with pytest.raises(InputError) as refused:
        PopulationSimulator(network).advance(PopulationSimulator(small).begin(), 10.0)
    assert str(refused.value) == (
        "a state must be of a network with the same populations and connections, but got 10 neurons and 1 connections."
    )
