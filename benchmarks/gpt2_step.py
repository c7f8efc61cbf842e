"""One training step of GPT-2 124M beside Hugging Face's: 4 texts of 256 tokens, the same weights, without dropout.
Goals: 1.25 times as fast in float32 and 75 % of what matrix multiplication reaches alone; 1.15 times as fast with
bfloat16 autocast."""

import tempfile
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.timing import alternate, ratio
from benchmarks.transformer_step import matmul_peak
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.parts.losses import projected_cross_entropy
from neuropil.training.precision import prepare_bfloat16

BATCH, TIME = 4, 256
ROUNDS = {torch.float32: 6, torch.bfloat16: 2}
"""A processor without bfloat16 takes most of a minute for a step with it."""


def main() -> None:
    prepare_bfloat16()
    from transformers import GPT2LMHeadModel

    ours = GPT2(GPT2Config(dropout=0.0, attention_dropout=0.0))
    with tempfile.TemporaryDirectory() as folder:
        ours.save_pretrained(folder)
        theirs = GPT2LMHeadModel.from_pretrained(folder)
    tokens = torch.randint(ours.config.vocabulary_size, (BATCH, TIME))

    def own_loss() -> torch.Tensor:
        hidden = ours.hidden(tokens[:, :-1])
        return projected_cross_entropy(hidden.flatten(0, 1), ours.output_weight, tokens[:, 1:].flatten())

    losses: dict[str, tuple[nn.Module, Callable[[], torch.Tensor]]] = {
        "neuropil": (ours.train(), own_loss),
        "Hugging Face": (theirs.train(), lambda: theirs(tokens, labels=tokens).loss),
    }
    print(
        f"loss before the first step: {', '.join(f'{name} {loss().item():.4f}' for name, (_, loss) in losses.items())}"
    )
    for dtype, rounds in ROUNDS.items():
        seconds = alternate({name: step(model, loss, dtype) for name, (model, loss) in losses.items()}, rounds)
        print(
            f"{str(dtype).removeprefix('torch.')}, Hugging Face / neuropil: "
            f"{ratio(seconds['Hugging Face'], seconds['neuropil'])}"
        )
        if dtype == torch.float32:
            peak, reached = matmul_peak(), step_flops(ours.config) / min(seconds["neuropil"])
            print(f"share of the matrix-multiply peak ({peak / 1e9:.0f} GFlop/s): {100 * reached / peak:.0f} %")


def step(model: nn.Module, loss: Callable[[], torch.Tensor], dtype: torch.dtype) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def run() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            value = loss()
        value.backward()
        optimizer.step()

    return run


def step_flops(config: GPT2Config) -> float:
    """Multiplications and additions of the matrix products of a step: forward once, backward twice."""
    d, tokens = config.width, BATCH * (TIME - 1)
    layer = 4 * d * d + 2 * d * config.feed_forward_size + 2 * TIME * d
    return 3 * 2 * tokens * (config.layers * layer + config.vocabulary_size * d)


if __name__ == "__main__":
    main()
