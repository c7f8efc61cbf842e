"""A classifier that is trained in seconds: samples are scored in its features, and attacks are transferred from it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples
from neuropil.models.cnn import CNN, CNNConfig
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.objectives import Classification
from neuropil.randomness import initialised
from neuropil.training.config import TrainingConfig
from neuropil.training.loop import fit

WIDTH, BATCH = 16, 64


def train_small_classifier(train: Examples, updates: int, seed: int, device: torch.device) -> CNN | MLP:
    """A CNN for pictures, an MLP for rows; the same for the same examples and seed."""
    schema = train.schema
    if schema.kind == "image":
        config = CNNConfig(shape=schema.shape, classes=len(schema.classes), width=WIDTH, dropout=0.0)
        model = initialised(lambda: CNN(config), seed)
    else:
        sizes = MLPConfig(shape=schema.shape, outputs=len(schema.classes))
        model = initialised(lambda: MLP(sizes), seed)
    model.standardize.fit(train.inputs)
    model.to(device)
    batches = ExampleBatches(train, BATCH, seed, shuffle=True, device=device)
    training = TrainingConfig(updates=updates, learning_rate=3e-3, keep="last", checkpoint_seconds=1e9)
    with TemporaryDirectory(prefix="neuropil-") as folder:
        fit(Classification(model), batches, None, training, seed=seed, folder=Path(folder), show_progress=False)
    return model
