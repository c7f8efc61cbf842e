"""What the units of each hidden layer of a perceptron answer."""

from contextlib import ExitStack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.models.mlp import MLP


@torch.no_grad()
def unit_activations(
    model: MLP, x: Float[Tensor, "batch ..."]
) -> tuple[list[Float[Tensor, "batch _"]], Float[Tensor, "batch output"]]:
    """hˡ of each hidden layer, as the layer after it gets it, and the outputs."""
    found: list[Tensor] = []

    def see(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        found.append(inputs[0])

    readers = [*model.hidden[1:], model.output] if model.hidden else []
    with ExitStack() as hooks:
        for reader in readers:
            hooks.callback(reader.register_forward_pre_hook(see).remove)
        outputs = model(x)
    return found, outputs
