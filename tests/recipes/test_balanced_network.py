"""The four regimes differ as the paper says, in a network a tenth as large."""

from pathlib import Path

import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.recipes.balanced_network import BalancedNetworkOptions, build
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
