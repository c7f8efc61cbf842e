"""The stages of recurrent networks: embedding, layers of cells step by step, pooling and logits, and the bag of words
that votes beside one."""

import torch
from torch import Tensor

from neuropil.errors import InputError
from neuropil.inspection.products.captured import CapturedPass
from neuropil.inspection.products.cells import add_cell
from neuropil.inspection.products.layers import add_function, add_input, add_layer_norm, add_linear, add_tokens
from neuropil.inspection.products.opened import Factor, Index
from neuropil.inspection.products.source import Computed
from neuropil.inspection.products.stages import (
    NamedValues,
    TracedPass,
    Where,
    constant,
    copied,
    largest_of,
    mean_of_numbers,
    norm_of,
    quotient,
    sum_of,
    total,
)
from neuropil.models.recurrent import RecurrentBlock, RecurrentBlocks, RecurrentNetwork
from neuropil.models.text_classifier import BagOfBigrams, RecurrentTextClassifier
from neuropil.parts.recurrence import Recurrence
from neuropil.protocols import PADDING

STEPS = "time unit"
SHORTEST = 1e-12
"""By which `F.normalize` divides at least."""


def trace_recurrent(
    traced: TracedPass, model: RecurrentNetwork, captured: CapturedPass, prefix: str = ""
) -> NamedValues:
    """`prefix` is the name of the network within another model, with a dot."""
    given = captured.input_of(prefix.removesuffix("."))
    require_no_padding(model, given)
    read = Computed(RecurrentNetwork.read, "self.dropout(self.embedding(x)")
    if model.config.vocabulary_size:
        tokens, name = add_input(traced, given, "time", read), f"{prefix}embedding"
        x = add_tokens(traced, name, tokens, captured.output_of(name), f"{name}.weight", Where(read))
    else:
        x = add_input(traced, given, "time width", read)
    reader = model.reader
    if isinstance(reader, RecurrentBlocks):
        h = _add_blocks(traced, reader, captured, x, f"{prefix}reader")
    else:
        h = _add_layers(traced, reader, captured, x, f"{prefix}reader")
    line, name, values = Computed(RecurrentNetwork.forward, "self.output("), f"{prefix}output", captured.output_of
    if model.config.shape == "aligned":
        axes = "time class"
    else:
        h, axes = _add_pooled(traced, model, h, captured.input_of(name), prefix), "class"
    symbols = ("o", "h")
    return add_linear(traced, name, h, values(name), Where(line), axes=axes, title="logits", symbols=symbols)


def require_no_padding(model: RecurrentNetwork, x: Tensor) -> None:
    padding = int((x == PADDING).sum()) if model.config.vocabulary_size else 0
    if padding or len(x) == 0:
        got = f"{padding} tokens of padding among {len(x)}" if padding else "none"
        raise InputError("a text to open must have one token or more, and no padding", got=got)


# --- layers -----------------------------------------------------------------------------------------------------------


def _add_layers(
    traced: TracedPass, reader: Recurrence, captured: CapturedPass, x: NamedValues, prefix: str
) -> NamedValues:
    for layer, cell in enumerate(reader.forwards):
        forward = add_cell(traced, f"{prefix}.forwards.{layer}", cell, captured, x)
        if reader.bidirectional:
            backward = add_cell(traced, f"{prefix}.backwards.{layer}", reader.backwards[layer], captured, x)
            x = _add_side_by_side(traced, f"{prefix}.{layer}", forward, backward)
        else:
            x = forward
    return x


def _add_side_by_side(traced: TracedPass, name: str, forward: NamedValues, backward: NamedValues) -> NamedValues:
    units = forward.values.shape[-1]

    def source(index: Index) -> Factor:
        step, unit = index
        return forward[step, unit] if unit < units else backward[step, unit - units]

    return traced.add(
        name,
        torch.cat([forward.values, backward.values], -1),
        copied(source),
        Where(Computed(Recurrence.forward, "x = torch.cat([each.outputs")),
        title="both directions side by side",
        axes=STEPS,
        equation="x[{0}, {1}] = h[{0}, {1}]",
    )


def _add_blocks(
    traced: TracedPass, reader: RecurrentBlocks, captured: CapturedPass, x: NamedValues, prefix: str
) -> NamedValues:
    enter = Where(Computed(RecurrentBlocks.forward, "x, after = self.enter("))
    name = f"{prefix}.enter"
    x = add_linear(traced, name, x, captured.output_of(name), enter, axes=STEPS, title="entrance")
    for number, block in enumerate(reader.blocks):
        x = _add_block(traced, f"{prefix}.blocks.{number}", block, captured, x)
    name, where = f"{prefix}.norm", Where(Computed(RecurrentBlocks.forward, "x = self.norm(x)"))
    return add_layer_norm(traced, name, reader.norm, x, captured.output_of(name), where)


def _add_block(
    traced: TracedPass, name: str, block: RecurrentBlock, captured: CapturedPass, x: NamedValues
) -> NamedValues:
    """x ← x + Cell(N(x)),   x ← x + W₂ φ(W₁ N(x) + b₁) + b₂"""

    def output(part: str) -> Tensor:
        return captured.output_of(f"{name}.{part}")

    def summed(part: str, values: Tensor, a: NamedValues, b: NamedValues, where: Where) -> NamedValues:
        equation = "x'[{0}, {1}] = x[{0}, {1}] + y[{0}, {1}]"
        rule, title = total(a, b), "residual sum"
        return traced.add(f"{name}.{part}", values, rule, where, title=title, axes=STEPS, equation=equation)

    entering = Where(Computed(RecurrentBlock.forward, "ran = self.cell(self.cell_norm(x)"), name)
    first = Where(Computed(RecurrentBlock._after_cell, "x = x + self.dropout(h)"), name)
    last = Where(Computed(RecurrentBlock._after_cell, "return x + self.dropout(self.feed_forward("), name)
    norm = add_layer_norm(traced, f"{name}.cell_norm", block.cell_norm, x, output("cell_norm"), entering)
    h = add_cell(traced, f"{name}.cell", block.cell, captured, norm)
    x = summed("cell_sum", captured.input_of(f"{name}.feed_forward_norm"), x, h, first)
    norm = block.feed_forward_norm
    y = add_layer_norm(traced, f"{name}.feed_forward_norm", norm, x, output("feed_forward_norm"), last)
    inner, outer = (f"{name}.feed_forward.{layer}" for layer in (0, 2))
    y = add_linear(traced, inner, y, captured.output_of(inner), last, axes=STEPS, title="feed-forward sums")
    y = add_function(traced, f"{name}.feed_forward.1", y, output("feed_forward.1"), "gelu", last, STEPS)
    y = add_linear(traced, outer, y, captured.output_of(outer), last, axes=STEPS, title="feed-forward output")
    return summed("sum", captured.output_of(name), x, y, last)


# --- one answer -------------------------------------------------------------------------------------------------------


def _add_pooled(
    traced: TracedPass, model: RecurrentNetwork, h: NamedValues, values: Tensor, prefix: str
) -> NamedValues:
    """One vector of all steps: each direction's last, their mean, or the largest of each number."""
    units, steps = model.config.hidden_size, range(len(h.values))

    def over_time(index: Index) -> list[Factor]:
        return [h[step, index[0]] for step in steps]

    def last(index: Index) -> Factor:
        return h[(steps[-1] if index[0] < units else 0), index[0]]

    rule, text, title, equation = {
        "mean": (mean_of_numbers(over_time), "(outputs * mask).sum(1)", "mean", "(1/T) Σ_t h[t, {0}]"),
        "max": (largest_of(over_time), ".amax(1)", "maximum", "max_t h[t, {0}]"),
        "last": (copied(last), "return torch.cat([last,", "last state", "h[last, {0}]"),
    }[model.config.pooling]
    return traced.add(
        f"{prefix}pooled",
        values,
        rule,
        Where(Computed(RecurrentNetwork.pool, text)),
        title=f"{title} over time" if model.config.pooling != "last" else "last states",
        axes="unit",
        equation=f"p[{{0}}] = {equation}",
    )


# --- the bag of words beside the network ------------------------------------------------------------------------------


def trace_text_classifier(traced: TracedPass, model: RecurrentTextClassifier, captured: CapturedPass) -> NamedValues:
    v = trace_recurrent(traced, model.network, captured, "network.")
    if not model.config.bag:
        return v
    u = _add_bag(traced, model.bag, captured)
    share = traced.parameter("share")
    rest = constant(1 - float(model.share), "1 − share")
    return traced.add(
        "output",
        captured.output,
        sum_of(lambda index: [(rest, u[index]), (share[()], v[index])]),
        Where(Computed(RecurrentTextClassifier.forward, "return (1 - self.share) *")),
        title="logits",
        axes="class",
        equation="z[{0}] = (1 − w) u[{0}] + w v[{0}]",
    )


def _add_bag(traced: TracedPass, bag: BagOfBigrams, captured: CapturedPass) -> NamedValues:
    """u = B φ / ‖φ‖ + b"""
    features = bag.features(captured.input_of("bag").unsqueeze(0))[0][0]
    numbers = features[features.diff(prepend=features.new_full((1,), -1)) != 0].tolist()  # each once
    first = Where(Computed(BagOfBigrams.features, "found, first = distinct("), "bag")
    divided = Where(Computed(BagOfBigrams.features, "return found, F.normalize("), "bag")
    idf, weight, bias = (traced.parameter(f"bag.{part}") for part in ("idf", "weight", "bias"))
    phi = traced.add(
        "bag.phi",
        idf.values[numbers],
        copied(lambda index: idf[numbers[index[0]],]),
        first,
        title="inverse document frequencies of the words and bigrams of the text",
        axes="feature",
        equation="φ[{0}] = 1 + ln((1 + N) / (1 + N[{0}]))",
    )
    length = traced.add(
        "bag.length",
        phi.values.norm(),
        norm_of(lambda _: phi.row()),
        divided,
        title="length of φ",
        axes="",
        equation="‖φ‖ = √Σ_g φ[g]²",
    )
    below = length[()] if length.values > SHORTEST else constant(SHORTEST, "shortest length")
    share = traced.add(
        "bag.features",
        phi.values / below.value,
        quotient(lambda index: phi[index], lambda _: below),
        divided,
        title="words and bigrams, of unit length",
        axes="feature",
        equation="f[{0}] = φ[{0}] / ‖φ‖",
    )

    def terms(index: Index) -> list[tuple[Factor, ...]]:
        products = zip(share.row(), (weight[number, index[0]] for number in numbers), strict=True)
        return [*products, (bias[index],)]

    return traced.add(
        "bag",
        captured.output_of("bag"),
        sum_of(terms),
        Where(Computed(BagOfBigrams.forward, "return einsum(phi,"), "bag"),
        title="logits of the bag",
        axes="class",
        equation="u[{0}] = Σ_g B[g, {0}] f[g] + b[{0}]",
    )
