"""The stages of blocks of attention: norms, attention, feed-forward network, and the sum around each."""

from dataclasses import dataclass

from torch import Tensor, nn

from neuropil.inspection.products.attention import add_multi_head
from neuropil.inspection.products.captured import CapturedPass
from neuropil.inspection.products.layers import add_function, add_layer_norm, add_linear
from neuropil.inspection.products.source import Computed
from neuropil.inspection.products.stages import NamedValues, TracedPass, Where, linear, total
from neuropil.models.transformer import DecoderBlock
from neuropil.parts.blocks import HIDDEN, FeedForward, Residual, TransformerBlock

STREAM, HIDDEN_AXES = "time width", "time hidden"


@dataclass(frozen=True)
class BlockStages:
    """Adds to a pass what a model of blocks is made of."""

    traced: TracedPass
    captured: CapturedPass

    def block(self, name: str, block: TransformerBlock, x: NamedValues) -> NamedValues:
        x = self._self_attention(name, block, x)
        return self._feed_forward(name, block, x)

    def decoder_block(self, name: str, block: DecoderBlock, x: NamedValues, memory: NamedValues) -> NamedValues:
        x = self._self_attention(name, block, x)
        entered = self._enter(f"{name}.cross_sum", block.cross_sum, x)
        y = add_multi_head(self.traced, f"{name}.cross", block.cross, self.captured, entered, memory)
        x = self._leave(f"{name}.cross_sum", block.cross_sum, x, y)
        return self._feed_forward(name, block, x)

    def linear(
        self,
        name: str,
        x: NamedValues,
        where: Where,
        title: str,
        axes: str = STREAM,
        symbols: tuple[str, str] = ("a", "x"),
    ) -> NamedValues:
        values = self.captured.output_of(name)
        return add_linear(self.traced, name, x, values, where, axes=axes, title=title, symbols=symbols)

    def norm(self, name: str, module: nn.LayerNorm, x: NamedValues, where: Where) -> NamedValues:
        return add_layer_norm(self.traced, name, module, x, self.captured.output_of(name), where)

    def logits(self, x: NamedValues, weight: str, bias: str | None, values: Tensor, line: Computed) -> NamedValues:
        """By a matrix that may be the embedding too."""
        rule = linear(x, self.traced.parameter(weight), None if bias is None else self.traced.parameter(bias))
        shift = "" if bias is None else " + c[{1}]"
        equation = f"z[{{0}}, {{1}}] = Σ_j E[{{1}}, j] x[{{0}}, j]{shift}"
        return self.traced.add(
            "output", values, rule, Where(line), title="logits", axes="time class", equation=equation
        )

    def _self_attention(self, name: str, block: TransformerBlock | DecoderBlock, x: NamedValues) -> NamedValues:
        entered = self._enter(f"{name}.attention_sum", block.attention_sum, x)
        y = add_multi_head(self.traced, f"{name}.attention", block.attention, self.captured, entered)
        return self._leave(f"{name}.attention_sum", block.attention_sum, x, y)

    def _feed_forward(self, name: str, block: TransformerBlock | DecoderBlock, x: NamedValues) -> NamedValues:
        part = f"{name}.feed_forward"
        where = Where(Computed(FeedForward.forward, "self.outer(self.activation(self.inner(x)))"), part)
        y = self._enter(f"{part}_sum", block.feed_forward_sum, x)
        y = self.linear(f"{part}.inner", y, where, "weighted sums", HIDDEN_AXES)
        of = next(of for of, each in HIDDEN.items() if each is block.feed_forward.activation)
        values, title = self.captured.input_of(f"{part}.outer"), f"activation: {of}"
        y = add_function(self.traced, f"{part}.activation", y, values, of, where, HIDDEN_AXES, title)
        y = self.linear(f"{part}.outer", y, where, "feed-forward output", symbols=("y", "h"))
        return self._leave(f"{part}_sum", block.feed_forward_sum, x, y)

    def _enter(self, name: str, residual: Residual, x: NamedValues) -> NamedValues:
        """N(x) before a sublayer, or x itself."""
        if not residual.first:
            return x
        where = Where(Computed(Residual.enter, "return self.norm(x) if"), name.removesuffix("_sum"))
        return self.norm(f"{name}.norm", residual.norm, x, where)

    def _leave(self, name: str, residual: Residual, x: NamedValues, y: NamedValues) -> NamedValues:
        """x + y, or N(x + y)."""
        summed = self.traced.add(
            name,
            self.captured.output_of(name) if residual.first else self.captured.input_of(f"{name}.norm"),
            total(x, y),
            Where(Computed(Residual.forward, "x = x + self.dropout(f)"), name.removesuffix("_sum")),
            title="residual sum",
            axes=STREAM,
            equation="x'[{0}, {1}] = x[{0}, {1}] + y[{0}, {1}]",
        )
        if residual.first:
            return summed
        where = Where(Computed(Residual.forward, "return x if self.first else self.norm(x)"), name.removesuffix("_sum"))
        return self.norm(f"{name}.norm", residual.norm, summed, where)
