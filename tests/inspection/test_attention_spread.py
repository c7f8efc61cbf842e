import math

import torch

from neuropil.inspection.attention_spread import distance, entropy


def test_equal_weights_have_the_entropy_of_a_fair_die_and_one_weight_has_none():
    weights = torch.stack([torch.full((6,), 1 / 6), torch.eye(6)[2]])
    torch.testing.assert_close(entropy(weights), torch.tensor([math.log2(6), 0.0]))


def test_the_distance_is_the_mean_of_what_is_looked_at():
    weights = torch.tensor([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert distance(weights).tolist() == [1.5, 1.0, 0.0]
    corners = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    assert distance(weights, corners).tolist() == [3.0, 5.0, 0.0]
