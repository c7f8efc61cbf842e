"""Attention roll-out (Abnar & Zuidema 2020): how much of each place can have reached each other, through all layers.

    Ã_l = ½ (mean over heads of A_l + I)        half comes by attention, half is what a place keeps of itself
    R = Ã_L ⋯ Ã_2 Ã_1                           row i: the shares of the places at the start in what place i has become

Each Ã has rows that sum to one, and so has R.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from einops import rearrange, reduce
from jaxtyping import Float, Num
from torch import Tensor

from neuropil.errors import InputError
from neuropil.inspection.recording import record
from neuropil.models.clip import CLIP
from neuropil.models.vit import ViT


def rollout(layers: Iterable[Float[Tensor, "batch head query key"]]) -> Float[Tensor, "batch query key"]:
    """From the self-attention weights of every layer, the first layer first: ``rollout(tape.attention.values())``."""
    product = None
    for weights in layers:
        if weights.shape[2] != weights.shape[3]:
            got = f"{weights.shape[2]} queries and {weights.shape[3]} keys"
            raise InputError("roll-out needs the weights from every place to every place", got=got)
        mixed = reduce(weights, "batch head query key -> batch query key", "mean")
        # Ã = ½ (A + I)
        mixed = (mixed + torch.eye(mixed.shape[-1], device=mixed.device, dtype=mixed.dtype)) / 2
        product = mixed if product is None else mixed @ product
    if product is None:
        raise InputError("roll-out needs the weights of at least one layer", got="none")
    return product


@dataclass(frozen=True)
class PatchMaps:
    """The attention of the class token to the patches of each picture. What is missing to one is its own share."""

    heads: dict[str, Float[Tensor, "picture head row column"]]
    """Its weights in each layer and head, by the name of the layer."""
    rollout: Float[Tensor, "picture row column"]
    """Its share of each patch through all layers."""


@torch.no_grad()
def patch_maps(model: ViT | CLIP, pictures: Num[Tensor, "picture channel height width"]) -> PatchMaps:
    """Pictures may have any size that patches fill."""
    seeing = model.vision if isinstance(model, CLIP) else model
    rows = pictures.shape[2] // seeing.patches.projection.kernel_size[0]
    with record(seeing) as tape:
        seeing(pictures)
    weights = {name: each.cpu() for name, each in tape.attention.items()}
    on_grid = "picture ... (row column) -> picture ... row column"
    heads = {name: rearrange(each[:, :, 0, 1:], on_grid, row=rows) for name, each in weights.items()}
    return PatchMaps(heads, rearrange(rollout(weights.values())[:, 0, 1:], on_grid, row=rows))
