"""What is done to an axon, and how it answers."""

import math

import pytest
import torch

from neuropil.models.hodgkin_huxley.axon import PULSE_AT, Axon, least, phases_of
from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxleyConfig


def test_one_per_cent_decides_between_nothing_and_a_whole_spike():
    axon = Axon(HodgkinHuxleyConfig(), dt=0.05)
    threshold = axon.threshold()
    assert threshold is not None
    strengths = torch.tensor([0.99, 1.01], dtype=torch.double) * threshold
    recording = axon.run(axon.pulse(strengths, 30), 30, watch=True)
    below, above = recording.voltages.max(0).values.tolist()
    assert below < -50
    assert above > 20


def test_a_short_pulse_needs_a_strength_that_goes_as_one_over_its_width():
    short, shorter = Axon(HodgkinHuxleyConfig()).least_strength(torch.tensor([0.1, 0.2], dtype=torch.double)).tolist()
    assert short / shorter == pytest.approx(2, rel=0.05)


def test_a_second_pulse_is_refused_at_first_then_must_be_stronger_then_need_not_be():
    axon = Axon(HodgkinHuxleyConfig(), dt=0.05)
    threshold = axon.threshold()
    assert threshold is not None
    ratios = (
        axon.least_second_strength(torch.tensor([4.0, 11.0, 15.0, 19.0], dtype=torch.double), threshold) / threshold
    ).tolist()
    assert math.isnan(ratios[0])
    assert ratios[1] > ratios[2] > 1 > ratios[3]


def test_the_least_that_is_enough_is_found_for_every_case_at_once():
    needed = torch.tensor([0.0, 1.0, 3.7, 200.0], dtype=torch.double)
    found = least(lambda strength: strength >= needed, torch.full_like(needed, 10.0))
    assert found.tolist() == pytest.approx([0, 1, 3.7, math.nan], abs=1e-3, nan_ok=True)


def test_phases_follow_each_other_and_turn_where_the_voltage_does():
    axon = Axon(HodgkinHuxleyConfig(), dt=0.05)
    recording = axon.run(axon.pulse(torch.tensor([12.0], dtype=torch.double), 30), 30, watch=True)
    times, voltage = axon.times(recording), recording.voltages[:, 0]
    outward = torch.stack(list(axon.model.ionic_currents(recording).values())).sum(0)[:, 0]
    phases = phases_of(times, voltage, outward, axon.model.rest, PULSE_AT)
    names, begins, ends = zip(*phases, strict=True)
    assert len(names) == 6
    assert begins[1:] == ends[:-1]
    assert begins[3] == times[voltage.argmax()]
    assert begins[1] == PULSE_AT
    rising = (times > begins[2]) & (times < ends[2])
    assert (outward[rising] < 0).all()
    undershoot = (times > begins[4]) & (times < ends[4])
    assert (voltage[undershoot] < axon.model.rest).all()
