import pytest

from training.distributed.forked import ForkedGroups

CLOSE = 1e-10
"""In double precision. A gradient that is zero but for rounding, as that of a key's bias, is 1e-16; Adam makes
0.01 · 1e-16 / 1e-8 of it."""


@pytest.mark.parametrize(("processes", "system"), [(2, "bert"), (4, "gpt2")])
def test_sharded_models_learn_what_one_process_learns(groups: ForkedGroups, processes: int, system: str):
    assert max(groups.run("trained_alike", processes, system=system, data=processes, tensor=1)) < CLOSE


@pytest.mark.slow
@pytest.mark.parametrize("system", ["gpt2", "bert", "bert_classifier", "transformer", "vit", "clip"])
@pytest.mark.parametrize("processes", [2, 4])
def test_every_transformer_learns_sharded_what_one_process_learns(groups: ForkedGroups, processes: int, system: str):
    assert max(groups.run("trained_alike", processes, system=system, data=processes, tensor=1)) < CLOSE


def test_what_was_gathered_for_an_evaluation_is_not_taken_for_the_weights_of_later(groups: ForkedGroups):
    assert max(groups.run("evaluated_alike", 2, data=2, tensor=1)) < CLOSE


def test_weights_are_gathered_in_bfloat16_and_gradients_summed_in_single_precision(groups: ForkedGroups):
    for loss, norm, sharded_loss, sharded_norm in groups.run("in_bfloat16", 2, data=2):
        assert sharded_loss == pytest.approx(loss, rel=1e-3)
        assert sharded_norm == pytest.approx(norm, rel=1e-2)
        assert sharded_norm != norm  # which rounds the gathered weights of the norms too


def test_sums_in_single_precision(groups: ForkedGroups):
    assert max(groups.run("single_precision", 2, data=2)) < 1e-6
