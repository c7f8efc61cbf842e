"""One training step of the base-size Transformer beside `nn.Transformer` in a plain loop: 4,096 tokens a side, a
vocabulary of 37,000. Goals: at least 1.1 times as fast, and 70 % of what this machine's matrix multiplication reaches
alone."""

import math
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.timing import alternate, ratio
from neuropil.models.transformer import Transformer, TransformerConfig
from neuropil.parts.objectives import SequenceToSequence
from neuropil.parts.positions import sinusoidal
from neuropil.protocols import PADDING

BATCH, TIME, ROUNDS = 64, 64, 3
CONFIG = TransformerConfig()


class PlainTransformer(nn.Module):
    """What a careful person builds around `nn.Transformer`: shared embeddings, positions, masks."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.embedding = nn.Embedding(config.source_vocabulary_size, config.width)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.core = nn.Transformer(
            config.width,
            config.heads,
            config.layers,
            config.layers,
            config.feed_forward_size,
            config.dropout,
            batch_first=True,
            norm_first=config.norm == "pre",
        )
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("positions", sinusoidal(config.context, config.width))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.bool)
        padding = source == PADDING
        y = self.core(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(y, self.embedding.weight)

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(x + self.get_buffer("positions")[: x.shape[1]])

    def loss(self, batch: dict[str, Tensor], label_smoothing: float) -> Tensor:
        logits = self(batch["source"], batch["target"][:, :-1])
        following = batch["target"][:, 1:]
        return F.cross_entropy(
            logits.flatten(0, 1), following.flatten(), ignore_index=PADDING, label_smoothing=label_smoothing
        )


def random_batch() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {
        "source": torch.randint(4, CONFIG.source_vocabulary_size, (BATCH, TIME)),
        "target": torch.randint(4, CONFIG.target_vocabulary_size, (BATCH, TIME + 1)),
    }


def step_flops(config: TransformerConfig, tokens: int, time: int) -> float:
    """Multiplications and additions of the matrix products of a step: forward once, backward twice."""
    d, f = config.width, config.feed_forward_size
    encoder = config.layers * (4 * d * d + 2 * d * f + 2 * time * d)
    decoder = config.layers * (8 * d * d + 2 * d * f + 4 * time * d)
    return 3 * 2 * tokens * (encoder + decoder + config.target_vocabulary_size * d)


def matmul_peak() -> float:
    """Operations a second of a large product, the best of several."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = math.inf
    for _ in range(10):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    return 2 * 2048**3 / best


def main() -> None:
    batch = random_batch()
    ours, plain = Transformer(CONFIG), PlainTransformer(CONFIG)
    learner = SequenceToSequence(ours, label_smoothing=0.1)
    optimizers: dict[nn.Module, torch.optim.Optimizer] = {
        model: torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True) for model in (ours, plain)
    }

    def step(model: nn.Module, loss: Tensor) -> None:
        optimizers[model].zero_grad()
        loss.backward()
        optimizers[model].step()

    seconds = alternate(
        {
            "neuropil": lambda: step(ours, learner.loss(batch)),
            "nn.Transformer": lambda: step(plain, plain.loss(batch, 0.1)),
        },
        ROUNDS,
    )
    print(f"nn.Transformer / neuropil: {ratio(seconds['nn.Transformer'], seconds['neuropil'])}")
    peak = matmul_peak()
    reached = step_flops(CONFIG, BATCH * TIME, TIME) / min(seconds["neuropil"])
    print(f"share of the matrix-multiply peak ({peak / 1e9:.0f} GFlop/s): {100 * reached / peak:.0f} %")
