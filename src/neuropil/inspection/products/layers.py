"""Stages that several models have: the input, its standardisation, layers with weights, norms and the answer."""

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor, nn

from neuropil.inspection.products.opened import Index
from neuropil.inspection.products.source import Computed
from neuropil.inspection.products.stages import (
    GIVEN,
    NamedValues,
    TracedPass,
    Where,
    constant,
    convolution,
    function,
    linear,
    lookup,
    mean_of_numbers,
    normalised,
    softmax_of,
    variance_of,
)
from neuropil.parts import activations
from neuropil.parts.standardize import Standardize

Answer = Literal["softmax", "logistic", "identity"]
"""What is made of the outputs: probabilities of classes, probabilities of labels that may go together, or nothing."""


def indices(axes: int, *more: str) -> str:
    """The place of an index in an equation: "{0}, {1}", and what follows it."""
    return ", ".join([*(f"{{{axis}}}" for axis in range(axes)), *more])


def add_input(traced: TracedPass, values: Tensor, axes: str, computed: Computed, name: str = "input") -> NamedValues:
    equation = f"x[{indices(values.ndim)}] is given"
    return traced.add(name, values, GIVEN, Where(computed), title=name, axes=axes, equation=equation)


def add_standardised(traced: TracedPass, x: NamedValues, values: Tensor, axes: str) -> NamedValues:
    """By μ and σ of each feature of a table, or of each channel of pictures."""
    mean, std = traced.parameter("standardize.mean"), traced.parameter("standardize.std")

    def parts(index: Index) -> dict[str, Any]:
        own = (index[0], *(0 for _ in index[1:]))
        return {"x": x[index], "mean": mean[own], "std": std[own]}

    at = indices(values.ndim)
    return traced.add(
        "standardize",
        values,
        normalised(parts),
        Where(Computed(Standardize.forward, "- self.mean) / self.std")),
        title="standardised input",
        axes=axes,
        equation=f"z[{at}] = (x[{at}] − μ[{{0}}]) / σ[{{0}}]",
    )


def add_tokens(
    traced: TracedPass, name: str, tokens: NamedValues, values: Tensor, table: str, where: Where
) -> NamedValues:
    """The rows of an embedding."""
    embedding, ids = traced.parameter(table), tokens.values.tolist()
    return traced.add(
        name,
        values,
        lookup(lambda index: tokens[index[:1]], lambda index: embedding[ids[index[0]], index[1]]),
        where,
        title="token embeddings",
        axes="time width",
        equation="x[{0}, {1}] = E[token[{0}], {1}]",
    )


def add_function(
    traced: TracedPass, name: str, x: NamedValues, values: Tensor, of: str, where: Where, axes: str, title: str = ""
) -> NamedValues:
    at = indices(values.ndim)
    equation = f"h[{at}] = {of}(a[{at}])"
    return traced.add(name, values, function(of, x), where, title=title or of, axes=axes, equation=equation)


def add_linear(
    traced: TracedPass,
    name: str,
    x: NamedValues,
    values: Tensor,
    where: Where,
    *,
    axes: str,
    title: str,
    module: str | None = None,
    locate: Callable[[Index], tuple[Index, int]] | None = None,
    symbols: tuple[str, str] = ("a", "x"),
) -> NamedValues:
    """y = W x + b by the linear layer `module`, or that of the stage's own name."""
    weight, bias = traced.weights(module or name)
    (y, of), first, unit = symbols, values.ndim - 1, f"{{{values.ndim - 1}}}"
    shift = "" if bias is None else f" + b[{unit}]"
    return traced.add(
        name,
        values,
        linear(x, weight, bias) if locate is None else linear(x, weight, bias, locate),
        where,
        title=title,
        axes=axes,
        equation=f"{y}[{indices(first, unit)}] = Σ_j W[{unit}, j] {of}[{indices(first, 'j')}]{shift}",
    )


def add_convolution(
    traced: TracedPass, name: str, module: nn.Conv2d, x: NamedValues, values: Tensor, where: Where
) -> NamedValues:
    """With square kernels, the same stride both ways and zeros around the picture."""
    stride, padding = module.stride[0], int(module.padding[0])
    weight, bias = traced.weights(name)
    step, back = "" if stride == 1 else f"{stride}·", f" − {padding}" if padding else ""
    place, shift = f"{step}{{1}} + a{back}, {step}{{2}} + b{back}", "" if bias is None else " + bias[{0}]"
    return traced.add(
        name,
        values,
        convolution(x, weight, bias, stride, padding),
        where,
        title=f"convolution {module.kernel_size[0]}×{module.kernel_size[1]}",
        axes="channel row column",
        equation=f"a[{{0}}, {{1}}, {{2}}] = Σ_c Σ_a Σ_b w[{{0}}, c, a, b] x[c, {place}]{shift}",
    )


def add_layer_norm(
    traced: TracedPass, name: str, module: nn.LayerNorm, x: NamedValues, values: Tensor, where: Where
) -> NamedValues:
    """With its mean and variance as stages, of which PyTorch's kernel returns neither."""
    scale, shift = traced.parameter(f"{name}.weight"), traced.parameter(f"{name}.bias")
    mean = traced.add(
        f"{name}.mean",
        x.values.mean(-1),
        mean_of_numbers(lambda index: x.row(*index)),
        where,
        title="mean",
        axes="time",
        equation="μ[{0}] = (1/d) Σ_j x[{0}, j]",
    )
    variance = traced.add(
        f"{name}.variance",
        x.values.var(-1, correction=0),
        variance_of(x, mean),
        where,
        title="variance",
        axes="time",
        equation="σ²[{0}] = (1/d) Σ_j (x[{0}, j] − μ[{0}])²",
    )

    def parts(index: Index) -> dict[str, Any]:
        step, unit = index[:1], index[1:]
        about = {"x": x[index], "mean": mean[step], "variance": variance[step], "epsilon": constant(module.eps, "ε")}
        return {**about, "scale": scale[unit], "shift": shift[unit]}

    return traced.add(
        name,
        values,
        normalised(parts),
        where,
        title="layer norm",
        axes="time width",
        equation="y[{0}, {1}] = γ[{1}] (x[{0}, {1}] − μ[{0}]) / √(σ²[{0}] + ε) + β[{1}]",
    )


def add_batch_norm(
    traced: TracedPass,
    name: str,
    module: nn.BatchNorm1d | nn.BatchNorm2d,
    x: NamedValues,
    values: Tensor,
    where: Where,
    axes: str,
) -> NamedValues:
    """By the running mean and variance of training, which are buffers."""
    names = {"mean": "running_mean", "variance": "running_var", "scale": "weight", "shift": "bias"}
    of_channel = {role: traced.parameter(f"{name}.{part}") for role, part in names.items()}

    def parts(index: Index) -> dict[str, Any]:
        own = {role: part[index[:1]] for role, part in of_channel.items()}
        return {"x": x[index], "epsilon": constant(module.eps, "ε"), **own}

    at = indices(values.ndim)
    return traced.add(
        name,
        values,
        normalised(parts),
        where,
        title="batch norm",
        axes=axes,
        equation=f"y[{at}] = γ[{{0}}] (x[{at}] − μ[{{0}}]) / √(σ²[{{0}}] + ε) + β[{{0}}]",
    )


def add_answer(traced: TracedPass, outputs: NamedValues, answer: Answer) -> None:
    """Probabilities, where the outputs are logits."""
    if answer == "identity":
        return
    shares, at, others = answer == "softmax", indices(outputs.values.ndim), indices(outputs.values.ndim - 1, "j")
    line = Computed(activations.softmax, "torch.softmax(") if shares else Computed(activations, '"logistic": torch')
    traced.add(
        "probabilities",
        activations.softmax(outputs.values) if shares else outputs.values.sigmoid(),
        softmax_of(outputs) if shares else function("logistic", outputs),
        Where(line),
        title="probabilities",
        axes=" ".join(traced.stages[outputs.name].axes),
        equation=f"p[{at}] = exp(z[{at}]) / Σ_j exp(z[{others}])" if shares else f"p[{at}] = σ(z[{at}])",
    )
