from pathlib import Path

import pytest
import torch

from neuropil.models.hopfield.network import HopfieldNetwork, HopfieldNetworkConfig
from neuropil.models.hopfield.rules import RULES
from neuropil.recipes.hopfield import HopfieldOptions, build
from neuropil.tasks.recall.experiment import RecallConfig


@pytest.mark.parametrize("bias", [False, True])
def test_other_rules_are_compared_with_a_bias_where_the_network_has_one(
    bias: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = HopfieldNetworkConfig(rule="hebb", bias=bias)
    experiment = build(HopfieldOptions(model=model, recall=RecallConfig(patterns=3)), 0)
    experiment.train(tmp_path, show_progress=False)
    compared = list[HopfieldNetwork]()
    recalled = experiment.recalled
    monkeypatch.setattr(experiment, "recalled", lambda *given: (compared.append(given[0]), recalled(*given))[1])
    experiment.evaluate()
    assert {network.config.rule for network in compared} == set(RULES)
    assert all(torch.equal(network.bias, experiment.memory.model.bias) for network in compared)
    assert experiment.memory.model.bias.any() == bias
