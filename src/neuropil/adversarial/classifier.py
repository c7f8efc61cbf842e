"""A classifier under attack: any callable from inputs to logits, asked for logits and for gradients of its inputs.

An attack leaves nothing behind. Within `held`, a module is in evaluation mode, so that batch norms do not move and
dropout is off, and its parameters need no gradients, which saves their part of each backward pass.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from neuropil.adversarial.losses import Loss
from neuropil.adversarial.threat_model import Inputs, PerExample
from neuropil.errors import InputError

Classifier: TypeAlias = Callable[[Tensor], Tensor]
"""From inputs in their own units, its normalisation inside, to logits."""
BATCH = 256


@contextmanager
def held(classifier: Classifier, *, channels_last: bool = False) -> Iterator[None]:
    """Around an attack, on a module whose modes and parameters are given back as they were. With `channels_last`, the
    kernels of convolutions have the layout that CPUs convolve fastest; logits may then differ in their last bits."""
    module = classifier if isinstance(classifier, nn.Module) else nn.Identity()
    modes = [(each, each.training) for each in module.modules()]
    needing = [parameter for parameter in module.parameters() if parameter.requires_grad]
    kernels = [each.weight for each in module.modules() if isinstance(each, nn.Conv2d)] if channels_last else []
    layouts = [(kernel, kernel.data) for kernel in kernels if kernel.device.type == "cpu"]
    # also where the caller has switched gradients off
    with torch.inference_mode(False), torch.enable_grad():
        try:
            module.eval()
            for parameter in needing:
                parameter.requires_grad_(False)
            for kernel, values in layouts:
                # of one channel, `contiguous` would leave strides from which convolutions do not see the layout
                kernel.data = torch.empty_like(values, memory_format=torch.channels_last).copy_(values)
            yield
        finally:
            for kernel, values in layouts:
                kernel.data = values
            for parameter in needing:
                parameter.requires_grad_(True)
            for each, training in modes:
                each.training = training


class InputGradient(NamedTuple):
    logits: Float[Tensor, "batch class"]
    loss: PerExample
    gradient: Inputs
    """∂loss/∂x of each example."""


def input_gradient(classifier: Classifier, x: Inputs, y: Shaped[Tensor, "batch *known"], loss: Loss) -> InputGradient:
    """x itself stays a tensor without a gradient."""
    x = x.detach().requires_grad_()
    logits = classifier(x)
    if not logits.requires_grad:
        rule = "a gradient attack needs logits that depend differentiably on the input"
        raise InputError(rule, got="logits without a gradient", fix="attack with square, which needs none")
    values = loss(logits, y)
    (gradient,) = torch.autograd.grad(values.sum(), x)
    logits = logits.detach()
    require_finite("logits", logits)
    require_finite("gradients with respect to the input", gradient)
    return InputGradient(logits, values.detach(), gradient)


def logits_of(classifier: Classifier, x: Inputs, batch_size: int = BATCH) -> Float[Tensor, "batch class"]:
    with torch.no_grad():
        logits = torch.cat([classifier(part) for part in x.split(batch_size)]) if len(x) else classifier(x)
    require_finite("logits", logits)
    return logits


def require_finite(kind: str, values: Tensor) -> None:
    if not values.sum().isfinite():  # one pass, and no mask
        wrong = (~values.flatten(1).isfinite()).any(1).sum().item()
        if wrong:
            raise InputError(
                f"the {kind} of a classifier under attack must be finite",
                got=f"NaN or infinity for {wrong} of {len(values)} examples",
                fix="look for a division by zero, a root or logarithm of zero, or an overflow in the model"
                + ("; the attack square needs no gradients" if kind.startswith("grad") else ""),
            )
