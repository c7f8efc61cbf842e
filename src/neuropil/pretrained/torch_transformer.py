"""`nn.Transformer`, PyTorch's own encoder and decoder, into our Transformer and back.

It has no embeddings and no output layer, so these stay what they are. Its final norms are our `final_norm`. It must be
given without dropout inside its attention and feed-forward nets to behave the same while training; outside of training
the two always agree.
"""

import warnings

from torch import nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.transformer import Transformer, TransformerConfig

NAMES = {
    "attention.projection.weight": "self_attn.in_proj_weight",
    "attention.projection.bias": "self_attn.in_proj_bias",
    "attention.output.weight": "self_attn.out_proj.weight",
    "attention.output.bias": "self_attn.out_proj.bias",
    "cross.projection.weight": "multihead_attn.in_proj_weight",
    "cross.projection.bias": "multihead_attn.in_proj_bias",
    "cross.output.weight": "multihead_attn.out_proj.weight",
    "cross.output.bias": "multihead_attn.out_proj.bias",
    "feed_forward.inner.weight": "linear1.weight",
    "feed_forward.inner.bias": "linear1.bias",
    "feed_forward.outer.weight": "linear2.weight",
    "feed_forward.outer.bias": "linear2.bias",
    "attention_sum.norm.weight": "norm1.weight",
    "attention_sum.norm.bias": "norm1.bias",
}
"""Within a block, ours and theirs; the later norms differ in the encoder and in the decoder."""
ENCODER_NORMS = {"feed_forward_sum.norm": "norm2"}
DECODER_NORMS = {"cross_sum.norm": "norm2", "feed_forward_sum.norm": "norm3"}
NORM_EPS = 1e-5
"""What a norm adds to the variance: PyTorch's default, and ours."""


def from_torch(
    module: nn.Transformer, *, source_vocabulary_size: int, target_vocabulary_size: int, shared_embeddings: bool = True
) -> Transformer:
    """Our Transformer with the blocks of theirs and embeddings of its own."""
    layers, decoder_layers = list(module.encoder.layers), list(module.decoder.layers)
    if len(layers) != len(decoder_layers):
        rule = "from_torch takes as many encoder as decoder layers"
        raise InputError(rule, got=f"{len(layers)} and {len(decoder_layers)}")
    first, *_ = [require_published(layer) for layer in (*layers, *decoder_layers)]
    config = TransformerConfig(
        width=module.d_model,
        heads=module.nhead,
        layers=len(layers),
        feed_forward=first.linear1.out_features,
        dropout=first.dropout1.p,
        norm="pre" if first.norm_first else "post",
        final_norm=module.encoder.norm is not None,
        shared_embeddings=shared_embeddings,
        source_vocabulary_size=source_vocabulary_size,
        target_vocabulary_size=target_vocabulary_size,
    )
    ours = Transformer(config).to(first.linear1.weight)
    state, names = module.state_dict(), names_of(config)
    if different := sorted(state.keys() ^ set(names.values())):
        rule = "from_torch takes an nn.Transformer with the parameters of ours"
        raise InputError(rule, got=f"one that differs in {different[0]}")
    for name, theirs in names.items():
        ours.get_parameter(name).data.copy_(state[theirs])
    return ours.train(module.training)


def to_torch(model: Transformer) -> nn.Transformer:
    """`nn.Transformer` (batch first) with the blocks of ours."""
    config = model.config
    if config.kept_heads and set(config.kept_heads) != {config.heads}:
        rule = "nn.Transformer has the same number of heads in every layer"
        raise InputError(rule, got="a model whose heads were removed")
    with warnings.catch_warnings():
        # which it sets itself, and then cannot use with pre-norm
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        sizes = config.width, config.heads, config.layers, config.layers, config.feed_forward_size
        theirs = nn.Transformer(*sizes, config.dropout, batch_first=True, norm_first=config.norm == "pre")
    if config.norm == "post" and not config.final_norm:
        theirs.encoder.norm = theirs.decoder.norm = None
    mine = model.state_dict()
    theirs.load_state_dict({other: mine[name] for name, other in names_of(config).items()})
    return theirs.to(model.source.weight).train(model.training)


def require_published(layer: nn.Module) -> nn.TransformerEncoderLayer | nn.TransformerDecoderLayer:
    if not isinstance(layer, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        raise InputError("from_torch takes nn.Transformer's own layers", got=type(layer).__name__)
    if layer.activation is not F.relu and not isinstance(layer.activation, nn.ReLU):
        activation = getattr(layer.activation, "__name__", type(layer.activation).__name__)
        raise InputError("from_torch takes layers with relu", got=activation)
    if layer.norm1.eps != NORM_EPS:
        raise InputError(f"from_torch takes layers whose norms have eps={NORM_EPS:g}", got=f"{layer.norm1.eps:g}")
    return layer


def names_of(config: TransformerConfig) -> dict[str, str]:
    """Every parameter that the two share, by our name and theirs."""
    names: dict[str, str] = {}
    for side, norms in (("encoder", ENCODER_NORMS), ("decoder", DECODER_NORMS)):
        within = {ours: theirs for ours, theirs in NAMES.items() if side == "decoder" or not ours.startswith("cross")}
        for ours, theirs in norms.items():
            within |= {f"{ours}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")}
        for layer in range(config.layers):
            names |= {f"{side}.{layer}.{ours}": f"{side}.layers.{layer}.{theirs}" for ours, theirs in within.items()}
        if config.norm == "pre" or config.final_norm:
            names |= {f"{side}_norm.{part}": f"{side}.norm.{part}" for part in ("weight", "bias")}
    return names
