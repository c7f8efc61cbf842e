"""A simulation in chunks is that of one call, to the bit, and ends soon after Ctrl-C."""

import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from neuropil.models.hodgkin_huxley import chunks
from neuropil.models.hodgkin_huxley.chunks import Spikes, march_in_chunks
from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxley, HodgkinHuxleyConfig
from neuropil.models.hodgkin_huxley.pump import PumpConfig, PumpedAxon

MODEL = HodgkinHuxley(HodgkinHuxleyConfig())
CURRENTS = torch.linspace(5, 40, 150, dtype=torch.double)  # for more neurons than go at once


@pytest.mark.parametrize("neuron_steps", [1, 1_000, 100_000])
def test_chunks_change_no_bit(neuron_steps: int, monkeypatch: pytest.MonkeyPatch):
    def recordings() -> list[torch.Tensor]:
        plain = MODEL.simulate(CURRENTS, duration=30, dt=0.05, watch=torch.tensor([0, 140]))
        changing = MODEL.simulate(torch.rand(600, 3, generator=torch.manual_seed(0)) * 40, duration=30, dt=0.05)
        ions = PumpedAxon(MODEL, PumpConfig(diameter=1.0)).simulate(CURRENTS[50::40], duration=60, dt=0.05, every=0.35)
        parts = (*vars(plain).values(), *vars(changing).values(), *vars(ions).values())
        return [part for part in parts if isinstance(part, torch.Tensor)]

    whole = recordings()
    monkeypatch.setattr(chunks, "NEURON_STEPS", neuron_steps)
    for expected, found in zip(whole, recordings(), strict=True):
        assert torch.equal(expected, found)
    assert [len(whole[place]) > 2 for place in (0, 6, 12)] == [True] * 3  # spikes of each


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Also where whoever started the tests had interrupts ignored, as a shell does of what runs behind it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_ends_what_is_under_way_with_its_chunk(threads: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "NEURON_STEPS", 1)
    begun: list[tuple[int, int]] = []

    def march(first: int, last: int, begin: int, end: int) -> Spikes:
        begun.append((first, begin))
        if (first, begin) == (0, 3):
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)
        return np.empty(0), np.empty(0, int)

    with pytest.raises(KeyboardInterrupt):
        march_in_chunks(march, 4, 10_000, at_once=1, threads=threads)
    assert {first for first, _ in begun} <= set(range(threads))  # no other neuron is begun
    assert max(begin for _, begin in begun) < 9_999
