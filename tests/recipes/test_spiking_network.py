"""The recipe on the embedded network and on a person's file."""

from pathlib import Path

import numpy as np
import pytest
import torch

from neuropil.data.networks.files import EMBEDDED
from neuropil.errors import InputError
from neuropil.inspection.report.page import Picture, Table
from neuropil.inspection.spike_statistics import firing, poisson_twin, trains_of
from neuropil.models.lif import LIFConfig
from neuropil.models.spiking.description import load_network
from neuropil.models.spiking.network import (
    STDP,
    CurrentInput,
    NeuronGroup,
    PoissonInput,
    Probe,
    Projection,
    SpikeSource,
)
from neuropil.recipes.spiking_network import SpikingNetworkOptions, build
from neuropil.tasks.study import Study

EXAMPLES = Path(__file__).parents[2] / "examples"


def studied(folder: Path, **options: object) -> Study:
    study = build(SpikingNetworkOptions(**options), seed=0)  # type: ignore[arg-type]  # checked by the Config itself
    study.train(folder, show_progress=False)
    return study


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("spiking")
    return studied(folder, duration=400.0), folder


def test_the_embedded_network_fires_irregularly_at_moderate_rates_and_not_together(embedded: tuple[Study, Path]):
    results = {result.name: result.metrics for result in embedded[0].evaluate()}
    assert list(results) == [
        "excitatory",
        "excitatory, Poisson",
        "inhibitory",
        "inhibitory, Poisson",
    ]
    for group in ("excitatory", "inhibitory"):
        own, random = results[group], results[f"{group}, Poisson"]
        assert 1 < own["rate_hz"] < 60
        assert own["rate_hz"] == pytest.approx(random["rate_hz"])
        assert 0.4 < own["cv"] < 1.6
        assert own["synchrony"] < 0.6


def test_the_folder_holds_spikes_and_voltages(embedded: tuple[Study, Path]):
    with (
        np.load(embedded[1] / "spikes.npz", allow_pickle=False) as spikes,
        np.load(embedded[1] / "traces.npz", allow_pickle=False) as traces,
    ):
        assert set(spikes) == {"excitatory_times", "excitatory_neurons", "inhibitory_times", "inhibitory_neurons"}
        assert traces["excitatory_voltages"].shape == (4000, 3)
        assert traces["times"][0] == pytest.approx(200.1)  # after it has settled
        times = spikes["excitatory_times"][spikes["excitatory_neurons"] == 0]
        steps = np.round((times - 200.0) / 0.1).astype(int) - 1
        assert np.all(traces["excitatory_voltages"][steps, 0] == 0.0)  # reset


def test_the_report_draws_spikes_membranes_and_statistics(embedded: tuple[Study, Path]):
    sections = {section.title: section.blocks for section in embedded[0].findings.sections}
    assert list(sections) == ["Raster", "Membrane voltages", "Firing statistics", "The network"]
    assert sum(isinstance(block, Picture) for blocks in sections.values() for block in blocks) == 4
    assert sum(isinstance(block, Table) for blocks in sections.values() for block in blocks) == 3


def test_a_file_becomes_the_network_that_it_describes(tmp_path: Path):
    text = """
    [groups.cells]
    size = 4
    tau_m = 15
    start = [0, 1]
    [groups.input]
    size = 2
    rate = 9
    [[connections]]
    from = "input"
    to = "cells"
    weight = 0.5
    fan_in = 2
    tau = 5.0
    stdp = { high = 2.0 }
    [[poisson]]
    to = "cells"
    rate = 10
    weight = 0.1
    [[currents]]
    to = "cells"
    amount = 2
    [[probes]]
    group = "cells"
    """
    path = tmp_path / "x.toml"
    path.write_text(text)
    network = load_network(path)
    assert list(network.groups) == [NeuronGroup("cells", 4, LIFConfig(tau_m=15), (0, 1)), SpikeSource("input", 2, 9)]
    assert list(network.connections) == [Projection("input", "cells", 0.5, fan_in=2, tau=5.0, stdp=STDP(high=2.0))]
    assert list(network.inputs) == [PoissonInput("cells", 10, 0.1), CurrentInput("cells", 2.0)]
    assert list(network.probes) == [Probe("cells", (0,))]


def test_the_example_of_the_embedded_network_is_that_network():
    assert (EXAMPLES / "network.toml").read_text(encoding="utf-8") == EMBEDDED.read_text(encoding="utf-8")


def test_the_example_of_plasticity_learns(tmp_path: Path):
    study = studied(tmp_path, network=EXAMPLES / "plasticity.toml", duration=2000.0, settle=0.0)
    (learned,) = [section for section in study.findings.sections if section.title == "Synaptic plasticity"]
    (table,) = [block for block in learned.blocks if isinstance(block, Table)]
    name, before, after, spread = table.rows[0]
    assert name == "the connection input → neuron"
    assert before != after
    assert float(spread) > 0


def test_steps_that_are_too_long_and_files_that_are_wrong_are_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(InputError) as error:
        build(SpikingNetworkOptions(dt=7.0), seed=0)
    expected = "at most 5, for the tau of the connection excitatory → excitatory"
    assert str(error.value) == f"dt must be a time above 0 ms and not too long, but got 7: {expected}."
    with pytest.raises(InputError, match=r"a network is described by a TOML file"):
        build(SpikingNetworkOptions(network=tmp_path / "none.toml"), seed=0)


def test_a_random_twin_fires_as_often_and_keeps_its_neurons():
    from neuropil.models.spiking.network import SpikingNetwork, simulate

    network = SpikingNetwork(
        [NeuronGroup("a", 5), NeuronGroup("b", 3)], inputs=[CurrentInput("a", 1.5), CurrentInput("b", 2.0)]
    )
    recording = simulate(network, 300.0)
    trains = trains_of(recording, "a", "b")
    twin = poisson_twin(trains, seed=0)
    assert (trains.num_neurons, trains.duration) == (8, pytest.approx(300.0))
    assert torch.equal(torch.bincount(twin.neurons), torch.bincount(trains.neurons))
    assert firing(trains)["cv"] < 0.01 < 0.5 < firing(twin)["cv"]
