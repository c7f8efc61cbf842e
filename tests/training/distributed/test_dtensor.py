import pytest
import torch
from torch import nn

from neuropil.training.distributed.dtensor import all_finite, clip_gradients, global_norm
from training.distributed.forked import ForkedGroups


@pytest.mark.parametrize("optimizer", ["momentum"])
def test_optimisers_move_divided_weights_as_whole_ones(groups: ForkedGroups, optimizer: str):
    alike = {"system": "gpt2", "optimizer": optimizer}
    assert max(groups.run("trained_alike", 2, data=2, tensor=1, **alike)) < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "rmsprop", "adam", "adamw", "muon"])
@pytest.mark.parametrize(("data", "tensor"), [(4, 1), (1, 4), (2, 2)])
def test_every_optimiser_moves_divided_weights_as_whole_ones(
    groups: ForkedGroups, data: int, tensor: int, optimizer: str
):
    alike = {"system": "gpt2", "optimizer": optimizer}
    assert max(groups.run("trained_alike", 4, data=data, tensor=tensor, **alike)) < 1e-11


@pytest.mark.parametrize(("data", "tensor"), [(2, 1), pytest.param(1, 2, marks=pytest.mark.slow)])
def test_all_processes_see_a_weight_of_one_that_is_not_finite_and_say_the_same(
    groups: ForkedGroups, data: int, tensor: int
):
    first, second = groups.run("broken", 2, data=data, tensor=tensor)
    assert first == second
    assert (first["before"], first["after"]) == (True, False)
    assert first["error"] == (
        "the loss of phase 'next token' must stay finite, but got nan at step 1, where 1 of 36 weights are not finite "
        "any more, blocks.1.feed_forward.outer.weight the first; the largest gradient norms of the update before were "
        "blocks.0.attention.output.bias 0.215, tokens.weight 0.214, blocks.1.attention.output.bias 0.21: lower the "
        "learning rate (0.1 at that step) or clip gradients (--clip 1); nothing is kept."
    )


def test_the_norm_of_several_tensors_is_that_of_all_their_numbers():
    assert global_norm([torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]) == 5.0


def test_gradients_of_whole_weights_are_clipped_as_by_torch():
    weights = [nn.Parameter(torch.zeros(2)) for _ in range(2)]
    for weight in weights:
        weight.grad = torch.tensor([3.0, 4.0])
    clip_gradients(weights, 1.0)
    expected = torch.tensor([3.0, 4.0]) / 50**0.5
    for weight in weights:
        torch.testing.assert_close(weight.grad, expected)


def test_a_number_that_is_not_finite_is_found():
    assert all_finite([torch.ones(2), torch.zeros(0)])
    assert not all_finite([torch.ones(2), torch.tensor([torch.inf])])
