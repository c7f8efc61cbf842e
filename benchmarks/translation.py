"""The Transformer on a file of sentence pairs beside `nn.Transformer` in a plain loop: the same size, vocabulary, batches, optimiser,
schedule and minutes; BLEU and chrF (sacrebleu) on 1,000 held-out pairs, and tokens a second. Goals: no worse, and 1.2 times as fast.

python -m benchmarks.translation pairs.tsv.gz [minutes]
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

import neuropil
from benchmarks.transformer_step import PlainTransformer
from neuropil.data.pair_sources import prepare_pairs
from neuropil.protocols import END, PADDING, START, Batch
from neuropil.recipes.supervised import initialised
from neuropil.recipes.transformer import OWN_DATA, build
from neuropil.recipes.translation import Translating
from neuropil.recipes.translation_scores import score_translations
from neuropil.training.optimizers import build_optimizer
from neuropil.training.schedules import rate_share

SEED, HELD_OUT = 0, 1_000


def num_tokens(batch: Batch) -> int:
    return sum(int((side != PADDING).sum()) for side in batch.values())


def train_plain(experiment: Translating, minutes: float) -> tuple[PlainTransformer, float]:
    """What a careful person writes, given the batches: decay groups, clipping, warm-up and cosine; returns tokens a second too."""
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
                group["lr"] = training.learning_rate * rate_share(training.schedule, step, total, training.warmup * total)
            optimizer.zero_grad()
            loss = model.loss(dict(batch), OWN_DATA.objective.label_smoothing)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), training.clip or float("inf"))
            optimizer.step()
            step, tokens = step + 1, tokens + num_tokens(batch)
        epoch += 1


@torch.no_grad()
def translate_plain(model: PlainTransformer, experiment: Translating, texts: Sequence[str]) -> list[str]:
    """Greedily, as ours is scored."""
    model.eval()
    vocabulary = experiment.vocabulary
    encoded = [[*ids, END] for ids in vocabulary.source.encode(list(texts))]
    order = sorted(range(len(texts)), key=lambda index: len(encoded[index]))
    found = [""] * len(texts)
    for begin in range(0, len(order), 50):
        chosen = order[begin : begin + 50]
        longest = max(len(encoded[index]) for index in chosen)
        source = torch.tensor([encoded[index] + [PADDING] * (longest - len(encoded[index])) for index in chosen])
        target = torch.full((len(chosen), 1), START)
        ended = torch.zeros(len(chosen), dtype=torch.bool)
        for _ in range(2 * longest + 50):
            following = model(source, target)[:, -1].argmax(-1)
            target = torch.cat([target, following[:, None]], 1)
            ended |= following == END
            if ended.all():
                break
        for index, ids in zip(chosen, target[:, 1:].tolist(), strict=True):
            found[index] = vocabulary.target.decode(ids[: ids.index(END)] if END in ids else ids)
    return found


def compare(path: Path, minutes: float) -> list[tuple[str, dict[str, float], float]]:
    """Name, scores and tokens a second of each."""
    total = sum(len(part) for part in vars(prepare_pairs(OWN_DATA.data.override(data=path), SEED)).values() if hasattr(part, "groups"))
    options = {"data": path, "test": HELD_OUT / total, "minutes": minutes}
    experiment = build(OWN_DATA.override(**options), SEED)
    targets = experiment.splits.test.targets
    plain, plain_speed = train_plain(experiment, minutes)
    plain_scores = score_translations(translate_plain(plain, experiment, experiment.splits.test.sources), targets)
    with tempfile.TemporaryDirectory() as folder:
        run = neuropil.train("transformer", out=Path(folder) / "run", seed=SEED, show_progress=sys.stderr.isatty(), **options)
        rows = [row for row in run.history if row["kind"] == "train"]
        epochs, seconds = rows[-1]["epoch"], rows[-1]["seconds"]
        scores, memory = run.results[0].metrics, run.results[1].metrics
    lengths: Tensor = experiment.encoded["train"].sources.lengths + experiment.encoded["train"].targets.lengths
    speed = epochs * int(lengths.sum()) / seconds
    return [("neuropil", dict(scores), speed), ("nn.Transformer", plain_scores, plain_speed), ("most similar pair", dict(memory), 0.0)]


def main(words: Sequence[str]) -> None:
    results = compare(Path(words[0]), float(words[1]) if len(words) > 1 else 20.0)
    for name, scores, speed in results:
        print(f"{name}: BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}, {speed:,.0f} tokens/s")
    print(f"tokens a second, neuropil / nn.Transformer: {results[0][2] / results[1][2]:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
