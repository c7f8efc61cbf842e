"""How gradients travel: their norm layer by layer and step by step, and what that means, in words.

    δ_l = (δ_{l+1} W_{l+1}) ⊙ σ'(z_l)          |δ_l| ≤ ‖W_{l+1}‖ · max σ' · |δ_{l+1}|

A chain of such factors shrinks or grows geometrically. With the logistic function max σ' is 0.25: ten layers with
weights of norm one leave at most a millionth of the gradient. In time the factor is the same matrix at each step, w^n
in the scalar case.

Looking changes nothing: parameters, their gradients, buffers, the state of torch's random numbers and the training mode
stay as they were.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from neuropil.errors import InputError

STEEP = 100.0
"""A gradient that changes by more than this between the two ends of a network vanishes or explodes."""

MANY_DEAD = 0.2
"""A larger share of units without any gradient is worth a word."""


@dataclass(frozen=True)
class LayerGradient:
    """Norms over all parameters of one layer; `activation_gradient_norm` is that of the loss by the layer's output,
    before any nonlinearity that follows. `dead_share` is the share of output units (channels) that no example of the
    batch sends a gradient to."""

    name: str
    parameter_norm: float
    gradient_norm: float
    activation_gradient_norm: float | None = None
    dead_share: float | None = None
    has_weights: bool = True
    """Whether it holds a matrix or kernel, not only scales and biases."""


@dataclass(frozen=True)
class GradientProfile:
    """The layers in forward order; a layer that the loss does not use stands last, with a gradient of zero."""

    loss: float
    layers: list[LayerGradient]

    def flow(self) -> list[tuple[str, float]]:
        """Layers with weights and their gradient norms: at the outputs where known for all, else at the parameters."""
        layers = [layer for layer in self.layers if layer.has_weights]
        outputs = [(layer.name, norm) for layer in layers if (norm := layer.activation_gradient_norm) is not None]
        return outputs if len(outputs) == len(layers) else [(layer.name, layer.gradient_norm) for layer in layers]


@dataclass(frozen=True)
class TimeProfile:
    """`norms[k]` is the norm of the gradient of the loss by the input k steps before the last."""

    norms: list[float]


def profile_gradients(model: nn.Module, loss: Callable[[], Tensor]) -> GradientProfile:
    """The gradients of `loss()`, a scalar computed with `model` in the mode that it is in, and nothing else changed.

    A module without children is one layer. A parameter that a module holds beside its children stands alone.
    """
    layers = layers_of(model)
    if not layers:
        raise InputError("a gradient profile needs trainable parameters", got=f"{type(model).__name__} with none")
    parameters = [parameter for layer in layers for parameter in layer.parameters]
    uses = _ParameterUses(parameters)
    with untouched(model), torch.enable_grad(), _watching(layers) as watch:
        with uses:
            value = loss()
        _require_scalar(value)
        watch.on = True
        gradients = torch.autograd.grad(value, parameters, allow_unused=True)
    found = dict(zip(map(id, parameters), gradients, strict=True))
    layers.sort(key=lambda layer: min(uses.order.get(id(parameter), len(parameters)) for parameter in layer.parameters))
    return GradientProfile(value.item(), [_layer_gradient(layer, found) for layer in layers])


def profile_time(
    model: Callable[[Tensor], Any],
    inputs: Float[Tensor, "batch time width"],
    loss: Callable[[Any], Tensor] | None = None,
) -> TimeProfile:
    """How much the last step depends on each earlier one: the gradient of `loss(model(inputs))` by each step's input.

    Without `loss` it is the sum of the last step of the output (of its first part where it is a tuple: `nn.LSTM`).
    """
    watched = inputs.detach().clone().requires_grad_()
    with untouched(model), torch.enable_grad():
        value = (loss or _last_step)(model(watched))
        _require_scalar(value)
        (gradient,) = torch.autograd.grad(value, [watched], allow_unused=True)
    if gradient is None:
        raise InputError("a profile in time needs a loss that depends on the inputs", got="one that does not")
    norms = torch.linalg.vector_norm(gradient, dim=(0, 2), dtype=torch.float64)
    return TimeProfile(norms.flip(0).tolist())


@contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Afterwards the model's buffers and modes and torch's random numbers are what they were before, bit for bit."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    named = [(module, *named) for module in modules for named in module.named_buffers(recurse=False)]
    buffers = [(module, name, buffer, buffer.clone()) for module, name, buffer in named]
    devices = {parameter.device for module in modules for parameter in module.parameters(recurse=False)}
    with torch.random.fork_rng(devices=[device for device in devices if device.type == "cuda"]):
        try:
            yield
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode
            for module, name, buffer, value in buffers:
                module._buffers[name] = buffer
                with torch.no_grad():
                    buffer.copy_(value)


@dataclass
class ModelLayer:
    name: str
    module: nn.Module | None
    parameters: list[Parameter]
    norms: list[float] = field(default_factory=list)
    """Of the gradient at the output, one for each call."""
    alive: Tensor | None = None
    """For each output unit, whether any example sent it a gradient."""

    @property
    def unit_axis(self) -> int:
        """Of its outputs."""
        return 1 if isinstance(self.module, _CHANNELS_FIRST) else -1

    def see(self, gradient: Tensor) -> None:
        self.norms.append(_norm(gradient))
        if gradient.dim() >= 2:
            alive = (gradient != 0).movedim(self.unit_axis, 0).flatten(1).any(1)
            self.alive = alive if self.alive is None or len(self.alive) != len(alive) else self.alive | alive


_CHANNELS_FIRST = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.GroupNorm)


def layers_of(model: nn.Module) -> list[ModelLayer]:
    layers: list[ModelLayer] = []
    known: set[int] = set()
    for name, module in model.named_modules():
        named = module.named_parameters(recurse=False)
        own = {key: weight for key, weight in named if weight.requires_grad and id(weight) not in known}
        known.update(map(id, own.values()))
        if own and module is not model and not list(module.children()):
            layers.append(ModelLayer(name, module, list(own.values())))
        else:
            layers += [
                ModelLayer(f"{name}.{key}" if name else key, None, [parameter]) for key, parameter in own.items()
            ]
    return layers


class _ParameterUses(TorchFunctionMode):
    """Notes the order in which parameters first enter a computation."""

    def __init__(self, parameters: Sequence[Parameter]):
        super().__init__()
        self.known = set(map(id, parameters))
        self.order: dict[int, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        # Reading an attribute such as `weight.device` is a torch function too, but no use of the parameter.
        used = [] if func.__name__ == "__get__" else flat([args, *(kwargs or {}).values()])
        for value in used:
            if id(value) in self.known:
                self.order.setdefault(id(value), len(self.order))
        return func(*args, **(kwargs or {}))


def flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from flat(item)
    else:
        yield value


@dataclass
class _Watch:
    on: bool = False
    """Off during the forward pass: a loss may run backward passes of its own."""


@contextmanager
def _watching(layers: Sequence[ModelLayer]) -> Iterator[_Watch]:
    """Let every layer see the gradient at its outputs."""
    watch = _Watch()

    def watcher(layer: ModelLayer) -> Callable[[nn.Module, Any, Any], None]:
        def watch_output(_module: nn.Module, _inputs: Any, output: Any) -> None:
            first = next((value for value in flat(output) if isinstance(value, Tensor)), None)
            if first is not None and first.requires_grad:
                first.register_hook(lambda gradient: layer.see(gradient) if watch.on else None)

        return watch_output

    handles = [layer.module.register_forward_hook(watcher(layer)) for layer in layers if layer.module is not None]
    try:
        yield watch
    finally:
        for handle in handles:
            handle.remove()


def _layer_gradient(layer: ModelLayer, gradients: Mapping[int, Tensor | None]) -> LayerGradient:
    return LayerGradient(
        name=layer.name,
        parameter_norm=math.hypot(*(_norm(parameter) for parameter in layer.parameters)),
        gradient_norm=math.hypot(*(_norm(gradients[id(parameter)]) for parameter in layer.parameters)),
        activation_gradient_norm=math.hypot(*layer.norms) if layer.norms else None,
        dead_share=None if layer.alive is None else 1 - layer.alive.double().mean().item(),
        has_weights=any(parameter.dim() >= 2 for parameter in layer.parameters),
    )


def _norm(tensor: Tensor | None) -> float:
    """In double precision: the squares of a vanishing gradient are too small for single."""
    return 0.0 if tensor is None else torch.linalg.vector_norm(tensor.detach(), dtype=torch.float64).item()


def _last_step(output: Any) -> Tensor:
    sequence = next(value for value in flat(output) if isinstance(value, Tensor))
    return sequence[:, -1].sum()


def _require_scalar(value: Tensor) -> None:
    if value.dim() or not value.requires_grad:
        constant = "a number that depends on no trainable parameter or watched input"
        got = f"a tensor of shape {tuple(value.shape)}" if value.dim() else constant
        raise InputError("gradients need a loss that is one differentiable number", got=got)


def diagnose(profile: GradientProfile | TimeProfile) -> list[str]:
    """Plain sentences: what is wrong with these gradients and what helps, or that they are healthy."""
    if isinstance(profile, TimeProfile):
        return [_diagnose_time(profile.norms)]
    found = [*_not_finite(profile), *_without_gradient(profile), *_dead_units(profile)]
    flow = [(name, norm) for name, norm in profile.flow() if 0 < norm < math.inf]
    return [*found, _diagnose_depth(flow)] if len(flow) > 1 else found


def _not_finite(profile: GradientProfile) -> list[str]:
    names = [layer.name for layer in profile.layers if not math.isfinite(layer.gradient_norm)]
    if not names and math.isfinite(profile.loss):
        return []
    loss = f"the loss is {profile.loss:g}"
    where = f"gradients at {listed_layers(names)} are not finite ({loss})" if names else loss
    remedy = "lower the learning rate, clip gradients, and look for log(0) or a division by zero"
    return [f"Numbers overflowed: {where}; {remedy}."]


def _without_gradient(profile: GradientProfile) -> list[str]:
    names = [layer.name for layer in profile.layers if layer.gradient_norm == 0]
    why = "the loss does not use it, or every unit on the way there is saturated or dead"
    return [f"No gradient reaches {listed_layers(names)}: {why}."] if names else []


def _dead_units(profile: GradientProfile) -> list[str]:
    known = {layer.name: layer.dead_share for layer in profile.layers if layer.dead_share is not None}
    shares = {name: share for name, share in known.items() if MANY_DEAD < share < 1}
    if not shares:
        return []
    worst = max(shares, key=lambda name: shares[name])
    others = [name for name in shares if name != worst]
    where = f"of the units of {worst}" + (f", and more than a fifth in {listed_layers(others)}," if others else "")
    return [
        f"{100 * shares[worst]:.0f} % {where} receive no gradient from any example of this batch (dead): "
        "try a lower learning rate, a leaky ReLU or GELU, or batch normalisation before the activation."
    ]


def _diagnose_depth(flow: Sequence[tuple[str, float]]) -> str:
    (first, _), (last, _) = flow[0], flow[-1]
    factor, total = shrinkage([norm for _, norm in reversed(flow)])
    way = f"per layer from {last} to {first}"
    if total > STEEP:
        return (
            f"Gradients shrink {factor:.1f}× {way} (vanishing): {first} receives 1/{times(total)} of what {last} "
            "does; try ReLU, residual connections or batch normalisation."
        )
    if total < 1 / STEEP:
        return (
            f"Gradients grow {1 / factor:.1f}× {way} (exploding): {first} receives {times(1 / total)} times what "
            f"{last} does; clip gradients, start from smaller weights or normalise layers."
        )
    smallest, largest = min(flow, key=lambda layer: layer[1]), max(flow, key=lambda layer: layer[1])
    ratio = largest[1] / smallest[1]
    if ratio > STEEP:
        return (
            f"Gradients differ {ratio:.0f}× between layers without a trend from the output to the input: "
            f"look at {largest[0]}, where they are largest, and {smallest[0]}, where they are smallest."
        )
    return f"Gradients stay within a factor of {ratio:.1f} from {last} to {first}: they neither vanish nor explode."


def _diagnose_time(norms: Sequence[float]) -> str:
    reached = next((distance for distance, norm in enumerate(norms) if not 0 < norm < math.inf), len(norms))
    if reached < len(norms):
        what = "No gradient" if norms[reached] == 0 else "No finite gradient"
        return f"{what} reaches the input {reached} steps before the last: the model cannot learn from further back."
    factor, total = shrinkage(norms)
    back = len(norms) - 1
    if total > STEEP:
        return (
            f"The gradient shrinks {factor:.2f}× per step back in time (vanishing): {back} steps back 1/{times(total)}"
            " of it is left; try open gates (LSTM or GRU with a forget bias of 1 or more) or attention."
        )
    if total < 1 / STEEP:
        return (
            f"The gradient grows {1 / factor:.2f}× per step back in time (exploding): {back} steps back it is "
            f"{times(1 / total)} times as large; clip gradients or start from smaller recurrent weights."
        )
    ratio = max(norms) / min(norms)
    if ratio > STEEP:
        largest, smallest = norms.index(max(norms)), norms.index(min(norms))
        return (
            f"The gradient differs {times(ratio)}× over {back} steps without a steady trend: it is largest {largest} "
            f"and smallest {smallest} steps back in time."
        )
    return f"The gradient stays within a factor of {ratio:.1f} over {back} steps: it neither vanishes nor explodes."


def shrinkage(norms: Sequence[float]) -> tuple[float, float]:
    """How much a norm shrinks at each place, and over all, by the straight line that fits its logarithms best."""
    heights = torch.tensor(norms, dtype=torch.float64).log()
    places = torch.arange(len(norms), dtype=torch.float64)
    places = places - places.mean()
    slope = -(places @ heights / (places @ places)).item()
    return math.exp(slope), math.exp(slope * (len(norms) - 1))


def times(ratio: float) -> str:
    """One digit is enough: 70,000,000."""
    return f"{float(f'{ratio:.0e}'):,.0f}" if ratio < 1e15 else f"{ratio:.0e}"


def listed_layers(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more layers"
