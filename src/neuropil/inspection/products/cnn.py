"""The stages of a convolutional network."""

from typing import cast

from torch import Tensor, nn

from neuropil.inspection.products.captured import CapturedPass
from neuropil.inspection.products.layers import (
    add_batch_norm,
    add_convolution,
    add_function,
    add_input,
    add_linear,
    add_standardised,
)
from neuropil.inspection.products.source import Computed
from neuropil.inspection.products.stages import NamedValues, TracedPass, Where, mean_of_numbers, total
from neuropil.models.cnn import CNN
from neuropil.parts.convolution import ResidualBlock

MAPS = "channel row column"
STEM, STEM_NORM = Computed(CNN.forward, "h = self.stem(x)"), Computed(CNN.forward, "h = self.stem_norm(F.relu(h)) if")


def trace_cnn(traced: TracedPass, model: CNN, captured: CapturedPass) -> NamedValues:
    x = add_input(traced, captured.input_of(""), MAPS, Computed(CNN.forward, "x = self.standardize(x)"))
    x = add_standardised(traced, x, captured.output_of("standardize"), MAPS)
    h = add_convolution(traced, "stem", model.stem, x, captured.output_of("stem"), Where(STEM, "stem"))
    normed, entered = captured.output_of("stem_norm"), captured.input_of("blocks")
    where = Where(STEM_NORM, "stem")
    if model.config.norm_order == "after":
        h = add_function(traced, "stem.relu", h, captured.input_of("stem_norm"), "relu", where, MAPS)
        h = add_batch_norm(traced, "stem_norm", model.stem_norm, h, normed, where, MAPS)
    else:
        h = add_batch_norm(traced, "stem_norm", model.stem_norm, h, normed, where, MAPS)
        h = add_function(traced, "stem.relu", h, entered, "relu", where, MAPS)
    for number, block in enumerate(model.blocks):
        h = _add_block(traced, f"blocks.{number}", cast(ResidualBlock, block), h, captured)
    pooled = traced.add(
        "pooled",
        captured.input_of("dropout"),
        mean_of_numbers(lambda index: h.row(*index)),
        Where(Computed(CNN.forward, "h = reduce(h,")),
        title="mean over all places",
        axes="channel",
        equation="m[{0}] = (1/n) Σ_i Σ_j h[{0}, i, j]",
    )
    line, logits = Computed(CNN.forward, "return self.output("), captured.output_of("output")
    return add_linear(traced, "output", pooled, logits, Where(line), axes="class", title="logits", symbols=("z", "m"))


def _add_block(
    traced: TracedPass, name: str, block: ResidualBlock, x: NamedValues, captured: CapturedPass
) -> NamedValues:
    """y = φ(BN(w₂ ⋆ φ(BN(w₁ ⋆ x))) + S x), or with each normalisation after its activation."""

    def at(text: str) -> Where:
        return Where(Computed(ResidualBlock.forward, text), name)

    def out(part: str) -> Tensor:
        return captured.output_of(f"{name}.{part}")

    def convolved(part: str, of: NamedValues, where: Where) -> NamedValues:
        module = cast(nn.Conv2d, block.get_submodule(part))
        return add_convolution(traced, f"{name}.{part}", module, of, out(part), where)

    def normed(part: str, of: NamedValues, where: Where) -> NamedValues:
        module = cast(nn.BatchNorm2d, block.get_submodule(part))
        return add_batch_norm(traced, f"{name}.{part}", module, of, out(part), where, MAPS)

    def rectified(part: str, of: NamedValues, values: Tensor, where: Where) -> NamedValues:
        return add_function(traced, f"{name}.{part}", of, values, "relu", where, MAPS)

    def shortcut(where: Where) -> NamedValues:
        return convolved("shortcut", x, where) if list(block.shortcut.parameters()) else x

    after = block.norm_order == "after"
    first = at("z = self.norm1(F.relu(self.convolution1(x)))" if after else "z = F.relu(self.norm1(")
    z = convolved("convolution1", x, first)
    if after:
        z = rectified("relu1", z, captured.input_of(f"{name}.norm1"), first)
        z = normed("norm1", z, first)
        last = at("return self.norm2(F.relu(self.convolution2(z)")
        z, through = convolved("convolution2", z, last), shortcut(last)
        z = _add_residual(traced, name, z, through, last)
        z = rectified("relu2", z, captured.input_of(f"{name}.norm2"), last)
        return normed("norm2", z, last)
    z = normed("norm1", z, first)
    z = rectified("relu1", z, captured.input_of(f"{name}.convolution2"), first)
    second, last = at("z = self.norm2(self.convolution2(z))"), at("return F.relu(z + self.shortcut(x))")
    z = convolved("convolution2", z, second)
    z = normed("norm2", z, second)
    z = _add_residual(traced, name, z, shortcut(last), last)
    return rectified("relu2", z, captured.output_of(name), last)


def _add_residual(traced: TracedPass, name: str, z: NamedValues, through: NamedValues, where: Where) -> NamedValues:
    equation = "s[{0}, {1}, {2}] = z[{0}, {1}, {2}] + x[{0}, {1}, {2}]"
    values, rule = z.values + through.values, total(z, through)
    return traced.add(f"{name}.sum", values, rule, where, title="residual sum", axes=MAPS, equation=equation)
