"""The four regimes differ as the paper says, in a network a tenth as large."""

from pathlib import Path

import numpy as np
import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.spike_statistics import SpikeTrains
from neuropil.models.balanced_network import BalancedNetworkConfig
from neuropil.recipes.balanced_network import (
    BalancedNetworkOptions,
    ObservedRegime,
    _regime_words,
    _theory_words,
    build,
)
from neuropil.tasks.study import Study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("balanced")
    study = build(BalancedNetworkOptions(neurons=1250, duration=400.0, settle=100.0), seed=0)
    study.train(folder, show_progress=False)
    return study, folder


def test_results_stand_beside_theory_and_paper(study: tuple[Study, Path]):
    names = [result.name for result in study[0].evaluate()]
    assert names[:3] == ["AI", "AI, theory", "AI, published"]
    assert set(names[3:]) == {
        *("SR", "SR, theory"),
        *("SI, fast", "SI, fast, theory", "SI, fast, published"),
        *("SI, slow", "SI, slow, theory", "SI, slow, published"),
    }


def test_regimes_differ_in_regularity_and_synchrony(study: tuple[Study, Path]):
    found = {result.name: result.metrics for result in study[0].evaluate()}
    assert found["SR"]["cv"] < 0.3 < 0.5 < found["AI"]["cv"]
    assert found["SR"]["synchrony"] > found["AI"]["synchrony"]
    assert found["SI, slow"]["rate_hz"] < found["AI"]["rate_hz"] < found["SR"]["rate_hz"]
    assert found["AI"]["rate_hz"] == pytest.approx(found["AI, theory"]["rate_hz"], rel=0.2)


def test_spikes_of_all_regimes_are_kept(study: tuple[Study, Path]):
    with np.load(study[1] / "spikes.npz", allow_pickle=False) as file:
        assert {name.rsplit("_", 1)[0] for name in file} == {"SR", "SI_fast", "AI", "SI_slow"}


def test_a_step_that_does_not_divide_the_delay_is_refused():
    with pytest.raises(InputError) as error:
        build(BalancedNetworkOptions(dt=0.4), seed=0)
    expected = "the delay of the connection excitatory → excitatory must be a whole number of steps"
    assert str(error.value) == f"{expected}, but got 1.5 ms in steps of 0.4 ms."


def observed(theory: float = 10.0, **metrics: float) -> ObservedRegime:
    trains = SpikeTrains(torch.zeros(0), torch.zeros(0, dtype=torch.int64), 1, 1.0)
    return ObservedRegime(BalancedNetworkConfig(neurons=400), trains, metrics, theory)


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (
            {"cv": 0.8, "synchrony": 0.06},
            "asynchronous and irregular firing (CV 0.8, synchrony 0.06, 0.05 if independent)",
        ),
        ({"cv": 0.1, "synchrony": 0.5}, "synchronous and regular firing (CV 0.1, synchrony 0.5, 0.05 if independent)"),
        ({}, "too few spikes were recorded to say"),
    ],
)
def test_a_regime_is_called_what_was_measured(metrics: dict[str, float], words: str):
    assert words in _regime_words("AI", observed(**metrics))


def test_the_distance_from_the_theory_is_that_of_each_regime():
    found = _theory_words({"AI": observed(rate_hz=11.0), "SR": observed(rate_hz=5.0), "SI, slow": observed()})
    assert "`AI` +10 % here and " in found
    assert "`SR` −50 % here" in found
