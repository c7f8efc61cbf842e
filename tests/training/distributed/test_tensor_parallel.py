import pytest

from training.distributed.forked import ForkedGroups

CLOSE = 1e-10
"""In double precision."""


@pytest.mark.parametrize(("data", "tensor", "system"), [(1, 2, "transformer"), (2, 2, "gpt2")])
def test_divided_layers_learn_what_one_process_learns(groups: ForkedGroups, data: int, tensor: int, system: str):
    assert max(groups.run("trained_alike", data * tensor, system=system, data=data, tensor=tensor)) < CLOSE


@pytest.mark.slow
@pytest.mark.parametrize("system", ["gpt2", "bert", "bert_classifier", "transformer", "vit", "clip"])
@pytest.mark.parametrize(("data", "tensor"), [(1, 2), (1, 4), (2, 2)])
def test_every_transformer_learns_divided_what_one_process_learns(
    groups: ForkedGroups, data: int, tensor: int, system: str
):
    assert max(groups.run("trained_alike", data * tensor, system=system, data=data, tensor=tensor)) < CLOSE


def test_averages_of_divided_weights_are_evaluated(groups: ForkedGroups):
    assert max(groups.run("evaluated_alike", 2, data=1, tensor=2)) < CLOSE


def test_heads_that_the_processes_do_not_divide_are_refused(groups: ForkedGroups):
    assert set(groups.run("refused", 2, tensor=2, width=15, heads=3)) == {
        "--tensor-parallel 2 must divide the heads of every layer, but got 3 heads in blocks.0.attention: choose "
        "another number of processes."
    }


def test_hidden_units_that_the_processes_do_not_divide_are_refused(groups: ForkedGroups):
    assert set(groups.run("refused", 2, tensor=2, feed_forward=5)) == {
        "--tensor-parallel 2 must divide the hidden units of every layer, but got 5 hidden units in "
        "blocks.0.feed_forward: choose another number of processes."
    }
