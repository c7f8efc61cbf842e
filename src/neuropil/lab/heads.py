"""What the views of attention share: which heads are removed, what all of them look like, and how an answer changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.errors import InputError, nearest
from neuropil.inspection.attention_spread import distance, entropy
from neuropil.inspection.heads import without_heads
from neuropil.inspection.recording import attention_modules
from neuropil.inspection.report.alignment import thumbnails
from neuropil.inspection.rollout import rollout
from neuropil.lab.bounds import require_length
from neuropil.parts.multi_head import heads_of

MOST_HEADS, MOST_REMOVED = 256, 4_096
"""Of a layer, and of a model."""
Weights: TypeAlias = Mapping[str, Float[Tensor, "..."]]
"""batch × head × query × key, by the name of the layer."""


class HeadsRequest(Config):
    off: tuple[str, ...] = option((), "removed heads, each as the name of its layer, a colon and its number from 0")

    def validate(self) -> None:
        require_length("off", self.off, MOST_REMOVED)

    @property
    def removed(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for each in self.off:
            layer, _, head = each.rpartition(":")
            if not layer or not (head.isascii() and head.isdigit()):
                raise InputError("a removed head must be a layer, a colon and a number", got=f"{each!r}")
            found.setdefault(layer, []).append(int(head))
        return found


def layers_of(model: nn.Module, within: str = "") -> list[dict[str, Any]]:
    """The attention modules in their order; `removable` says whether their heads can be masked."""
    masked = heads_of(model)
    return [
        {
            "name": name,
            "title": title_of(name),
            "heads": masked[name].heads if name in masked else 1,
            "removable": name in masked,
        }
        for name in attention_modules(model)
        if name.startswith(within) and (name not in masked or masked[name].heads)
    ]


def title_of(name: str) -> str:
    """`encoder.0.attention` is "encoder 1", `blocks.2.attention` "layer 3"."""
    parts = name.split(".")
    number = next((int(part) + 1 for part in parts if part.isdigit()), None)
    owner = next((part for part in parts if part in ("encoder", "decoder")), "layer")
    kind = {"cross": " to source", "attention": " to itself"}[parts[-1]] if owner == "decoder" else ""
    return f"{owner}{'' if number is None else f' {number}'}{kind}"


def require_layer(weights: Weights, layer: str, head: int) -> Float[Tensor, "head query key"]:
    """Of the first example of a batch."""
    if layer not in weights:
        raise InputError("layer must be the name of an attention module", got=f"{layer!r}", fix=nearest(layer, weights))
    if head >= weights[layer].shape[1]:
        rule = f"head must be among the {weights[layer].shape[1]} of the layer, counted from 0"
        raise InputError(rule, got=f"{head}")
    return weights[layer][0]


def glance(weights: Weights) -> list[dict[str, Any]]:
    """Every head of every layer in small, with its entropy in bits and, of self-attention, its mean distance."""
    found = []
    for name, each in weights.items():
        heads = each[0]
        far = [None] * len(heads) if "cross" in name else distance(heads).mean(-1).tolist()
        pictures = thumbnails(heads.clamp(0, 1).numpy()).tolist()
        found.append({"name": name, "pictures": pictures, "entropy": entropy(heads).mean(-1).tolist(), "distance": far})
    return found


def rolled_out(weights: Weights, off: Mapping[str, Iterable[int]]) -> Float[Tensor, "query key"]:
    """Through the heads that are left; without any, each place stays what it is."""
    kept = list(without_heads(weights, off).values())
    places = next(iter(weights.values())).shape[-1]
    return rollout(kept)[0] if kept else torch.eye(places)


def rows(values: Tensor) -> Any:
    """To six digits after the point, which is more than single precision promises of a softmax."""
    return [[round(value, 6) for value in row] for row in values.tolist()]


def change(
    before: Float[Tensor, " option"], after: Float[Tensor, " option"], name: Callable[[int], str], most: int
) -> list[dict[str, Any]]:
    """The likeliest of both, the likeliest after first."""
    chosen: Sequence[int] = torch.cat([each.topk(min(most, len(each))).indices for each in (after, before)]).tolist()
    ranked = sorted(dict.fromkeys(chosen), key=lambda index: -float(after[index]))
    return [{"name": name(index), "before": float(before[index]), "after": float(after[index])} for index in ranked]
