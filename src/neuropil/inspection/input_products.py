"""What each place of an input adds to a unit of the first layer: the terms of its weighted sum.

a_j = Σ_i w_ji x_i + b_j          the terms w_ji x_i, place by place of the input
"""

from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from neuropil.models.mlp import MLP


class InputProducts(NamedTuple):
    sums: Float[Tensor, " unit"]
    products: Float[Tensor, "unit *shape"]
    bias: Float[Tensor, " unit"]


@torch.no_grad()
def input_products(model: MLP, x: Num[Tensor, "1 *shape"]) -> InputProducts:
    """Of the first layer of an MLP, for one input; its numbers are standardised first, as the model does."""
    layer = cast(nn.Linear, model.hidden[0] if len(model.hidden) else model.output)
    h = model.standardize(x).flatten(1)
    products = layer.weight * h
    return InputProducts(products.sum(1) + layer.bias, products.unflatten(1, x.shape[1:]), layer.bias)
