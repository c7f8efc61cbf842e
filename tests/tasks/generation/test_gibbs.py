"""What a report says of the updates of single units, of machines whose minima are known."""

import pytest
import torch

from neuropil.inspection.report.page import Text
from neuropil.inspection.report.rbm import updates_section
from neuropil.models.rbm import RBM, RBMConfig
from neuropil.tasks.generation.gibbs import ANNEALED, energies_of_updates

VISIBLE = 20


def machine(weight: float, visible_bias: float, hidden_bias: float) -> RBM:
    model = RBM(RBMConfig(shape=(VISIBLE,), hidden_size=1))
    with torch.no_grad():
        model.weight.fill_(weight)
        model.visible_bias.fill_(visible_bias)
        model.hidden_bias.fill_(hidden_bias)
    return model


def words_of(model: RBM) -> str:
    paths = energies_of_updates(model, torch.Generator().manual_seed(0))
    assert paths is not None
    stuck = paths.stuck(paths.deterministic), paths.stuck(paths.stochastic)
    text = updates_section(*paths, lowest=paths.lowest, stuck=stuck, temperatures=ANNEALED).blocks[0]
    assert isinstance(text, Text)
    return text.text


def test_of_two_minima_deterministic_updates_stay_in_the_higher_one():
    """All units off have an energy of 0, and all on one of 15 − 20 (2 − 1) = −5: between them the hidden unit flips."""
    words = words_of(machine(2.0, -1.0, -15.0))
    assert "no unit can lower it further, and 0 % of" not in words
    assert "in 1,000 sweeps, it is 0 %. Noise leaves minima in which deterministic updates get stuck." in words


def test_of_one_minimum_it_says_that_nothing_got_stuck():
    words = words_of(machine(0.0, 1.0, 1.0))
    assert "after 2 sweeps no unit can lower it further, and 0 % of the states are stuck" in words
    assert words.endswith("in 1,000 sweeps, it is 0 %. All reach the same energy: no other minimum was met.")


@pytest.mark.parametrize(
    "config", [RBMConfig(shape=(4,), visible="gaussian"), RBMConfig(shape=(1000,), hidden_size=1001)]
)
def test_gaussian_units_and_too_many_are_not_compared(config: RBMConfig):
    assert energies_of_updates(RBM(config), torch.Generator()) is None
