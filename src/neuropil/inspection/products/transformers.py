"""The stages of the transformers that read and write texts: GPT-2, BERT and the Transformer."""

import math

from torch import nn

from neuropil.inspection.products.blocks import STREAM, BlockStages
from neuropil.inspection.products.captured import CapturedPass
from neuropil.inspection.products.layers import add_function, add_input, add_linear, add_tokens
from neuropil.inspection.products.opened import Factor, Index
from neuropil.inspection.products.source import Computed
from neuropil.inspection.products.stages import NamedValues, TracedPass, Where, constant, sum_of
from neuropil.models.bert import BERT, BERTClassifier, MaskedBERT
from neuropil.models.gpt2 import GPT2, places
from neuropil.models.transformer import Transformer
from neuropil.parts.positions import Positions, sinusoidal


def trace_gpt2(traced: TracedPass, model: GPT2, captured: CapturedPass) -> NamedValues:
    add, embed = BlockStages(traced, captured), Computed(GPT2.embed, "return self.dropout(self.tokens(tokens)")
    given = captured.given("")
    tokens = add_input(traced, given["tokens"][0], "time", embed)
    words = add_tokens(traced, "tokens", tokens, captured.output_of("tokens"), "tokens.weight", Where(embed))
    positions = traced.parameter("positions.weight")
    counted = places(given["tokens"], given.get("mask")).flatten().tolist()
    x = traced.add(
        "embedding",
        captured.output_of("dropout"),
        sum_of(lambda index: [(words[index],), (positions[counted[index[0]], index[1]],)], "sum"),
        Where(embed),
        title="token and position",
        axes=STREAM,
        equation="x[{0}, {1}] = E[token[{0}], {1}] + P[{0}, {1}]",
    )
    for number, block in enumerate(model.blocks):
        x = add.block(f"blocks.{number}", block, x)
    x = add.norm("norm", model.norm, x, Where(Computed(GPT2.hidden, "return self.norm(x)")))
    weight, line = (
        "tokens.weight" if model.config.tied else "output.weight",
        "return F.linear(x, self.output_weight) if",
    )
    return add.logits(x, weight, None, captured.output, Computed(GPT2.forward, line))


# --- BERT -------------------------------------------------------------------------------------------------------------


def trace_bert(traced: TracedPass, model: BERT, captured: CapturedPass, prefix: str = "") -> NamedValues:
    """The hidden states; `prefix` is the name of the body within another model, with a dot."""
    add, given = BlockStages(traced, captured), captured.given(prefix.removesuffix("."))
    embed = Computed(BERT.forward, "x = self.dropout(self.norm(self.tokens(tokens)")
    name, tokens = f"{prefix}tokens", add_input(traced, given["tokens"][0], "time", embed)
    words = add_tokens(traced, name, tokens, captured.output_of(name), f"{name}.weight", Where(embed))
    kinds, positions = (traced.parameter(f"{prefix}{part}.weight") for part in ("segments", "positions"))
    of_each = given.get("segments")
    segments = [0] * len(words.values) if of_each is None else of_each[0].tolist()

    def parts(index: Index) -> list[tuple[Factor, ...]]:
        return [(words[index],), (kinds[segments[index[0]], index[1]],), (positions[index],)]

    x = traced.add(
        f"{prefix}embedding",
        captured.input_of(f"{prefix}norm"),
        sum_of(parts, "sum"),
        Where(embed),
        title="token, segment and position",
        axes=STREAM,
        equation="x[{0}, {1}] = E[token[{0}], {1}] + S[segment[{0}], {1}] + P[{0}, {1}]",
    )
    x = add.norm(f"{prefix}norm", model.norm, x, Where(embed))
    for number, block in enumerate(model.blocks):
        x = add.block(f"{prefix}blocks.{number}", block, x)
    return x


def trace_masked_bert(traced: TracedPass, model: MaskedBERT, captured: CapturedPass) -> NamedValues:
    add, line = BlockStages(traced, captured), Computed(MaskedBERT.logits, "return F.linear(self.norm(")
    x, of = trace_bert(traced, model.bert, captured, "bert."), model.config.activation
    x = add.linear("transform", x, Where(line), "weighted sums")
    activated = captured.input_of("norm")
    x = add_function(traced, "activation", x, activated, of, Where(line), STREAM, f"activation: {of}")
    x = add.norm("norm", model.norm, x, Where(line))
    return add.logits(x, "bert.tokens.weight", "bias", captured.output, line)


def trace_bert_classifier(traced: TracedPass, model: BERTClassifier, captured: CapturedPass) -> NamedValues:
    add, x = BlockStages(traced, captured), trace_bert(traced, model.bert, captured, "bert.")
    pool = Where(Computed(BERT.pool, "return torch.tanh(self.pooler("))
    a = add_linear(
        traced,
        "bert.pooler",
        x,
        captured.output_of("bert.pooler"),
        pool,
        axes="unit",
        title="pooler, of the first token",
        locate=lambda index: ((0,), index[0]),
        symbols=("a", "x₀"),
    )
    h = add_function(traced, "bert.pooled", a, captured.input_of("dropout"), "tanh", pool, "unit")
    where = Where(Computed(BERTClassifier.forward, "return self.output("))
    return add.linear("output", h, where, "logits", "class", symbols=("z", "h"))


# --- the Transformer --------------------------------------------------------------------------------------------------


def trace_transformer(traced: TracedPass, model: Transformer, captured: CapturedPass) -> NamedValues:
    add = BlockStages(traced, captured)
    x = _add_embedded(traced, model, captured, "source", 0)
    for number, block in enumerate(model.encoder):
        x = add.block(f"encoder.{number}", block, x)
    x = _add_final_norm(add, "encoder_norm", model.encoder_norm, x, Computed(Transformer.encode, "self.encoder_norm("))
    y = _add_embedded(traced, model, captured, "target", 1)
    for number, block in enumerate(model.decoder):
        y = add.decoder_block(f"decoder.{number}", block, y, x)
    y = _add_final_norm(add, "decoder_norm", model.decoder_norm, y, Computed(Transformer.decode, "self.decoder_norm("))
    weight = "source.weight" if model.config.shared_embeddings else "output.weight"
    line = Computed(Transformer.forward, "return F.linear(y, self.output_weight) if")
    return add.logits(y, weight, None, captured.output, line)


def _add_embedded(traced: TracedPass, model: Transformer, captured: CapturedPass, side: str, call: int) -> NamedValues:
    """√d E[token] + PE of the source, which is embedded first, or of the target."""
    line = Computed(Transformer.embed, "return self.dropout(self.positions(")
    table = "source" if model.config.shared_embeddings else side
    tokens = add_input(traced, captured.given("")[side][0], "time", line, side)
    values = captured.output_of(table, call if model.config.shared_embeddings else 0)
    words = add_tokens(traced, f"{side}.tokens", tokens, values, f"{table}.weight", Where(line, side))
    scale, positions = constant(math.sqrt(model.config.width), "√d"), _positions(traced, model.positions, len(values))
    return traced.add(
        f"{side}.embedding",
        captured.output_of("positions", call),
        sum_of(lambda index: [(scale, words[index]), *([] if positions is None else [(positions[index],)])]),
        Where(line, side),
        title="token and position",
        axes=STREAM,
        equation="x[{0}, {1}] = √d E[token[{0}], {1}] + PE[{0}, {1}]",
    )


def _positions(traced: TracedPass, module: Positions, length: int) -> NamedValues | None:
    if module.kind == "none":
        return None
    table = traced.parameter("positions.table")
    if length <= len(table.values):
        return table
    return NamedValues("PE", sinusoidal(length, module.width).to(table.values), "constant")


def _add_final_norm(add: BlockStages, name: str, norm: nn.Module, x: NamedValues, line: Computed) -> NamedValues:
    return add.norm(name, norm, x, Where(line)) if isinstance(norm, nn.LayerNorm) else x
