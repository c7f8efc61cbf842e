"""What a simulation of the textbook's neuron finds, and what it leaves in its folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neuropil
from neuropil.errors import InputError
from neuropil.runs.run import Run


def simulated(tmp_path: Path, **options: Any) -> Run:
    return neuropil.simulate("lif", out=tmp_path / "run", show_progress=False, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return simulated(tmp_path_factory.mktemp("lif"))


def test_the_formula_holds_and_the_grid_is_a_little_off(run: Run):
    exact, formula, grid, *_ = run.results
    assert [exact.name, formula.name, grid.name] == ["exact spike times", "the formula", "spikes on the grid"]
    assert exact.metrics["largest_rate_error"] < 1e-9
    assert 1e-4 < grid.metrics["largest_rate_error"] < 0.05
    assert formula.metrics["mean_rate_hz"] == exact.metrics["mean_rate_hz"] > grid.metrics["mean_rate_hz"]


def test_every_input_has_a_row_with_the_rate_and_the_latency_of_the_formula(run: Run):
    """A membrane that starts at rest reaches the threshold after -τ ln(1 - 1/v)."""
    rows = {result.name: result.metrics for result in run.results[3:]}
    assert [*rows] == ["v_in = 0.95", "v_in = 1.05", "v_in = 1.3", "v_in = 2", "v_in = 4"]
    assert rows.pop("v_in = 0.95") == {"rate_hz": 0.0}
    for value, row in zip((1.05, 1.3, 2, 4), rows.values(), strict=True):
        latency = -20 * np.log(1 - 1 / value)
        assert row["latency_ms"] == pytest.approx(latency)
        assert row["rate_hz"] == pytest.approx(1000 / (latency + 2))


def test_spikes_and_traces_are_there_for_other_programs(run: Run):
    with np.load(run.folder / "spikes.npz") as spikes, np.load(run.folder / "traces.npz") as traces:
        assert spikes["times"].shape == spikes["neurons"].shape
        assert set(spikes["neurons"].tolist()) == {1, 2, 3, 4}  # an input of 0.95 never fires
        assert traces["voltages"].shape == (2000, 5)
        assert traces["times"][[0, -1]].tolist() == pytest.approx([0.1, 200])
        assert traces["inputs"].tolist() == [0.95, 1.05, 1.3, 2.0, 4.0]


def test_the_report_shows_all_parts_with_their_units(run: Run):
    page = run.report.read_text()
    for title in (
        "Membrane voltage",
        "Tuning curve",
        "Raster",
        "Refractory period",
        "Changing input",
        "Synapses",
    ):
        assert title in page
    for unit in ("time (ms)", "rate (Hz)", "h(t) (1/ms)", "v (threshold = 1)"):
        assert unit in page
    assert "neuropil simulate lif" in page


def test_a_neuron_in_millivolts_is_simulated_in_millivolts(tmp_path: Path):
    run = simulated(
        tmp_path, rest=-65.0, threshold=-50.0, reset=-65.0, inputs=[2.0], duration=50, orders=[0], spike_times="grid"
    )
    with np.load(run.folder / "traces.npz") as traces:
        assert traces["inputs"].tolist() == [30.0]
        assert -65.001 < traces["voltages"].min() < traces["voltages"].max() <= -50
    page = run.report.read_text()
    assert "v (mV)" in page
    assert "v_in = 30 mV" in page
    assert run.results[0].name == "spikes on the grid"


def test_inputs_of_a_file_are_simulated_and_named(tmp_path: Path):
    (tmp_path / "drive.csv").write_text("time,weak,strong\n0,0.5,0\n20,0.5,3\n")
    run = simulated(tmp_path, drive=str(tmp_path / "drive.csv"), duration=60, dt=0.5)
    with np.load(run.folder / "spikes.npz") as spikes:
        assert set(spikes["driven_neurons"].tolist()) == {1}
        assert spikes["driven_times"].min() == pytest.approx(20 + 20 * np.log(3 / 2))
    page = run.report.read_text()
    assert "on inputs of drive.csv" in page
    assert "strong" in page


def test_a_long_simulation_is_kept_whole_and_drawn_in_part(tmp_path: Path):
    run = simulated(tmp_path, inputs=[0.5], duration=5000, dt=1.0, orders=[0])  # which never fires, and is no error
    with np.load(run.folder / "traces.npz") as traces:
        assert traces["times"][-1] == 5000
    assert ">500<" in run.report.read_text()
    assert ">4000<" not in run.report.read_text()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"duration": -100.0}, "duration must be a time of at least one step, but got -100 ms in steps of 0.1 ms."),
        (
            {"dt": 30.0},
            "dt must be a time above 0 ms and no longer than the time constants allow, but got 30: the largest that "
            "works for tau_m=20 and tau_ref=2 is 20.",
        ),
        ({"dt": 10.0}, "dt must be no longer than the synapses last, but got 10: the largest that works is 5."),
        (
            {"duration": 1e9},
            "a simulation may have up to 2,000,000 steps, but got 10,000,000,000: make --duration shorter or --dt "
            "longer.",
        ),
        ({"inputs": ()}, "--inputs needs at least one number, but got none."),
        ({"orders": ()}, "--orders needs at least one number, but got none."),
        ({"orders": (21,)}, "a synapse must be of an order from 0 to 20, but got order=21."),
        (
            {"rest": 2.0},
            "a neuron whose input is counted in units of its rheobase must rest below its threshold, but got rest=2 "
            "and threshold=1.",
        ),
        ({"drive": "no.csv"}, "inputs over time must be in a file that exists, but got 'no.csv'."),
    ],
)
def test_what_cannot_be_simulated_is_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, Any], sentence: str
):
    with pytest.raises(InputError) as error:
        simulated(tmp_path, **wrong)
    assert str(error.value) == sentence
    assert list(tmp_path.iterdir()) == []
