"""The Transformer on a file of sentence pairs beside `nn.Transformer` in a plain loop: the same size, vocabulary,
batches, optimiser, schedule and minutes; BLEU and chrF (sacrebleu) on 1,000 held-out pairs, and tokens a second. Goals:
no worse, and 1.2 times as fast.

python -m benchmarks.translation pairs.tsv.gz [minutes]
"""

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import nn

import neuropil
from benchmarks.transformer_step import PlainTransformer
from neuropil.data.pairs.files import read_pairs
from neuropil.pretrained.torch_transformer import from_torch
from neuropil.protocols import PADDING, Batch
from neuropil.randomness import initialised
from neuropil.recipes.transformer import LADDER, OWN_DATA, build
from neuropil.tasks.translation.experiment import TranslationExperiment
from neuropil.tasks.translation.predictor import Translator
from neuropil.tasks.translation.scores import score_translations
from neuropil.training.optimizers import build_optimizer
from neuropil.training.schedules import rate_share

SEED, HELD_OUT = 0, 1_000


class Score(NamedTuple):
    name: str
    metrics: Mapping[str, float]
    speed: float | None
    """Tokens a second while training."""


def num_tokens(batch: Batch) -> int:
    return sum(int((side != PADDING).sum()) for side in batch.values())


def train_plain(experiment: TranslationExperiment, minutes: float) -> tuple[PlainTransformer, float]:
    """What a careful person writes, given the batches: decay groups, clipping, warm-up and cosine; returns tokens a
    second too."""
    config, training = experiment.model.config, experiment.training
    model = initialised(lambda: PlainTransformer(config), SEED)  # type: ignore[arg-type]  # the config of a Transformer
    optimizer = build_optimizer(
        training.optimizer,
        dict(model.named_parameters()),
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
        momentum=training.momentum,
    )
    started, tokens, step, epoch = time.monotonic(), 0, 0, 0
    model.train()
    while True:
        for batch in experiment.training_batches.epoch(epoch):
            share = (time.monotonic() - started) / (60 * minutes)
            if share >= 1:
                return model, tokens / (60 * minutes)
            total = max(step, 1) / max(share, 1e-9)
            for group in optimizer.param_groups:
                group["lr"] = training.learning_rate * rate_share(
                    training.schedule, step, total, training.warmup * total
                )
            optimizer.zero_grad()
            loss = model.loss(dict(batch), OWN_DATA.objective.label_smoothing)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), training.clip or float("inf"))
            optimizer.step()
            step, tokens = step + 1, tokens + num_tokens(batch)
        epoch += 1


def translate_plain(model: PlainTransformer, experiment: TranslationExperiment, texts: Sequence[str]) -> list[str]:
    """Greedily, as ours is scored. Its weights go into our model for that, which is proven equal and has a cache."""
    vocabulary = experiment.vocabulary
    ours = from_torch(
        model.core, source_vocabulary_size=len(vocabulary.source), target_vocabulary_size=len(vocabulary.target)
    ).eval()
    ours.source.load_state_dict(model.embedding.state_dict())
    return Translator(ours, vocabulary).translate(texts).texts


def compare(path: Path, minutes: float) -> list[Score]:
    """Both at the same time, on one thread each, so that whatever else the machine does slows both."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        runs = [pool.submit(run, path, minutes) for run in (score_ours, score_plain)]
        return [score for run in runs for score in run.result()]


def score_ours(path: Path, minutes: float) -> list[Score]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run = neuropil.train(
            "transformer", out=Path(folder) / "run", seed=SEED, show_progress=False, **options_for(path, minutes)
        )
        last = [row for row in run.rows if row["kind"] == "train"][-1]
        encoded = cast(TranslationExperiment, run.experiment()).encoded["train"]
        tokens = last["epoch"] * int((encoded.sources.lengths + encoded.targets.lengths).sum())
        ours, memory = run.results[:2]
    return [Score("neuropil", ours.metrics, tokens / last["seconds"]), Score(memory.name, memory.metrics, None)]


def score_plain(path: Path, minutes: float) -> list[Score]:
    torch.set_num_threads(1)
    experiment = build(OWN_DATA.override(**options_for(path, minutes)), SEED)
    model, speed = train_plain(experiment, minutes)
    written = translate_plain(model, experiment, experiment.splits.test.sources)
    return [Score("nn.Transformer in a plain loop", score_translations(written, experiment.splits.test.targets), speed)]


def options_for(path: Path, minutes: float) -> dict[str, Any]:
    """With the sizes given, so that both have the same ones however fast the machine is."""
    pairs, _ = read_pairs([path])
    sizes = {each.name: each.default for each in OWN_DATA.options() if each.name in LADDER.names}
    return {"data": path, "test": HELD_OUT / len(pairs), "minutes": minutes, **sizes}


def main(words: Sequence[str]) -> None:
    for name, scores, speed in compare(Path(words[0]), float(words[1]) if len(words) > 1 else 20.0):
        print(
            f"{name}: BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}, {f'{speed:,.0f} tokens/s' if speed else ''}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
