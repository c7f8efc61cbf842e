"""What is done to an axon, what comes out of it, and what a run leaves in its folder."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.report.page import Number, Numbers, Picture, Table, Text
from neuropil.recipes.hodgkin_huxley import RECIPE, HodgkinHuxleyOptions
from neuropil.tasks.study import Study


def options_with(**values: Any) -> HodgkinHuxleyOptions:
    return HodgkinHuxleyOptions().override(**({"dt": 0.05, "duration": 40.0} | values))


def study_in(folder: Path, **values: Any) -> Study:
    study = RECIPE.build(options_with(**values), 0)
    assert isinstance(study, Study)
    study.train(folder, show_progress=False)
    return study


def words_of(study: Study, title: str) -> str:
    (section,) = (section for section in study.findings.sections if section.title == title)
    return " ".join(block.text for block in section.blocks if isinstance(block, Text))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("axon")


@pytest.fixture(scope="module")
def study(folder: Path) -> Study:
    return study_in(folder)


def test_the_staggered_step_is_better_than_euler_for_the_same_work(study: Study):
    own, euler, rk4, truth, *_ = study.evaluate()
    assert [own.name, euler.name] == ["staggered, steps of 0.05 ms", "exponential Euler, steps of 0.05 ms"]
    assert own.metrics["ms_of_spike_time_error"] < 0.1 * euler.metrics["ms_of_spike_time_error"]
    assert rk4.metrics["ms_of_spike_time_error"] < 0.01
    assert truth.metrics == {"ms_of_spike_time_error": 0.0, "spikes": 7.0}


def test_every_current_has_a_row_of_what_its_neuron_does(study: Study, folder: Path):
    rows = {result.name: result.metrics for result in study.evaluate()[4:]}
    assert [*rows] == ["3 µA/cm²", "7 µA/cm²", "10 µA/cm²", "30 µA/cm²"]
    with np.load(folder / "spikes.npz") as spikes, np.load(folder / "traces.npz") as traces:
        for neuron, row in enumerate(rows.values()):
            times = spikes["times"][spikes["neurons"] == neuron]
            assert row["peak_mv"] == traces["voltages"][:, neuron].max()
            assert row["latency_ms"] == times[0]
            assert row["rate_hz"] == pytest.approx(1000 / np.diff(times).mean() if len(times) > 1 else 0.0)
    assert rows["30 µA/cm²"]["latency_ms"] < rows["7 µA/cm²"]["latency_ms"]


def test_a_current_that_is_too_weak_has_no_latency(tmp_path: Path):
    *_, weak, strong = study_in(tmp_path, currents=(1.0, 20.0)).evaluate()
    assert weak.metrics.keys() == {"rate_hz", "peak_mv"}
    assert strong.metrics.keys() == {"rate_hz", "peak_mv", "latency_ms"}
    assert weak.metrics["peak_mv"] < 0 < strong.metrics["peak_mv"]


def test_every_part_of_the_report_has_its_picture(study: Study):
    sections = study.findings.sections
    assert [section.title for section in sections] == [
        "An action potential",
        "Gates",
        "The threshold",
        "The refractory period",
        "f–I curve",
        "Given currents",
        "Integration error",
    ]
    assert all(any(isinstance(block, Picture) for block in section.blocks) for section in sections)


def test_an_action_potential_lies_between_the_reversal_potentials(study: Study):
    (facts,) = (block for block in study.findings.sections[0].blocks if isinstance(block, Numbers))
    values = {
        fact.label: float(fact.value.removesuffix(" mV").replace("−", "-"))
        for fact in facts.items
        if isinstance(fact, Number)
    }
    assert -77 < values["lowest"] < values["rest"] < values["takes off at"] < 0 < values["peak"] < 50


def test_spikes_and_traces_are_there_for_other_programs(study: Study, folder: Path):
    with np.load(folder / "spikes.npz") as spikes, np.load(folder / "traces.npz") as traces:
        assert set(spikes["neurons"].tolist()) == {0, 1, 2, 3}
        assert traces["times"][[0, -1]].tolist() == pytest.approx([0.05, 40])
        assert traces["currents"].shape == traces["voltages"].shape == traces["h"].shape == (800, 4)
        first = spikes["times"][0]
        step = int(first / 0.05)
        assert traces["voltages"][step - 1, spikes["neurons"][0]] < 0 <= traces["voltages"][step, spikes["neurons"][0]]


def test_a_membrane_without_sodium_has_no_threshold_and_the_report_says_so(tmp_path: Path):
    study = study_in(tmp_path, sodium=0.0)
    assert "It answers no pulse of 1 ms up to 59 µA/cm² with a spike" in words_of(study, "No threshold")
    assert words_of(study, "f–I curve") == "No constant current up to 100 µA/cm² makes this membrane fire on and on."
    assert study.evaluate()[0].metrics == {"ms_of_spike_time_error": 0.0, "spikes": 0.0}


@pytest.mark.parametrize("values", [{"leak_reversal": -20.0}, {"temperature": 18.5, "dt": 0.02}, {"fires_at": -60.0}])
def test_other_membranes_get_a_report_too(values: dict[str, Any], tmp_path: Path):
    study = study_in(tmp_path, currents=(10.0,), **values)
    assert len(study.findings.sections) >= 5
    assert all(math.isfinite(value) for result in study.evaluate() for value in result.metrics.values())


def test_currents_of_a_file_are_used_step_by_step(tmp_path: Path):
    path = tmp_path / "currents.csv"
    path.write_text("time,weak,late\n0,2,0\n20,2,15\n", encoding="utf-8")
    study = study_in(tmp_path, drive=path)
    (section,) = (section for section in study.findings.sections if section.title == "Given currents")
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert [row[0] for row in table.rows] == ["weak", "late"]
    with np.load(tmp_path / "spikes.npz") as spikes, np.load(tmp_path / "traces.npz") as traces:
        assert (spikes["times"][spikes["neurons"] == 1] > 20).all()
        assert traces["currents"][[399, 400], 1].tolist() == [0, 15]
    assert study.facts() == {"source": "currents of currents.csv"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"dt": 0.2},
            "a step of staggered must not skip the opening of a gate, but got dt = 0.2 ms: the largest that works is "
            "0.11 ms.",
        ),
        (
            {"dt": 0.05, "method": "rk4", "currents": (-20.0,)},
            "a step of rk4 must be stable, but got dt = 0.05 ms: the largest that works is 0.03 ms.",
        ),
        ({"currents": ()}, "--currents needs at least one number, but got none."),
        ({"currents": (math.inf,)}, "currents must be finite, but got inf."),
        (
            {"currents": (7.0,), "drive": "currents.csv"},
            "--currents has no effect beside --drive: leave one of them out.",
        ),
    ],
)
def test_options_that_do_not_fit_get_their_sentence(values: dict[str, Any], message: str):
    with pytest.raises(InputError) as error:
        options_with(**values)
    assert str(error.value) == message


def test_a_file_with_a_current_too_negative_for_the_step_is_refused_before_anything_is_written(tmp_path: Path):
    path = tmp_path / "currents.csv"
    path.write_text("a\n-30\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        RECIPE.build(options_with(method="rk4", drive=path), 0)
    assert str(error.value).startswith("a step of rk4 must be stable, but got dt = 0.05 ms: the largest that works is ")


def test_a_run_that_would_not_fit_into_memory_is_refused():
    with pytest.raises(InputError) as error:
        RECIPE.build(options_with(duration=1e6), 0)
    assert (
        str(error.value)
        == "a run keeps up to 20,000,000 voltages, but got 80,000,000: make it shorter, or its steps longer."
    )


# --- rest and pump ----------------------------------------------------------------------------------------------------


def test_rest_can_be_put_at_minus_70_millivolts(tmp_path: Path, study: Study):
    lower = study_in(tmp_path, resting_potential=-70.0)
    (facts,) = (block for block in lower.findings.sections[0].blocks if isinstance(block, Numbers))
    values = {item.label: item for item in facts.items}
    assert values["rest"].value == "−70.0 mV"
    assert values["lowest"].note == "E_K is −82.0 mV"
    for own, other in zip(lower.evaluate()[4:], study.evaluate()[4:], strict=True):
        assert own.metrics["peak_mv"] == pytest.approx(other.metrics["peak_mv"] - 5, abs=1e-6)


def test_with_a_pump_the_report_says_what_it_restores_and_what_runs_down_without(tmp_path: Path):
    study = study_in(tmp_path, pump=True, diameter=2.0)
    words = words_of(study, "The sodium–potassium pump")
    (section,) = (section for section in study.findings.sections if section.title == "The sodium–potassium pump")
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    kept, lost = table.rows
    assert [kept[0], lost[0]] == ["with the pump", "pump blocked"]
    assert f"with the pump {kept[1]} spikes" in words
    assert f"blocked there are {lost[1]} spikes" in words
    assert float(kept[2]) > float(kept[3])  # sodium at most, and at the end
    assert float(lost[2]) == float(lost[3])
    assert float(str(lost[4]).replace("−", "-")) < float(str(kept[4]).replace("−", "-"))  # E_Na
    assert any(isinstance(block, Picture) for block in section.blocks)


def test_concentrations_and_diameter_have_an_effect_beside_a_pump_alone():
    idle = options_with().idle_options()
    assert idle == dict.fromkeys(("diameter", "sodium_outside", "potassium_inside"), "an axon without --pump")
    assert options_with(pump=True).idle_options() == {}


def test_a_pump_that_cannot_balance_the_membrane_is_refused_before_anything_runs():
    with pytest.raises(InputError) as error:
        options_with(pump=True, leak_reversal=-90.0)
    assert str(error.value).startswith("a pump must balance the sodium and the potassium that leak at rest")
