"""GPT-2 of one size on one text, ours beside Hugging Face's in a plain loop: the same first weights, batches,
optimiser, schedule and passes over the text, at the same time on a thread each. Goals: the same loss on held-out text,
and more tokens a second.

python -m benchmarks.gpt2_learning text.txt.gz [passes]
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import nn

import neuropil
from neuropil.data.corpus.windows import TextWindows
from neuropil.models.gpt2 import GPT2
from neuropil.recipes.gpt2 import OWN_DATA, build
from neuropil.tasks.language_modelling.experiment import LanguageModellingExperiment
from neuropil.training.optimizers import build_optimizer
from neuropil.training.schedules import rate_share

SEED, PASSES = 0, 1


class Learned(NamedTuple):
    name: str
    bits_per_byte: float
    tokens: int
    seconds: float


def compare(path: Path, passes: int = PASSES) -> list[Learned]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return [run.result() for run in [pool.submit(learn, path, passes) for learn in (learn_ours, learn_theirs)]]


def learn_ours(path: Path, passes: int) -> Learned:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run = neuropil.train(
            "gpt2", out=Path(folder) / "run", seed=SEED, show_progress=False, **options_for(path, passes)
        )
        seconds = [row for row in run.rows if row["kind"] == "train"][-1]["seconds"]
        return Learned(
            "neuropil",
            run.metrics["bits_per_byte"],
            num_tokens(cast(LanguageModellingExperiment, run.experiment()), passes),
            seconds,
        )


def learn_theirs(path: Path, passes: int) -> Learned:
    from transformers import GPT2LMHeadModel

    torch.set_num_threads(1)
    experiment = build(OWN_DATA.override(**options_for(path, passes)), SEED)
    with tempfile.TemporaryDirectory() as folder:
        began = cast(GPT2, experiment.model)
        began.save_pretrained(folder)
        model: Any = GPT2LMHeadModel.from_pretrained(folder).train()
        seconds = train_plain(model, experiment, passes)
        model.save_pretrained(folder)
        began.load_state_dict(GPT2.from_pretrained(folder).state_dict())
    bits = experiment.own_result().metrics["bits_per_byte"]
    return Learned("Hugging Face in a plain loop", bits, num_tokens(experiment, passes), seconds)


def num_tokens(experiment: LanguageModellingExperiment, passes: int) -> int:
    batches = cast(TextWindows, experiment.training_batches)
    return passes * batches.windows * batches.context


def train_plain(model: Any, experiment: LanguageModellingExperiment, passes: int) -> float:
    """What a careful person writes, given the batches: decay groups, clipping, warm-up and cosine. Seconds that it
    took."""
    training, batches = experiment.training, experiment.training_batches
    updates = passes * len(batches)
    optimizer = build_optimizer(
        training.optimizer,
        dict(model.named_parameters()),
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
        momentum=training.momentum,
    )
    started = time.monotonic()
    for step, batch in enumerate(chain.from_iterable(batches.epoch(number) for number in range(passes))):
        for group in optimizer.param_groups:
            group["lr"] = training.learning_rate * rate_share(
                training.schedule, step, updates, training.warmup * updates
            )
        optimizer.zero_grad()
        logits = model(batch["input"]).logits
        nn.functional.cross_entropy(logits.flatten(0, 1), batch["target"].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), training.clip or float("inf"))
        optimizer.step()
    return time.monotonic() - started


def options_for(path: Path, passes: int) -> dict[str, Any]:
    return {"data": (path,), "epochs": passes, "keep": "last"}


def main(words: Sequence[str]) -> None:
    for learned in compare(Path(words[0]), int(words[1]) if len(words) > 1 else PASSES):
        speed = f"{learned.tokens / learned.seconds:,.0f} tokens/s, {learned.seconds:.0f} s"
        print(f"{learned.name}: {learned.bits_per_byte:.4f} bits per byte, {speed}")


if __name__ == "__main__":
    main(sys.argv[1:])
