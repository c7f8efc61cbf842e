"""One training step of GPT-2 124M beside Hugging Face's: 4 texts of 256 tokens, the same weights, without dropout, each
in a process of its own, since memory is handled as in `neuropil train` in ours and as PyTorch does by itself in theirs.
Goals: 1.25 times as fast and 80 % of what matrix multiplication reaches alone in float32; 1.4 times as fast with
bfloat16 autocast, where the processor has it.

python -m benchmarks.gpt2_step [float32] [bfloat16]
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache, partial
from multiprocessing import get_context
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.timing import alternate, ratio
from benchmarks.transformer_step import matmul_peak
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.parts.losses import projected_cross_entropy
from neuropil.runs.environment import environment
from neuropil.training.cpu.allocation import reused_memory
from neuropil.training.cpu.products import products_by_onednn
from neuropil.training.precision import prepare_bfloat16

BATCH, TIME = 4, 256
CONFIG = GPT2Config(dropout=0.0, attention_dropout=0.0)
PRECISIONS, ROUNDS = ("float32", "bfloat16"), 6
SLOW, FEW = 40.0, 2
"""Seconds of the first steps, and rounds where they take longer: with bfloat16 on a processor that has none."""


class Trained(NamedTuple):
    loss: Callable[[], Tensor]
    optimizer: torch.optim.Optimizer
    memory: ExitStack
    """Open as long as the process lives."""


def main(words: Sequence[str] = ()) -> None:
    print(f"{environment()['processor']}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        GPT2(CONFIG).save_pretrained(folder)
        spawn = get_context("spawn")
        processes = {name: stack.enter_context(ProcessPoolExecutor(1, spawn)) for name in ("neuropil", "Hugging Face")}

        def steps(name: str, precision: str) -> float:
            return processes[name].submit(step, name, folder, precision).result()

        for precision in words or PRECISIONS:
            begun = time.perf_counter()
            first = {name: steps(name, precision) for name in processes}
            rounds = FEW if time.perf_counter() - begun > SLOW else ROUNDS
            print(f"{precision}: loss {', '.join(f'{name} {value:.4f}' for name, value in first.items())}")
            work = {name: partial(steps, name, precision) for name in processes}
            seconds = alternate(work, rounds)
            print(f"Hugging Face / neuropil: {ratio(seconds['Hugging Face'], seconds['neuropil'])}")
            if precision == "float32":
                peak = matmul_peak()
                for name, taken in seconds.items():
                    share = step_flops(CONFIG) / min(taken) / peak
                    print(
                        f"{name}: {min(taken):.2f} to {max(taken):.2f} s a step, at best {100 * share:.0f} % of the "
                        f"matrix-multiply peak of {peak / 1e9:.0f} GFlop/s"
                    )


def step(name: str, folder: str, precision: str) -> float:
    """In a process of `name` alone. The loss before it."""
    trained = load(name, folder)
    trained.optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        value = trained.loss()
    value.backward()
    trained.optimizer.step()
    return value.item()


@cache
def load(name: str, folder: str) -> Trained:
    prepare_bfloat16()
    torch.manual_seed(0)
    tokens, memory = torch.randint(CONFIG.vocabulary_size, (BATCH, TIME)), ExitStack()
    if name == "neuropil":
        memory.enter_context(reused_memory())
        ours = GPT2(CONFIG).train()
        memory.enter_context(products_by_onednn(ours))
        ours.load_state_dict(GPT2.from_pretrained(folder).state_dict())  # in memory of its own, as a run has it
        return Trained(lambda: own_loss(ours, tokens), optimizer(ours), memory)
    from transformers import GPT2LMHeadModel

    theirs = GPT2LMHeadModel.from_pretrained(folder).train()
    return Trained(lambda: theirs(tokens, labels=tokens).loss, optimizer(theirs), memory)


def own_loss(model: GPT2, tokens: Tensor) -> Tensor:
    hidden = model.hidden(tokens[:, :-1])
    return projected_cross_entropy(hidden.flatten(0, 1), model.output_weight, tokens[:, 1:].flatten())


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def step_flops(config: GPT2Config) -> float:
    """Multiplications and additions of the matrix products of a step: forward once, backward twice."""
    d, tokens = config.width, BATCH * (TIME - 1)
    layer = 4 * d * d + 2 * d * config.feed_forward_size + 2 * TIME * d
    return 3 * 2 * tokens * (config.layers * layer + config.vocabulary_size * d)


if __name__ == "__main__":
    main(sys.argv[1:])
