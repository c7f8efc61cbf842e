"""The RBM beside scikit-learn's BernoulliRBM on the digits.

1. To the pseudo-likelihood that scikit-learn reaches with its own settings (100 units, 10 epochs). Goal: a quarter of
   its time.
2. An epoch with 1,000 units and the same batches and chains. Goal: a third of its time.
"""

import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.neural_network import BernoulliRBM

from benchmarks.timing import alternate, ratio
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.models.rbm import RBM, ContrastiveDivergence, RBMConfig
from neuropil.randomness import initialised
from neuropil.training.config import TrainingConfig
from neuropil.training.loop import fit

ROUNDS = 7
BATCH, EPOCHS, RATE = 64, 1, 0.4
"""Of the first comparison: CD-1 with mean-field reconstructions and momentum, from the marginals of the pixels."""
LARGE, LARGE_BATCHES, LARGE_EPOCHS = 1000, (10, 100), 3

PIXELS: Any = load_digits(return_X_y=True)[0] / 16
EXAMPLES = Examples(
    torch.from_numpy(PIXELS).float(),
    torch.zeros(len(PIXELS), dtype=torch.int64),
    Schema(kind="table", shape=(64,), classes=("digit",)),
    "digits",
)


def train(model: RBM, batch_size: int, **options: Any) -> RBM:
    config = TrainingConfig(
        batch_size=batch_size, weight_decay=0, schedule="constant", warmup=0, keep="last", **options
    )
    batches = ExampleBatches(EXAMPLES, batch_size, seed=0, shuffle=True)
    with tempfile.TemporaryDirectory() as folder:
        fit(ContrastiveDivergence(model), batches, None, config, seed=0, folder=Path(folder), show_progress=False)
    return model


@torch.no_grad()
def pseudo_likelihood(model: RBM | BernoulliRBM) -> float:
    """Of all digits, over all units that could be flipped and not one of them at random."""
    if isinstance(model, BernoulliRBM):
        theirs, model = model, RBM(RBMConfig(hidden_size=len(model.components_), shape=(64,)))
        model.weight.copy_(torch.from_numpy(theirs.components_.T))
        model.visible_bias.copy_(torch.from_numpy(theirs.intercept_visible_))
        model.hidden_bias.copy_(torch.from_numpy(theirs.intercept_hidden_))
    return model.pseudo_likelihood(EXAMPLES.inputs).mean().item()


def same_likelihood() -> None:
    models: dict[str, list[Any]] = {"neuropil": [], "scikit-learn": []}

    def ours() -> None:
        config = RBMConfig(hidden_size=100, chains=0, mean_field=True, shape=(64,))
        model = initialised(lambda: RBM(config), seed=len(models["neuropil"]))
        model.fit_marginals(EXAMPLES.inputs)
        models["neuropil"].append(train(model, BATCH, epochs=EPOCHS, learning_rate=RATE, optimizer="momentum"))

    def theirs() -> None:
        seed = len(models["scikit-learn"])
        models["scikit-learn"].append(BernoulliRBM(100, n_iter=10, random_state=seed).fit(PIXELS))

    seconds = alternate({"neuropil": ours, "scikit-learn": theirs}, ROUNDS)
    print(f"100 units, neuropil / scikit-learn: {ratio(seconds['neuropil'], seconds['scikit-learn'])}")
    for name, made in models.items():
        reached = [pseudo_likelihood(model) for model in made]
        took = f"{1000 * statistics.median(seconds[name]):.0f} ms"
        print(f"  {name}: {took}, pseudo-likelihood {statistics.mean(reached):.2f} (worst {min(reached):.2f})")


def same_batches(batch_size: int) -> None:
    """Persistent chains, as many as a batch has examples, and plain gradient descent: what scikit-learn does."""

    def ours() -> None:
        model = initialised(lambda: RBM(RBMConfig(hidden_size=LARGE, chains=batch_size, shape=(64,))), seed=0)
        model.scale.fit(EXAMPLES.inputs)
        train(model, batch_size, epochs=LARGE_EPOCHS, learning_rate=0.1, optimizer="sgd")

    def theirs(dtype: str) -> None:
        BernoulliRBM(LARGE, batch_size=batch_size, n_iter=LARGE_EPOCHS, random_state=0).fit(PIXELS.astype(dtype))

    peers = {dtype: partial(theirs, dtype) for dtype in ("float64", "float32")}  # as the pixels come, and as ours are
    seconds = alternate({"neuropil": ours, **peers}, ROUNDS)
    per_epoch = 1000 * statistics.median(seconds["neuropil"]) / LARGE_EPOCHS
    print(f"1,000 units, batches of {batch_size}: {per_epoch:.0f} ms per epoch")
    for dtype in peers:
        print(f"  scikit-learn in {dtype} / neuropil: {ratio(seconds[dtype], seconds['neuropil'])}")


def main() -> None:
    same_likelihood()
    for batch_size in LARGE_BATCHES:
        same_batches(batch_size)


if __name__ == "__main__":
    main()
