"""The MLP beside scikit-learn's MLPClassifier: same layers, Adam, batches, epochs and digits. Goal: as fast at equal
accuracy."""

import statistics
import tempfile
import warnings
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from benchmarks.timing import alternate, ratio
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification.scores import scorer_for
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.loop import fit

EPOCHS, BATCH, HIDDEN, ROUNDS = 60, 64, (256, 256), 7
TRAINING = TrainingConfig(
    epochs=EPOCHS,
    batch_size=BATCH,
    optimizer="adam",
    learning_rate=1e-3,
    weight_decay=0,
    schedule="constant",
    warmup=0,
    keep="last",
)

PEER: dict[str, Any] = {
    "hidden_layer_sizes": HIDDEN,
    "alpha": 0,
    "batch_size": BATCH,
    "max_iter": EPOCHS,
    "tol": 0,
    "n_iter_no_change": EPOCHS,
}


def main() -> None:
    accuracies: dict[str, list[float]] = {"neuropil": [], "scikit-learn": []}
    seeds = iter(range(2 * ROUNDS + 2))

    def ours() -> None:
        seed = next(seeds) // 2
        splits = prepare(DataConfig(validation=0), seed)
        model = initialised(lambda: MLP(MLPConfig(hidden_sizes=HIDDEN, dropout=0)), seed)
        model.standardize.fit(splits.train.inputs)
        learner = scorer_for(model, splits.train.schema)
        with tempfile.TemporaryDirectory() as folder:
            train = ExampleBatches(splits.train, BATCH, seed=seed, shuffle=True)
            fit(learner, train, None, TRAINING, seed=seed, folder=Path(folder), show_progress=False)
        test = ExampleBatches(splits.test, 512, seed=0, shuffle=False)
        accuracies["neuropil"].append(evaluate(learner, test)["accuracy"])

    def theirs() -> None:
        seed = next(seeds) // 2
        splits = prepare(DataConfig(validation=0), seed)
        mean, std = splits.train.inputs.float().mean(), splits.train.inputs.float().std()
        inputs = {name: ((part.inputs.flatten(1) - mean) / std).numpy() for name, part in vars(splits).items()}
        model = MLPClassifier(**PEER, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it has as many epochs as we have
            model.fit(inputs["train"], splits.train.targets.numpy())
        accuracies["scikit-learn"].append(float(model.score(inputs["test"], splits.test.targets.numpy())))

    seconds = alternate({"neuropil": ours, "scikit-learn": theirs}, ROUNDS)
    print(f"neuropil / scikit-learn: {ratio(seconds['neuropil'], seconds['scikit-learn'])}")
    for name, values in accuracies.items():
        print(f"{name}: {statistics.median(seconds[name]):.2f} s, accuracy {100 * statistics.mean(values):.2f} %")
