"""What neurons do to each other, against the solved equations, pair by pair, and against themselves with other
threads."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from neuropil.data.networks.keys import list_keys
from neuropil.errors import InputError
from neuropil.models.lif import LIF, LIFConfig
from neuropil.models.spiking.description import KEYS
from neuropil.models.spiking.network import (
    STDP,
    CurrentInput,
    NeuronGroup,
    PoissonInput,
    Probe,
    Projection,
    SpikeSource,
    SpikingNetwork,
    SpikingNetworkRecording,
    SpikingSimulator,
    simulate,
)
from neuropil.models.spiking.plasticity import MOST_WAITING

DT = 0.1
SILENT = LIFConfig(threshold=1e9)
COUNTER = LIFConfig(tau_m=1e12, threshold=1e300, tau_ref=0.0)
"""Forgets nothing and never fires: its voltage counts what has arrived."""


def clicks(*times: float) -> SpikeSource:
    return SpikeSource("click", 1, spikes=(np.array(times), np.zeros(len(times), int)))


def small_network(seed: int, sizes: tuple[int, int] = (40, 11)) -> SpikingNetwork:
    """Everything at once: both kinds of synapses, delays, plasticity, sources and inputs; weights whose sums are exact
    in any order."""
    random = np.random.default_rng(seed)
    matrix = random.integers(-8, 32, (sizes[0], sizes[1])) / 256
    return SpikingNetwork(
        [
            NeuronGroup("a", sizes[0], start=(0.0, 1.0)),
            SpikeSource("noise", 7, rate=40.0),
            NeuronGroup("b", sizes[1], LIFConfig(tau_m=10.0), start=(0.0, 1.0)),
        ],
        [
            Projection("a", "a", 0.125, probability=0.2, delay=1.5),
            Projection("a", "b", matrix, delay=0.3),
            Projection("b", "a", -0.5, fan_in=3, delay=1.0, tau=4.0),
            Projection("noise", "a", 0.25, probability=0.5, stdp=STDP(high=0.5)),
        ],
        [PoissonInput("a", 900.0, 0.0625), PoissonInput("b", 500.0, 0.5, tau=4.0), CurrentInput("b", 1.5)],
        [Probe("a", (0, sizes[0] - 1)), Probe("b", (1,))],
    )


def assert_equal(first: SpikingNetworkRecording, second: SpikingNetworkRecording) -> None:
    for group in first.spikes:
        assert len(first.spikes[group].times)
        for one, other in zip(first.spikes[group], second.spikes[group], strict=True):
            assert torch.equal(one, other)
    for group in first.voltages:
        assert torch.equal(first.voltages[group], second.voltages[group])
    for place in first.synapses:
        np.testing.assert_array_equal(first.synapses[place].weights, second.synapses[place].weights)


# --- one neuron -------------------------------------------------------------------------------------------------------


@given(st.floats(0.0, 4.0), st.floats(0.5, 50.0), st.sampled_from([0.0, 0.1, 1.0, 2.5]))
@settings(deadline=None, max_examples=25)
def test_without_connections_neurons_are_those_of_lif_on_the_grid(v_in: float, tau_m: float, tau_ref: float):
    neuron = LIFConfig(tau_m=tau_m, tau_ref=tau_ref)
    inputs = torch.tensor([v_in, 1.7 * v_in], dtype=torch.double)
    alone = LIF(neuron, "grid").simulate(inputs, duration=60.0, dt=DT, watch=torch.arange(2))
    together = simulate(
        SpikingNetwork(
            [NeuronGroup("all", 2, neuron)], inputs=[CurrentInput("all", inputs)], probes=[Probe("all", (0, 1))]
        ),
        60.0,
        DT,
    )
    torch.testing.assert_close(together.spikes["all"].times, alone.times, rtol=1e-12, atol=0)
    assert torch.equal(together.spikes["all"].neurons, alone.neurons)
    torch.testing.assert_close(together.voltages["all"], alone.voltages, rtol=1e-12, atol=1e-12)


@given(st.integers(0, 40), st.integers(0, 30), st.floats(-3.0, 3.0))
@settings(deadline=None, max_examples=25)
def test_a_delta_synapse_makes_a_step_that_leaks_away(step: int, delay: int, weight: float):
    network = SpikingNetwork(
        [clicks((step + 1) * DT), NeuronGroup("all", 1, SILENT)],
        [Projection("click", "all", weight, delay=delay * DT)],
        probes=[Probe("all")],
    )
    recording = simulate(network, 10.0, DT)
    since = recording.times - (step + 1 + delay) * DT
    # the step comes at the end of a step, after the voltage is noted
    expected = torch.where(since > DT / 2, weight * torch.exp(-since / SILENT.tau_m), 0.0)
    torch.testing.assert_close(recording.voltages["all"][:, 0], expected, rtol=1e-9, atol=1e-12)


@given(st.floats(1.0, 60.0), st.floats(1.0, 60.0), st.booleans())
@settings(deadline=None, max_examples=25)
def test_a_synapse_with_a_time_constant_makes_a_difference_of_exponentials(tau: float, tau_m: float, equal: bool):
    tau = tau_m if equal or abs(tau - tau_m) < 1e-3 else tau
    weight, neuron = 2.0, LIFConfig(tau_m=tau_m, threshold=1e9)
    network = SpikingNetwork(
        [clicks(DT), NeuronGroup("all", 1, neuron)],
        [Projection("click", "all", weight, tau=tau)],
        probes=[Probe("all")],
    )
    recording = simulate(network, 50.0, DT)
    t = recording.times - DT
    if tau == tau_m:
        expected = weight / tau * t / tau * torch.exp(-t / tau)
    else:
        expected = weight / (tau - tau_m) * (torch.exp(-t / tau) - torch.exp(-t / tau_m))
    torch.testing.assert_close(recording.voltages["all"][:, 0], expected, rtol=1e-6, atol=1e-9)


def test_what_arrives_at_a_refractory_neuron_is_lost_unless_it_lasts():
    def network(weight: float, tau: float | None, *times: float) -> SpikingNetwork:
        return SpikingNetwork(
            [clicks(*times), NeuronGroup("all", 1)],
            [Projection("click", "all", weight, tau=tau)],
            probes=[Probe("all")],
        )

    after = simulate(network(1.5, None, 1.0, 2.0), 40.0, DT)
    assert after.spikes["all"].times.tolist() == pytest.approx([1.1])
    assert not after.voltages["all"][11:].any()
    once, twice = (
        simulate(network(1000.0, 5.0, *times), 40.0, DT).spikes["all"].times for times in ((1.0,), (1.0, 2.0))
    )
    assert once[0] < 2.0 < once[0] + 2.0
    assert len(twice) > len(once)


def test_a_current_may_change_from_step_to_step_for_each_neuron_or_for_all():
    steps = 50
    each = np.random.default_rng(0).uniform(0, 3, (steps, 2))
    own = simulate(
        SpikingNetwork(
            [NeuronGroup("all", 2, SILENT)],
            inputs=[CurrentInput("all", each), CurrentInput("all", 0.5)],
            probes=[Probe("all", (0, 1))],
        ),
        5.0,
        DT,
    )
    v, decay = np.zeros(2), math.exp(-DT / SILENT.tau_m)
    for step in range(steps):
        v = each[step] + 0.5 + (v - each[step] - 0.5) * decay
        np.testing.assert_allclose(own.voltages["all"][step], v, rtol=1e-12)
    shared = SpikingNetwork(
        [NeuronGroup("all", 2, SILENT)],
        inputs=[CurrentInput("all", torch.from_numpy(each[:, :1]))],
        probes=[Probe("all", (0, 1))],
    )
    voltages = simulate(shared, 5.0, DT).voltages["all"]
    assert torch.equal(voltages[:, 0], voltages[:, 1])


# --- the same, whatever the way ---------------------------------------------------------------------------------------


@given(st.integers(0, 5), st.sampled_from([(40, 11), (2, 3), (33, 64)]), st.integers(2, 4))
@settings(deadline=None, max_examples=8)
def test_the_number_of_threads_changes_no_bit(seed: int, sizes: tuple[int, int], threads: int):
    network = small_network(seed, sizes)
    assert_equal(simulate(network, 100.0, DT, seed, threads=1), simulate(network, 100.0, DT, seed, threads=threads))


def test_a_simulation_goes_on_where_it_stopped():
    network = small_network(1)
    simulator, whole = SpikingSimulator(network, dt=DT, seed=3, threads=2), simulate(network, 250.0, DT, 3)
    parts = [simulator.run(100.0), simulator.run(DT), simulator.run(149.9)]
    assert [part.start for part in parts] == pytest.approx([0.0, 100.0, 100.1])
    for group in whole.spikes:
        for side in (0, 1):
            assert torch.equal(torch.cat([part.spikes[group][side] for part in parts]), whole.spikes[group][side])
    assert torch.equal(torch.cat([part.voltages["a"] for part in parts]), whole.voltages["a"])
    torch.testing.assert_close(torch.cat([part.times for part in parts]), whole.times)


def test_another_seed_gives_other_spikes():
    network = small_network(1)
    first, second = (simulate(network, 100.0, DT, seed).spikes["a"].times for seed in (0, 1))
    assert len(first) != len(second) or not torch.equal(first, second)


def test_watching_changes_nothing():
    watched = small_network(2)
    unwatched = SpikingNetwork(watched.groups, watched.connections, watched.inputs)
    first, second = simulate(watched, 200.0, DT), simulate(unwatched, 200.0, DT)
    assert second.voltages == {}
    assert torch.equal(first.spikes["a"].times, second.spikes["a"].times)


@pytest.mark.parametrize("tau", [None, 5.0])
def test_a_matrix_and_a_list_of_pairs_are_the_same_connection(tau: float | None):
    random = np.random.default_rng(0)
    weights = np.where(
        random.random((30, 20)) < 0.4, random.integers(-16, 64, (30, 20)) / (64 if tau is None else 4), 0.0
    )
    sources, targets = np.nonzero(weights)
    shuffled = random.permutation(len(sources))
    pairs = (torch.from_numpy(sources[shuffled]), torch.from_numpy(targets[shuffled]))
    common: dict[str, Any] = {"delay": 0.5, "tau": tau}
    dense = Projection("a", "b", weights, **common)
    listed = Projection("a", "b", torch.from_numpy(weights)[pairs], pairs=pairs, **common)
    groups = [SpikeSource("a", 30, rate=100.0), NeuronGroup("b", 20)]
    first, second = (simulate(SpikingNetwork(groups, [connection]), 300.0, DT) for connection in (dense, listed))
    assert_equal(first, second)


def test_all_to_all_is_a_matrix_without_its_diagonal():
    full = np.full((6, 6), 0.25)
    np.fill_diagonal(full, 0.0)
    inputs = [PoissonInput("all", 2000.0, 0.25)]
    first, second = (
        simulate(SpikingNetwork([NeuronGroup("all", 6)], [Projection("all", "all", weight)], inputs), 200.0, DT)
        for weight in (0.25, full)
    )
    assert_equal(first, second)


# --- chance -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.02, 1.0, 4.0, 60.0])
def test_poisson_input_has_the_distribution_of_poisson(mean: float):
    network = SpikingNetwork(
        [NeuronGroup("all", 200, COUNTER)],
        inputs=[PoissonInput("all", 1000 * mean / DT, 1.0)],
        probes=[Probe("all", range(200))],
    )
    voltages = simulate(network, 30.0, DT).voltages["all"]
    events = voltages.diff(dim=0).round().numpy()
    counts = np.bincount(events.astype(int).ravel())
    expected = stats.poisson.pmf(np.arange(len(counts)), mean) * events.size
    common = expected > 20
    observed, wanted = (
        np.append(counts[common], counts[~common].sum()),
        np.append(expected[common], events.size - expected[common].sum()),
    )
    statistic = (
        ((observed - wanted) ** 2 / np.maximum(wanted, 1e-9)).sum()
        if wanted[-1] > 1
        else ((observed - wanted)[:-1] ** 2 / wanted[:-1]).sum()
    )
    assert stats.chi2.sf(statistic, common.sum()) > 1e-4
    # neither over time nor between neurons is there a correlation
    centred = events - events.mean()
    for product in (centred[1:] * centred[:-1], centred[:, 1:] * centred[:, :-1]):
        assert abs(product.mean()) < 5 * events.var() / math.sqrt(product.size)


def test_a_source_fires_at_its_rate_or_as_it_is_told():
    times, cells = np.array([0.1, 0.25, 3.0, 3.0, 3.0, 7.7]), np.array([1, 0, 2, 0, 2, 1])
    told = SpikeSource("told", 3, spikes=(times, cells))
    recording = simulate(
        SpikingNetwork([SpikeSource("random", 400, rate=50.0), told, NeuronGroup("all", 1)]), 2000.0, DT
    )
    assert recording.rate("random") == pytest.approx(50.0, abs=5 * math.sqrt(50.0 / 800))
    assert recording.spikes["told"].times.tolist() == pytest.approx(
        [0.1, 0.3, 3.0, 3.0, 7.7]
    )  # within a step: at its end; once
    assert recording.spikes["told"].neurons.tolist() == [1, 0, 0, 2, 1]


@given(st.integers(1, 30), st.integers(1, 30), st.floats(0, 1), st.booleans())
@settings(deadline=None, max_examples=30)
def test_random_connections_are_pairs_that_differ(sources: int, targets: int, probability: float, recurrent: bool):
    groups = [NeuronGroup("a", sources), NeuronGroup("b", targets)]
    connection = Projection("a", "a" if recurrent else "b", 0.5, probability=probability)
    synapses = SpikingSimulator(SpikingNetwork(groups, [connection]), seed=4).synapses(0)
    pairs = set(zip(synapses.sources.tolist(), synapses.targets.tolist(), strict=True))
    assert len(pairs) == len(synapses)
    assert all(0 <= source < sources and 0 <= target < (sources if recurrent else targets) for source, target in pairs)
    if recurrent:
        assert all(source != target for source, target in pairs)
    if probability in (0.0, 1.0):
        assert len(pairs) == probability * sources * (sources - 1 if recurrent else targets)


def test_each_pair_has_its_probability_and_each_target_its_fan_in():
    groups = [NeuronGroup("a", 300), NeuronGroup("b", 200)]
    drawn = SpikingSimulator(
        SpikingNetwork(groups, [Projection("a", "b", 1.0, probability=0.1), Projection("a", "a", 1.0, fan_in=25)])
    )
    count = len(drawn.synapses(0))
    assert abs(count - 6000) < 5 * math.sqrt(6000 * 0.9)
    for numbers, size in ((drawn.synapses(0).sources, 300), (drawn.synapses(0).targets, 200)):
        each = np.bincount(numbers, minlength=size)
        assert stats.chisquare(each).pvalue > 1e-4
    fan_in = drawn.synapses(1)
    assert np.bincount(fan_in.targets, minlength=300).tolist() == [25] * 300
    assert stats.chisquare(np.bincount(fan_in.sources, minlength=300)).pvalue > 1e-4
    assert all(
        np.all(np.diff(fan_in.targets[low:high]) > 0) for low, high in zip(fan_in.rows, fan_in.rows[1:], strict=False)
    )


# --- plasticity -------------------------------------------------------------------------------------------------------


def learning_network(rule: STDP, delay: float, seed: int, weight: float) -> SpikingNetwork:
    """Two cells with plastic synapses to three neurons, which spikes of other cells make fire."""
    random = np.random.default_rng(seed)
    before = SpikeSource("before", 2, spikes=(random.uniform(0.1, 100, 25), random.integers(0, 2, 25)))
    force = SpikeSource("force", 3, spikes=(random.uniform(0.1, 100, 25), random.integers(0, 3, 25)))
    return SpikingNetwork(
        [before, force, NeuronGroup("after", 3, LIFConfig(tau_ref=0.0))],
        [Projection("force", "after", 50.0 * np.eye(3)), Projection("before", "after", weight, delay=delay, stdp=rule)],
    )


def pairs_apart(
    recording: SpikingNetworkRecording, source: int, target: int, delay: float, back: float
) -> torch.Tensor:
    """t_post − t_arrival of all pairs at a synapse until 100 ms, [target spike, arrival]."""
    before, after = recording.spikes["before"], recording.spikes["after"]
    arrivals, fired = before.times[before.neurons == source] + delay, after.times[after.neurons == target] + back
    last = 100.0 + DT / 2
    return fired[fired <= last][:, None] - arrivals[arrivals <= last]


@given(
    st.integers(0, 100),
    st.integers(0, 40),
    st.floats(0.0, 1.0),
    st.floats(0.2, 40.0),
    st.floats(0.2, 40.0),
    st.integers(1, 3),
)
@settings(deadline=None, max_examples=30)
def test_stdp_is_the_sum_over_all_pairs(
    seed: int, delay: int, dendritic: float, tau_plus: float, tau_minus: float, threads: int
):
    """The shortest time constants move the moment of reference more than once."""
    back = DT * int(dendritic * delay)
    rule = STDP(
        potentiation=0.002,
        depression=0.003,
        tau_plus=tau_plus,
        tau_minus=tau_minus,
        low=-100.0,
        high=100.0,
        dendritic_delay=back,
    )
    recording = simulate(learning_network(rule, delay * DT, seed, weight=0.01), 100.0, DT, threads=threads)
    synapses = recording.synapses[1]
    for source, target, weight in zip(synapses.sources, synapses.targets, synapses.weights, strict=True):
        apart = pairs_apart(recording, int(source), int(target), delay * DT, 2 * back)
        change = torch.where(apart > DT / 2, rule.potentiation * torch.exp(-apart / tau_plus), 0.0).sum()
        change -= torch.where(apart < -DT / 2, rule.depression * torch.exp(apart / tau_minus), 0.0).sum()
        assert weight == pytest.approx(0.01 + change.item(), abs=1e-12)


@given(st.integers(0, 30), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([0.0, 0.4, 1.0]))
@settings(deadline=None, max_examples=15)
def test_stdp_keeps_to_its_bounds_and_its_weight_dependence_at_every_spike(seed: int, mu_plus: float, mu_minus: float):
    rule = STDP(potentiation=0.2, depression=0.25, low=0.1, high=0.6, mu_plus=mu_plus, mu_minus=mu_minus)
    recording = simulate(learning_network(rule, 1.0, seed, weight=0.4), 100.0, DT)
    synapses, (before, after) = recording.synapses[1], (recording.spikes["before"], recording.spikes["after"])
    for source, target, weight in zip(synapses.sources, synapses.targets, synapses.weights, strict=True):
        arrivals = (before.times[before.neurons == int(source)] + 1.0).tolist()
        fired = after.times[after.neurons == int(target)].tolist()
        w = 0.4
        # at one time first the arrival, then the spike of the target
        for time, kind in sorted(
            [(round(t / DT), 0) for t in arrivals if t < 100.05] + [(round(t / DT), 1) for t in fired]
        ):
            if kind == 0:
                trace = sum(
                    math.exp((round(t / DT) - time) * DT / rule.tau_minus) for t in fired if round(t / DT) < time
                )
                share = max(w - rule.low, 0.0) / (rule.high - rule.low)
                w = max(w - rule.depression * share**mu_minus * trace, rule.low)
            else:
                trace = sum(
                    math.exp((round(t / DT) - time) * DT / rule.tau_plus) for t in arrivals if round(t / DT) < time
                )
                share = max(rule.high - w, 0.0) / (rule.high - rule.low)
                w = min(w + rule.potentiation * share**mu_plus * trace, rule.high)
        assert weight == pytest.approx(w, abs=1e-9 if 0.4 in (mu_plus, mu_minus) else 1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_synapse_without_spikes_learns_from_all_that_its_target_fires(threads: int):
    """More of them than wait for a synapse at most; at the one that is too many, spikes arrive in every step."""
    rule = STDP(potentiation=0.002, depression=0.003, low=-100.0, high=100.0)
    beats = np.arange(5.0, 95.0, 0.6)
    often = beats[MOST_WAITING] + DT * np.arange(-5, 6)
    sent = np.array([3.0, 20.0, 98.0, *often]), np.array([0, 1, 0, *[2] * len(often)])
    network = SpikingNetwork(
        [
            SpikeSource("before", 3, spikes=sent),
            SpikeSource("force", 1, spikes=(beats, np.zeros(len(beats), int))),
            NeuronGroup("after", 3, LIFConfig(tau_ref=0.0)),
        ],
        [Projection("force", "after", 50.0), Projection("before", "after", 0.01, stdp=rule)],
    )
    simulator = SpikingSimulator(network, dt=DT, threads=threads)
    parts = [simulator.run(50.0), simulator.run(50.0)]
    whole = simulate(network, 100.0, DT, threads=3 - threads)
    np.testing.assert_array_equal(parts[1].synapses[1].weights, whole.synapses[1].weights)
    for source, target, weight in zip(
        *(getattr(whole.synapses[1], each) for each in ("sources", "targets", "weights")), strict=True
    ):
        apart = pairs_apart(whole, int(source), int(target), 0.0, 0.0)
        change = torch.where(apart > DT / 2, rule.potentiation * torch.exp(-apart / 20.0), 0.0).sum()
        change -= torch.where(apart < -DT / 2, rule.depression * torch.exp(apart / 20.0), 0.0).sum()
        assert len(apart) > MOST_WAITING
        assert weight == pytest.approx(0.01 + change.item(), abs=1e-12)


def test_a_spike_has_the_effect_that_its_synapse_had_before_it_learned():
    rule = STDP(potentiation=0.0, depression=0.5, low=-10.0, high=60.0)
    network = SpikingNetwork(
        [clicks(1.0, 2.0), NeuronGroup("all", 1, LIFConfig(tau_ref=0.0))],
        [Projection("click", "all", 50.0, stdp=rule)],
        probes=[Probe("all")],
    )
    recording = simulate(network, 5.0, DT)
    assert recording.spikes["all"].times.tolist() == pytest.approx([1.1, 2.1])
    assert recording.synapses[0].weights[0] == pytest.approx(50.0 - 0.5 * math.exp(-0.9 / 20.0))


# --- what is refused --------------------------------------------------------------------------------------------------

TWO = [NeuronGroup("a", 3), NeuronGroup("b", 2)]
REFUSED: list[tuple[Any, str]] = [
    (lambda: SpikingNetwork([SpikeSource("s", 1)]), "a network must have a group of neurons, but got none."),
    (
        lambda: SpikingNetwork([NeuronGroup("a", 1), NeuronGroup("a", 2)]),
        "groups must have different names, but got 'a' twice.",
    ),
    (lambda: SpikingNetwork([NeuronGroup("a", 0)]), "the size of the group 'a' must be at least 1, but got 0."),
    (
        lambda: SpikingNetwork([NeuronGroup("a", 2, start=np.zeros(3))]),
        "the initial voltages of 'a' must be 2, one for each neuron, but got 3 numbers.",
    ),
    (
        lambda: SpikingNetwork([NeuronGroup("excitatory", 1)], [Projection("exitatory", "excitatory", 1.0)]),
        "a group must be one of the network's, but got 'exitatory': did you mean 'excitatory'?",
    ),
    (
        lambda: SpikingNetwork([*TWO, SpikeSource("s", 1)], [Projection("a", "s", 1.0)]),
        "only neurons can be driven, connected to or watched, but got the source 's'.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", 1.0, probability=0.1, fan_in=2)]),
        "the connection a → b is made by a probability, a fan_in or pairs, but got probability and fan_in: give one "
        "of them.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", 1.0, probability=1.5)]),
        "the probability of the connection a → b must be at most 1, but got 1.5.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "a", 1.0, fan_in=3)]),
        "the fan_in of the connection a → a must be from 0 to 2, but got 3.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", np.ones((2, 3)))]),
        "the weights of the connection a → b must be 3×2, but got 2×3 numbers.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", 1.0, pairs=(np.array([0, 3]), np.array([0, 1])))]),
        "the sources of the connection a → b are numbers from 0 to 2, but got 3.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", np.ones((3, 2)), probability=0.5)]),
        "random synapses of the connection a → b must have one weight, but got 3×2 numbers: give pairs with a weight "
        "each.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", math.nan)]),
        "the weight of the connection a → b must be a number, but got nan.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", 0.5, delay=1.0, stdp=STDP(dendritic_delay=2.0))]),
        "the dendritic delay of the connection a → b must be a part of its delay, but got 2 of 1 ms.",
    ),
    (
        lambda: simulate(
            SpikingNetwork(TWO, [Projection("a", "b", 0.5, delay=1.0, stdp=STDP(dendritic_delay=0.25))]), 10.0
        ),
        "the dendritic delay of the connection a → b must be a whole number of steps, but got 0.25 ms in steps of "
        "0.1 ms.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", 2.0, stdp=STDP())]),
        "plastic weights of the connection a → b must be within 0 and 1, but got weights from 2 to 2.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", 1.0, delay=-1.0)]),
        "the delay of the connection a → b must be at least 0, but got -1.0.",
    ),
    (
        lambda: SpikingNetwork(TWO, [Projection("a", "b", 1.0, tau=0.0)]),
        "the tau of the connection a → b must be above 0, but got 0.0: leave it out for delta synapses.",
    ),
    (
        lambda: SpikingNetwork(TWO, inputs=[PoissonInput("a", -1.0, 1.0)]),
        "the rate of the Poisson input to 'a' must be at least 0, but got -1.0.",
    ),
    (
        lambda: SpikingNetwork(TWO, inputs=[CurrentInput("a", np.ones((5, 2)))]),
        "the current to 'a' must be one number, 3 numbers, or a row of 1 or 3 for each step, but got 5×2 numbers.",
    ),
    (lambda: SpikingNetwork(TWO, probes=[Probe("b", (2,))]), "a probe of 'b' watches neurons from 0 to 1, but got 2."),
    (
        lambda: SpikingNetwork([NeuronGroup("a", 1), SpikeSource("s", 1, rate=-2.0)]),
        "the rate of the group 's' must be at least 0, but got -2.0.",
    ),
    (lambda: STDP(tau_plus=0.0), "tau_plus must be above 0, but got 0.0."),
    (
        lambda: simulate(SpikingNetwork(TWO), 10.0, 0.0),
        "dt must be a time above 0 ms and not too long, but got 0: at most 20, for tau_m of 'a'.",
    ),
    (
        lambda: simulate(SpikingNetwork(TWO, [Projection("a", "b", 1.0, tau=5.0)]), 10.0, 8.0),
        "dt must be a time above 0 ms and not too long, but got 8: at most 5, for the tau of the connection a → b.",
    ),
    (
        lambda: simulate(SpikingNetwork([*TWO, SpikeSource("s", 1, rate=200.0)]), 10.0, 6.0),
        "dt must be a time above 0 ms and not too long, but got 6: at most 5, for one spike a step of 's'.",
    ),
    (
        lambda: simulate(SpikingNetwork(TWO, [Projection("a", "b", 1.0, delay=1.5)]), 10.0, 1.0),
        "the delay of the connection a → b must be a whole number of steps, but got 1.5 ms in steps of 1 ms.",
    ),
    (
        lambda: simulate(SpikingNetwork(TWO), 0.0, 1.0),
        "duration must be a time of at least one step, but got 0 ms in steps of 1 ms.",
    ),
    (
        lambda: simulate(SpikingNetwork(TWO, inputs=[CurrentInput("a", np.ones((5, 1)))]), 1.0, 0.1),
        "the changing current to 'a' must last for 10 steps, but got 5.",
    ),
]


@pytest.mark.parametrize(("mistake", "sentence"), REFUSED, ids=[sentence[:40] for _, sentence in REFUSED])
def test_a_mistake_gets_one_sentence(mistake: Any, sentence: str):
    with pytest.raises(InputError) as error:
        mistake()
    assert str(error.value) == sentence


def test_the_documentation_that_people_are_shown_lists_every_key_of_a_file():
    import neuropil.models.spiking.network as module

    shown = list_keys(KEYS.sections)
    assert shown in (module.__doc__ or "")
    for keys in (*KEYS.sections.values(), KEYS.lists["connections"]["stdp"].keys):
        for name, key in keys.items():
            assert f"{name} " in shown
            assert key.help in shown


def test_progress_is_told_and_an_interrupt_ends_the_run():
    class EnoughError(Exception):
        pass

    shares: list[float] = []

    def stop_early(share: float) -> None:
        shares.append(share)
        raise EnoughError

    network = SpikingNetwork([NeuronGroup("all", 500)], inputs=[PoissonInput("all", 1000.0, 0.1)])
    with pytest.raises(EnoughError):
        simulate(network, 1e7, DT, threads=2, progress=stop_early)
    assert 0 <= shares[0] < 1
