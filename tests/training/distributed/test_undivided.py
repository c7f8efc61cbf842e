from pathlib import Path

import pytest

from training.distributed.forked import ForkedGroups


@pytest.mark.parametrize("system", ["gpt2"])
def test_a_divided_model_is_written_as_its_whole_would_be_and_made_whole_again(
    groups: ForkedGroups, tmp_path: Path, system: str
):
    assert (
        groups.run("written", 2, system=system, folder=str(tmp_path), data=2, tensor=1)
        == [{"bytes": True, "weights": True, "loss": True, "modules": True}] * 2
    )


@pytest.mark.slow
@pytest.mark.parametrize("system", ["gpt2", "bert", "bert_classifier", "transformer", "vit", "clip"])
def test_every_transformer_is_written_and_made_whole_again(groups: ForkedGroups, tmp_path: Path, system: str):
    assert (
        groups.run("written", 4, system=system, folder=str(tmp_path), data=2, tensor=2)
        == [{"bytes": True, "weights": True, "loss": True, "modules": True}] * 4
    )
