"""The training loop beside a hand-written PyTorch loop that does the same work on the CNN. Goal: at most 3 % slower."""

import math
import tempfile
from pathlib import Path

import torch
from torch import nn

from benchmarks.timing import alternate, ratio
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.files import prepare
from neuropil.models.cnn import CNN
from neuropil.parts.losses import categorical_cross_entropy
from neuropil.randomness import initialised
from neuropil.recipes.cnn import CNNOptions
from neuropil.tasks.classification.scores import scorer_for
from neuropil.training.loop import fit

EPOCHS, ROUNDS, SEED = 5, 9, 0
OPTIONS = CNNOptions().override(epochs=EPOCHS, average=0.0, keep="last")
SPLITS = prepare(OPTIONS.data, SEED)


def batches() -> tuple[ExampleBatches, ExampleBatches]:
    train = ExampleBatches(SPLITS.train, OPTIONS.training.batch_size, seed=SEED, shuffle=True, augment=OPTIONS.augment)
    return train, ExampleBatches(SPLITS.validation, 512, seed=0, shuffle=False)


def new_model() -> CNN:
    model = initialised(lambda: CNN(OPTIONS.model), SEED)
    model.standardize.fit(SPLITS.train.inputs)
    return model


def ours() -> nn.Module:
    model = new_model()
    train, validation = batches()
    with tempfile.TemporaryDirectory() as folder:
        learner = scorer_for(model, SPLITS.train.schema)
        fit(learner, train, validation, OPTIONS.training, seed=SEED, folder=Path(folder), show_progress=False)
    return model


def by_hand() -> nn.Module:
    """What a careful person would write: decay groups, warm-up and cosine, a running loss, validation after each
    epoch."""
    config, model = OPTIONS.training, new_model()
    train, validation = batches()
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
    total = EPOCHS * len(train)
    warmup = config.warmup * total

    def share(step: int) -> float:
        return (
            (step + 1) / warmup
            if step + 1 < warmup
            else 0.5 * (1 + math.cos(math.pi * max(0.0, step - warmup) / (total - warmup)))
        )

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for batch in train.epoch(epoch):
            loss = categorical_cross_entropy(
                model(batch["input"]), batch["target"], OPTIONS.objective.label_smoothing
            ).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            running += loss.item()
        model.eval()
        right = torch.zeros(())
        with torch.no_grad():
            for batch in validation.epoch(0):
                logits = model(batch["input"])
                categorical_cross_entropy(logits, batch["target"]).sum()
                right += (logits.argmax(-1) == batch["target"]).sum()
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), Path(folder) / "model.pt")
    return model


def main() -> None:
    seconds = alternate({"neuropil": ours, "by hand": by_hand}, ROUNDS)
    print(f"neuropil / by hand: {ratio(seconds['neuropil'], seconds['by hand'])}")
