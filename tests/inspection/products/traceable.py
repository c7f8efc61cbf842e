"""Small models of every kind whose numbers can be opened, with an input for each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuropil.models.attention import PatchAttention, PatchAttentionConfig
from neuropil.models.bert import BERT, BERTClassifier, BERTConfig, MaskedBERT
from neuropil.models.cnn import CNN, CNNConfig
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.models.recurrent import RecurrentNetwork, RecurrentNetworkConfig
from neuropil.models.text_classifier import RecurrentTextClassifier, RecurrentTextClassifierConfig
from neuropil.models.transformer import Transformer, TransformerConfig
from neuropil.models.vit import ViT, ViTConfig
from neuropil.parts.multi_head import heads_of, remove_heads

VOCABULARY = 20


class Traceable(NamedTuple):
    model: nn.Module
    input: tuple[Tensor, ...]


def picture(side: int = 8) -> tuple[Tensor]:
    return (torch.randint(0, 256, (1, 1, side, side), dtype=torch.uint8),)


def text(length: int = 6) -> tuple[Tensor]:
    return (torch.randint(1, VOCABULARY, (1, length)),)


def mlp(**options: Any) -> Traceable:
    return Traceable(MLP(MLPConfig(**{"hidden_sizes": (8, 8), **options})), picture())


def rescaled_mlp() -> Traceable:
    model = MLP(MLPConfig(hidden_sizes=(8,), activation="gelu", shape=(5,), outputs=2))
    model.target_scale.fit(100 + 10 * torch.randn(20, 2))
    return Traceable(model, (torch.randn(1, 5),))


def cnn(**options: Any) -> Traceable:
    return Traceable(CNN(CNNConfig(**{"width": 4, "shape": (1, 10, 10), **options})), picture(10))


def recurrent(**options: Any) -> Traceable:
    sizes = {"vocabulary_size": VOCABULARY, "hidden_size": 5, "embedding_size": 4, "output_size": 3}
    return Traceable(RecurrentNetwork(RecurrentNetworkConfig(**{**sizes, **options})), text())


def of_vectors() -> Traceable:
    config = RecurrentNetworkConfig(cell="rnn", hidden_size=5, input_size=3, shape="aligned", activation="relu")
    return Traceable(RecurrentNetwork(config), (torch.randn(1, 4, 3),))


def text_classifier() -> Traceable:
    config = RecurrentTextClassifierConfig(
        vocabulary_size=VOCABULARY, bigrams=64, hidden_size=5, embedding_size=4, bidirectional=True
    )
    model = RecurrentTextClassifier(config)
    model.bag.count([torch.randint(2, VOCABULARY, (40, 9))])
    model.bag.weight.normal_()
    return Traceable(model, text())


BLOCKS: dict[str, Any] = {"width": 8, "heads": 2, "layers": 2, "feed_forward": 12}


def gpt2(**options: Any) -> Traceable:
    return Traceable(GPT2(GPT2Config(**BLOCKS, context=8, vocabulary_size=VOCABULARY, **options)), text())


def gpt2_with_fewer_heads() -> Traceable:
    found = gpt2()
    remove_heads(found.model, {"blocks.0.attention": [0, 1]})
    heads_of(found.model)["blocks.1.attention"].head_mask = torch.tensor([0.5, 1.0])
    return found


def bert(kind: Callable[[BERTConfig], nn.Module]) -> Traceable:
    config = BERTConfig(**BLOCKS, context=8, vocabulary_size=VOCABULARY, classes=3)
    tokens = text()
    return Traceable(kind(config), (*tokens, tokens[0] != 4))


def vit(side: int = 8) -> Traceable:
    return Traceable(ViT(ViTConfig(**BLOCKS, patch=4, shape=(1, 8, 8), classes=4)), picture(side))


def transformer(**options: Any) -> Traceable:
    sizes = {"source_vocabulary_size": VOCABULARY, "target_vocabulary_size": VOCABULARY, "context": 4}
    model = Transformer(TransformerConfig(**{**BLOCKS, "layers": 1, **sizes, **options}))
    return Traceable(model, (torch.tensor([[3, 4, 5, 6, 0, 0]]), *text(4)))


def patch_attention(**options: Any) -> Traceable:
    config = PatchAttentionConfig(
        **{"width": 6, "key_width": 5, "layers": 1, "shape": (1, 7, 7), "patch": 3, **options}
    )
    return Traceable(PatchAttention(config), picture(7))


KINDS: dict[str, Callable[[], Traceable]] = {
    "mlp": mlp,
    "deep mlp": lambda: mlp(batch_norm=True, residual=True, activation="softplus"),
    "linear mlp": lambda: mlp(hidden_sizes=()),
    "rescaled mlp": rescaled_mlp,
    "cnn": cnn,
    "cnn, norm after": lambda: cnn(norm_order="after", depth=2),
    "rnn": lambda: recurrent(cell="rnn", shape="aligned"),
    "rnn of vectors": of_vectors,
    "lstm": lambda: recurrent(cell="lstm", shape="aligned", layers=2),
    "lstm in both directions": lambda: recurrent(cell="lstm", bidirectional=True, layers=2),
    "gru": lambda: recurrent(cell="gru", pooling="mean"),
    "gru in both directions": lambda: recurrent(cell="gru", pooling="max", bidirectional=True),
    "gru, reset before": lambda: recurrent(cell="gru", gate="take", reset="before"),
    "gru without reset": lambda: recurrent(cell="gru", reset="none"),
    "gru of one gate": lambda: recurrent(cell="gru", gate="take", reset="shared"),
    "mingru": lambda: recurrent(cell="mingru", shape="aligned"),
    "residual mingru": lambda: recurrent(cell="mingru", shape="aligned", residual=True),
    "text classifier": text_classifier,
    "gpt2": gpt2,
    "gpt2, untied": lambda: gpt2(tied=False, activation="quick_gelu"),
    "gpt2 with fewer heads": gpt2_with_fewer_heads,
    "bert": lambda: bert(MaskedBERT),
    "bert without a head": lambda: bert(BERT),
    "bert classifier": lambda: bert(BERTClassifier),
    "vit": vit,
    "vit of a larger picture": lambda: vit(12),
    "transformer": transformer,
    "transformer, pre-norm": lambda: transformer(norm="pre", shared_embeddings=False, positions="learned", context=8),
    "attention": patch_attention,
    "attention, cosine": lambda: patch_attention(score="cosine", positions="none"),
    "attention, gaussian": lambda: patch_attention(score="gaussian", embedding="none"),
    "attention, additive": lambda: patch_attention(score="additive", value_width=4, layers=2),
}


def build(name: str, dtype: torch.dtype = torch.float64) -> Traceable:
    """With biases, norms and running statistics that are not what a model begins with: none of them may be left out."""
    torch.manual_seed(len(name))
    model, given = KINDS[name]()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.3, 1)
        for buffer_name, buffer in model.named_buffers():
            if buffer_name.rpartition(".")[2] in ("running_mean", "running_var") or "standardize" in buffer_name:
                buffer.uniform_(0.5, 2)
    cast = tuple(each.to(dtype) if each.is_floating_point() else each for each in given)
    return Traceable(model.to(dtype), cast)
