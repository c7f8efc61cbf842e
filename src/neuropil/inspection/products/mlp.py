"""The stages of a multilayer perceptron."""

from typing import cast

from torch import nn

from neuropil.inspection.products.captured import CapturedPass
from neuropil.inspection.products.layers import (
    add_batch_norm,
    add_function,
    add_input,
    add_linear,
    add_standardised,
)
from neuropil.inspection.products.source import Computed
from neuropil.inspection.products.stages import NamedValues, TracedPass, Where, sum_of, total
from neuropil.models.mlp import MLP
from neuropil.parts.standardize import Standardize

LAYER = Computed(MLP.forward, "a = self.dropout(self.activation(norm(linear(h))))")
OUTPUT = Computed(MLP.forward, "self.output(h)")


def trace_mlp(traced: TracedPass, model: MLP, captured: CapturedPass) -> NamedValues:
    axes = "feature" if len(model.config.shape) == 1 else "channel row column"
    x = add_input(traced, captured.input_of(""), axes, Computed(MLP.forward, "h = self.standardize(x)"))
    h = add_standardised(traced, x, captured.output_of("standardize"), axes)
    for layer in range(len(model.hidden)):
        h = _add_hidden(traced, model, captured, layer, h)
    last = captured.output_of("output")
    scaled = bool((model.target_scale.mean != 0).any() or (model.target_scale.std != 1).any())
    title = "standardised outputs" if scaled else "outputs"
    y = add_linear(traced, "output", h, last, Where(OUTPUT), axes="class", title=title, symbols=("y", "h"))
    return _add_rescaled(traced, y, captured) if scaled else y


def _add_hidden(traced: TracedPass, model: MLP, captured: CapturedPass, layer: int, h: NamedValues) -> NamedValues:
    name, where = f"hidden.{layer}", Where(LAYER, f"hidden.{layer}")
    sums = captured.output_of(name)
    a = add_linear(traced, name, h, sums, where, axes="unit", title="weighted sums", symbols=("a", "h"))
    norm = cast(nn.BatchNorm1d, model.norms[layer])
    if model.config.batch_norm:
        normed = captured.output_of(f"norms.{layer}")
        a = add_batch_norm(traced, f"norms.{layer}", norm, a, normed, where, "unit")
    activated = captured.output_of("dropout", layer)
    name, of = f"{name}.{model.config.activation}", model.config.activation
    after = add_function(traced, name, a, activated, of, where, "unit", f"activation: {of}")
    if not model.config.residual or activated.shape != h.values.shape:
        return after
    return traced.add(
        f"hidden.{layer}.sum",
        captured.input_of(f"hidden.{layer + 1}" if layer + 1 < len(model.hidden) else "output"),
        total(h, after),
        Where(Computed(MLP.forward, "h = h + a if"), where.part),
        title="residual sum",
        axes="unit",
        equation="h'[{0}] = h[{0}] + a[{0}]",
    )


def _add_rescaled(traced: TracedPass, y: NamedValues, captured: CapturedPass) -> NamedValues:
    """In the units of the targets."""
    mean, std = traced.parameter("target_scale.mean"), traced.parameter("target_scale.std")
    return traced.add(
        "outputs",
        captured.output,
        sum_of(lambda index: [(std[index], y[index]), (mean[index],)]),
        Where(Computed(Standardize.inverse, "self.mean + self.std * z")),
        title="outputs in the units of the targets",
        axes="class",
        equation="t[{0}] = μ[{0}] + σ[{0}] y[{0}]",
    )
