"""The stages of models that read a picture as patches: ViT, and attention over patches."""

from typing import cast

from torch import Tensor, nn

from neuropil.inspection.products.attention import add_mixed, add_scores, add_weights
from neuropil.inspection.products.blocks import STREAM, BlockStages
from neuropil.inspection.products.captured import CapturedPass
from neuropil.inspection.products.layers import (
    add_convolution,
    add_function,
    add_input,
    add_linear,
    add_standardised,
)
from neuropil.inspection.products.opened import Factor, Index
from neuropil.inspection.products.source import Computed
from neuropil.inspection.products.stages import (
    NamedValues,
    TracedPass,
    Where,
    constant,
    copied,
    linear,
    mean_of_numbers,
    sum_of,
    total,
)
from neuropil.models.attention import PatchAttention, PatchAttentionLayer, SelfAttention
from neuropil.models.vit import Patches, ViT
from neuropil.parts.positions import Positions

PICTURE = "channel row column"


def trace_vit(traced: TracedPass, model: ViT, captured: CapturedPass) -> NamedValues:
    add = BlockStages(traced, captured)
    line = Computed(ViT.hidden, "x = self.dropout(self.patches(self.standardize(pictures)))")
    pixels = add_input(traced, captured.input_of(""), PICTURE, line)
    pixels = add_standardised(traced, pixels, captured.output_of("standardize"), PICTURE)
    x = _add_patches(traced, model.patches, captured, pixels)
    for number, block in enumerate(model.blocks):
        x = add.block(f"blocks.{number}", block, x)
    x = add.norm("norm", model.norm, x, Where(Computed(ViT.hidden, "return self.norm(x)")))
    return add_linear(
        traced,
        "output",
        x,
        captured.output,
        Where(Computed(ViT.forward, "return self.output(self.hidden(pictures)[:, 0])")),
        axes="class",
        title="logits",
        locate=lambda index: ((0,), index[0]),
        symbols=("z", "x₀"),
    )


def _add_patches(traced: TracedPass, module: Patches, captured: CapturedPass, pixels: NamedValues) -> NamedValues:
    projected = captured.output_of("patches.projection")
    where = Where(Computed(Patches.forward, "x = self.projection(pictures)"), "patches")
    maps = add_convolution(traced, "patches.projection", module.projection, pixels, projected, where)
    whole, positions = traced.parameter("patches.whole"), traced.parameter("patches.positions")
    _, rows, columns = projected.shape
    if (rows, columns) != module.grid:  # of a picture of another size
        between = module.positions_for(rows, columns).detach()
        positions = NamedValues("positions between those that were learned", between, "constant")

    def parts(index: Index) -> list[tuple[Factor, ...]]:
        place, unit = index
        patch = maps[unit, (place - 1) // columns, (place - 1) % columns] if place else whole[unit,]
        return [(patch,), (positions[index],)]

    return traced.add(
        "patches",
        captured.output_of("patches"),
        sum_of(parts, "sum"),
        Where(Computed(Patches.forward, "return torch.cat([self.whole.expand("), "patches"),
        title="patch and position; the first stands for the whole picture",
        axes=STREAM,
        equation="x[{0}, {1}] = patch[{0}, {1}] + P[{0}, {1}]",
    )


# --- attention over patches -------------------------------------------------------------------------------------------


def trace_patch_attention(traced: TracedPass, model: PatchAttention, captured: CapturedPass) -> NamedValues:
    add, line = BlockStages(traced, captured), Computed(PatchAttention.patches, "x = self.standardize(x)")
    pixels = add_input(traced, captured.input_of(""), PICTURE, line)
    pixels = add_standardised(traced, pixels, captured.output_of("standardize"), PICTURE)
    z = _add_cut(traced, model, pixels, captured.input_of("embed"))
    embed = Where(Computed(PatchAttention.classify, "z = self.positions(self.embed(patches))"))
    if model.config.embedding == "linear":
        z = add.linear("embed", z, embed, "patch embeddings", symbols=("z", "x"))
    if model.config.positions != "none":
        z = _add_positions(traced, z, captured.output_of("positions"))
    for number, layer in enumerate(model.layers):
        z = _add_layer(add, f"layers.{number}", cast(PatchAttentionLayer, layer), z)
    last = Where(Computed(PatchAttention.classify, "return self.output(reduce(self.norm(z)"))
    z = add.norm("norm", model.norm, z, last)
    pooled = traced.add(
        "pooled",
        captured.input_of("output"),
        mean_of_numbers(lambda index: [z[patch, index[0]] for patch in range(len(z.values))]),
        last,
        title="mean over all patches",
        axes="width",
        equation="m[{0}] = (1/n) Σ_i z[i, {0}]",
    )
    return add.linear("output", pooled, last, "logits", "class", symbols=("o", "m"))


def _add_cut(traced: TracedPass, model: PatchAttention, pixels: NamedValues, values: Tensor) -> NamedValues:
    """The picture, filled up with zeros at its lower and right edge, and cut row by row."""
    side, columns = model.config.patch_side, model.config.grid[1]
    _, height, breadth = pixels.values.shape

    def source(index: Index) -> Factor:
        patch, pixel = index
        channel, within = divmod(pixel, side * side)
        row, column = patch // columns * side + within // side, patch % columns * side + within % side
        inside = row < height and column < breadth
        return pixels[channel, row, column] if inside else constant(0.0, "filled up")

    return traced.add(
        "patches",
        values,
        copied(source),
        Where(Computed(PatchAttention.patches, "return rearrange(x, pattern")),
        title="patches",
        axes="time pixel",
        equation="x[{0}, {1}] is pixel {1} of patch {0}",
    )


def _add_positions(traced: TracedPass, z: NamedValues, values: Tensor) -> NamedValues:
    table = traced.parameter("positions.table")
    return traced.add(
        "positions",
        values,
        total(z, table),
        Where(Computed(Positions.forward, "return x + self.table[start:end]")),
        title="patch and position",
        axes=STREAM,
        equation="z'[{0}, {1}] = z[{0}, {1}] + P[{0}, {1}]",
    )


def _add_layer(add: BlockStages, name: str, layer: PatchAttentionLayer, z: NamedValues) -> NamedValues:
    traced, captured = add.traced, add.captured
    look = Where(Computed(PatchAttentionLayer.forward, "attended = self.dropout(self.attention(self.norm1(z)))"), name)
    entered = add.norm(f"{name}.norm1", layer.norm1, z, look) if isinstance(layer.norm1, nn.LayerNorm) else z
    attended = _add_self_attention(add, f"{name}.attention", layer.attention, entered)
    if layer.residual:
        line = Computed(PatchAttentionLayer.forward, "z = z + attended if")
        z = _add_sum(
            traced, f"{name}.attention_sum", captured.input_of(f"{name}.norm2"), z, attended, Where(line, name)
        )
    else:
        z = attended
    think = Where(Computed(PatchAttentionLayer.forward, "return z + self.dropout(self.network("), name)
    y = add.norm(f"{name}.norm2", layer.norm2, z, think)
    y = add.linear(f"{name}.network.0", y, think, "weighted sums", "time hidden")
    values = captured.output_of(f"{name}.network.1")
    y = add_function(traced, f"{name}.network.1", y, values, "gelu", think, "time hidden", "activation: gelu")
    y = add.linear(f"{name}.network.2", y, think, "feed-forward output", symbols=("y", "h"))
    return _add_sum(traced, f"{name}.sum", captured.output_of(name), z, y, think)


def _add_sum(
    traced: TracedPass, name: str, values: Tensor, z: NamedValues, y: NamedValues, where: Where
) -> NamedValues:
    equation = "z'[{0}, {1}] = z[{0}, {1}] + y[{0}, {1}]"
    return traced.add(name, values, total(z, y), where, title="residual sum", axes=STREAM, equation=equation)


def _add_self_attention(add: BlockStages, name: str, module: SelfAttention, z: NamedValues) -> NamedValues:
    traced, captured = add.traced, add.captured
    weight, bias = traced.weights(f"{name}.projection")
    where = Where(Computed(SelfAttention.forward, "query, key, value = self.projection(z).split("), name)
    parts: list[NamedValues] = []
    split, first = captured.output_of(f"{name}.projection").split(module.widths, dim=-1), 0
    for part, many, values in zip(("query", "key", "value"), ("queries", "keys", "values"), split, strict=True):

        def locate(index: Index, first: int = first) -> tuple[Index, int]:
            return index[:1], first + index[1]

        letter, rule = part[0], linear(z, weight, bias, locate)
        equation = f"{letter}[{{0}}, {{1}}] = Σ_j W_{letter}[{{1}}, j] z[{{0}}, j] + B_{letter}[{{1}}]"
        parts.append(traced.add(f"{name}.{part}", values, rule, where, title=many, axes=STREAM, equation=equation))
        first += values.shape[-1]
    query, key, value = parts
    scores = add_scores(traced, name, module.score, query, key, None)
    weights = add_weights(traced, name, scores, None)
    return add_mixed(traced, name, weights, value, captured.output_of(name), None)
