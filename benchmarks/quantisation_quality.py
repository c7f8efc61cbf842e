"""What rounded weights cost a GPT-2 that has learned real text, ours beside llama.cpp's and OpenVINO's of the same run.

    python -m benchmarks.quantisation_quality RUN

`make claims` trains one and publishes it."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

import numpy as np
import torch

from benchmarks.decoding import loaded
from neuropil.runs.run import Run, load
from neuropil.sampling.gpt2_cpu.decoder import FastDecoder, Precision
from neuropil.tasks.language_modelling.experiment import LanguageModellingExperiment
from neuropil.tasks.language_modelling.gpt2 import GPT2LanguageModel

CHARACTERS = 12_000
TEXTS, PROMPT, NEW = 10, 32, 50
WEIGHTS = {
    "neuropil": get_args(Precision),
    "llama.cpp": ("float32", "Q8_0", "Q4_0"),
    "OpenVINO": ("int8",),
}
ABOUT = (
    f"on {CHARACTERS:,} characters that it has not seen, read one token at a time as in generation: perplexity, mean "
    f"Kullback–Leibler divergence from neuropil's float32, and how many of {TEXTS * NEW} tokens that float32 writes "
    f"greedily ({TEXTS} texts of {NEW}) are the most probable ones here too."
)
HEADER = ["library, weights", "MB read a token", "perplexity", "KL in nats a token", "greedy agreement"]


def rows(run: Run) -> list[list[str]]:
    model = cast(GPT2LanguageModel, run.predictor)
    held_out = cast(LanguageModellingExperiment, run.experiment()).held_out_text(CHARACTERS)
    context = model.model.config.context
    windows = model.tokens_of(held_out).unfold(0, context, context)
    prompts = windows[:TEXTS, : min(PROMPT, context - NEW)]
    texts = greedy(FastDecoder(model.model), prompts)
    found = []
    with tempfile.TemporaryDirectory() as name, loaded(run.folder, WEIGHTS) as engines:
        exact = None
        for engine in engines:
            given = torch.from_numpy(engine.logits(windows[:, :-1].tolist(), Path(name)))
            logs = given.log_softmax(-1)
            exact = logs if exact is None else exact
            perplexity = (-logs.gather(-1, windows[:, 1:, None]).mean()).exp()
            divergence = (exact.exp() * (exact - logs)).sum(-1).mean()
            written = engine.logits(texts[:, :-1].tolist(), Path(name))[:, prompts.shape[1] - 1 :].argmax(-1)
            agreement = np.mean(written == texts[:, prompts.shape[1] :].numpy())
            size, share = f"{engine.bytes_read / 1e6:.2f}", f"{100 * agreement:.1f} %"
            found.append([engine.name, size, f"{perplexity:.3f}", f"{divergence:.1e}", share])
    return found


def greedy(decoder: FastDecoder, prompts: torch.Tensor) -> torch.Tensor:
    """The prompts, and what follows them."""
    texts = []
    for prompt in prompts:
        state, text, entering = decoder.begin(), prompt, prompt
        for _ in range(NEW):
            entering = decoder.step(entering[None], state).argmax(-1)
            text = torch.cat([text, entering])
        texts.append(text)
    return torch.stack(texts)


def main(words: Sequence[str]) -> None:
    print(*HEADER, sep=" | ")
    for row in rows(load(Path(words[0]))):
        print(*row, sep=" | ")


if __name__ == "__main__":
    main(sys.argv[1:])
