"""What an attack makes large, from the logits z of each example and its right class y (or the target t).

    cross-entropy          −ln softmax(z)_y
    margin                 max_{k≠y} z_k − z_y                              above 0 where the class is wrong
    DLR                    −(z_y − max_{k≠y} z_k) / (z_π1 − z_π3)           Croce and Hein 2020: π sorts z downwards
    targeted DLR           −(z_y − z_t) / (z_π1 − (z_π3 + z_π4) / 2)
    tempered               −ln softmax(z / T)_y                             T = max(1, |margin| / 10), held

Cross-entropy vanishes, with its gradient, where a model is very sure; the margin does not, and the difference-of-logits
ratio does not change either when all logits are shifted or scaled. Both see one wrong class at a time, whereas
cross-entropy sees all of them: a temperature keeps it from vanishing.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.parts.losses import categorical_cross_entropy

Logits: TypeAlias = Float[Tensor, "batch class"]
Classes: TypeAlias = Int64[Tensor, " batch"]
Loss: TypeAlias = Callable[[Tensor, Any], Float[Tensor, " batch"]]
"""From logits, and what is known of each example (its class), to one value per example."""
LossName = Literal["cross_entropy", "margin", "dlr", "tempered"]

NO_DIVISION_BY_ZERO = 1e-12
LARGEST_MARGIN = 10.0
"""In single precision, cross-entropy is 0 from a margin of 17 on."""


def margin(logits: Logits, y: Classes) -> Float[Tensor, " batch"]:
    # max_{k≠y} z_k − z_y
    right = of_class(logits, y)
    others = logits.masked_fill(F.one_hot(y, logits.shape[1]).bool(), -torch.inf)
    return others.amax(1) - right


def difference_of_logits_ratio(logits: Logits, y: Classes) -> Float[Tensor, " batch"]:
    """With two classes there is no third logit, and the margin itself is all that is left."""
    if logits.shape[1] < 3:
        return margin(logits, y)
    top = logits.topk(3, dim=1).values
    return margin(logits, y) / (top[:, 0] - top[:, 2] + NO_DIVISION_BY_ZERO)


def targeted_difference_of_logits_ratio(logits: Logits, y: Classes, target: Classes) -> Float[Tensor, " batch"]:
    """With fewer than four classes, it is divided as the ratio without a target is."""
    # (z_t − z_y) / (z_π1 − (z_π3 + z_π4) / 2)
    difference = of_class(logits, target) - of_class(logits, y)
    if logits.shape[1] < 3:
        return difference
    top = logits.topk(min(4, logits.shape[1]), dim=1).values
    return difference / (top[:, 0] - top[:, 2:].mean(1) + NO_DIVISION_BY_ZERO)


def tempered_cross_entropy(logits: Logits, y: Classes) -> Float[Tensor, " batch"]:
    # T = max(1, |margin| / 10)
    temperature = (margin(logits, y).detach().abs() / LARGEST_MARGIN).clamp(min=1)
    return categorical_cross_entropy(logits / rearrange(temperature, "batch -> batch 1"), y)


def of_class(logits: Logits, y: Classes) -> Float[Tensor, " batch"]:
    return logits.gather(1, rearrange(y, "batch -> batch 1")).squeeze(1)


LOSSES: dict[LossName, Loss] = {
    "cross_entropy": categorical_cross_entropy,
    "margin": margin,
    "dlr": difference_of_logits_ratio,
    "tempered": tempered_cross_entropy,
}


def require_classes(logits: Tensor, y: Tensor, target: int | None) -> None:
    """Logits of at least two classes, among which are the labels and the target."""
    if logits.ndim != 2 or len(logits) != len(y) or logits.shape[1] < 2:
        rule = f"a classifier must answer {len(y)} inputs with {len(y)} rows of at least two logits"
        raise InputError(rule, got=f"the shape {list(logits.shape)}")
    wanted = y if target is None else torch.cat([y, y.new_tensor([target])])
    beyond = (wanted < 0) | (wanted >= logits.shape[1])
    if beyond.any():
        rule = f"labels and target must be classes from 0 to {logits.shape[1] - 1}, one for each logit"
        raise InputError(rule, got=f"{wanted[beyond][0].item()}")
