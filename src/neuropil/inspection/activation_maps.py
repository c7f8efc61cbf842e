"""Activation maps: what every kernel of a convolutional network makes of a picture, place by place.

    A_k = w_k ⋆ h          one map for each kernel k of a convolution, and one for each channel of a block of them

They are what a forward hook on the layer is given: of a convolution its sums before batch normalisation and activation,
of a residual block what it passes on. Looking changes nothing.
"""

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.inspection.gradients import untouched

Maps = dict[str, Float[Tensor, "picture _ _ _"]]
"""By the name of the layer, in the order in which the layers were done: picture × channel × row × column."""


@torch.no_grad()
def activation_maps(model: nn.Module, pictures: Num[Tensor, "picture channel height width"]) -> Maps:
    """Of each convolution, and of each block of several, as the model predicts."""
    layers = convolutional_layers(model)
    if not layers:
        raise InputError("activation maps are those of convolutions", got=f"a {type(model).__name__} without any")
    maps: Maps = {}

    def remember(name: str, output: object) -> None:
        if isinstance(output, Tensor) and output.dim() == 4:
            maps.pop(name, None)  # a layer that runs several times is remembered as it ran last
            maps[name] = output.detach().clone()

    handles = [
        module.register_forward_hook(lambda _module, _inputs, output, name=name: remember(name, output))
        for name, module in layers.items()
    ]
    try:
        with untouched(model):
            model.eval()
            model(pictures)
    finally:
        for handle in handles:
            handle.remove()
    return maps


def convolutional_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Convolutions, and modules that hold some, save mere lists of modules and the model itself."""
    lists = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
    return {
        name or "convolution": module
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d)
        or (module is not model and not isinstance(module, lists) and _has_convolution(module))
    }


def _has_convolution(module: nn.Module) -> bool:
    return any(isinstance(each, nn.Conv2d) for each in module.modules())


def activity(maps: Float[Tensor, "channel row column"]) -> Float[Tensor, " channel"]:
    """The mean size of a channel's activations over all places."""
    return maps.abs().mean((1, 2))


def most_active(maps: Float[Tensor, "channel row column"], count: int) -> Int[Tensor, " shown"]:
    """The numbers of the most active channels, the most active first."""
    return activity(maps).argsort(descending=True, stable=True)[:count]
