"""Features in which generated examples are compared with real ones: those of a classifier that learned the same
training part, or, where there are no labels, principal components.

Distances between pictures mean little in pixels. The features that a classifier computes before its last layer are far
apart where the classes are, as those of a network trained on photographs are in the usual Fréchet inception distance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples
from neuropil.inspection.output_inputs import with_output_inputs
from neuropil.models.cnn import CNN, CNNConfig
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.objectives import Classification
from neuropil.randomness import initialised
from neuropil.tasks.predictor import device_of
from neuropil.training.loop import TrainingConfig, fit

WIDTH, COMPONENTS, AT_ONCE = 16, 64, 512
Inputs = Tensor
"""Of examples, as they are given to a model: bytes of pictures, or numbers."""


@dataclass(frozen=True)
class FeatureExtractor:
    about: str
    features: Callable[[Inputs], Float[Tensor, "example feature"]]
    classify: Callable[[Inputs], Int64[Tensor, " example"]] | None
    """Where there are classes."""


def train_feature_extractor(train: Examples, updates: int, seed: int, device: torch.device) -> FeatureExtractor:
    """The same for the same examples and seed."""
    schema = train.schema
    if not schema.classes:
        return _components(train)
    if schema.kind == "image":
        config = CNNConfig(shape=schema.shape, classes=len(schema.classes), width=WIDTH, dropout=0.0)
        model, name = initialised(lambda: CNN(config), seed), "CNN"
    else:
        sizes = MLPConfig(shape=schema.shape, outputs=len(schema.classes))
        model, name = initialised(lambda: MLP(sizes), seed), "MLP"
    model.standardize.fit(train.inputs)
    model.to(device)
    batches = ExampleBatches(train, 64, seed, shuffle=True, device=device)
    updates = max(updates, len(batches))  # all examples are seen
    training = TrainingConfig(updates=updates, learning_rate=3e-3, keep="last", checkpoint_seconds=1e9)
    with TemporaryDirectory(prefix="neuropil-") as folder:
        fit(Classification(model), batches, None, training, seed=seed, folder=Path(folder), show_progress=False)
    return FeatureExtractor(
        f"a {name} that was trained on the labels of the training part",
        lambda inputs: _through(model, inputs)[0],
        lambda inputs: _through(model, inputs)[1].argmax(-1),
    )


def _through(model: nn.Module, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """What the output layer is given, and the logits."""
    watched, found = with_output_inputs(model)
    with torch.no_grad():
        logits = torch.cat([watched(part.to(device_of(model))).cpu() for part in inputs.split(AT_ONCE)])
    return torch.cat(found).cpu(), logits


def _components(train: Examples) -> FeatureExtractor:
    from sklearn.decomposition import PCA

    # Shades from 0 to 1; columns of numbers, each in units of its own spread.
    flat = train.inputs.flatten(1).float()
    spread = flat.std(0, correction=0)
    unit = torch.tensor(255.0) if train.schema.kind == "image" else torch.where(spread > 0, spread, 1.0)
    count = min(COMPONENTS, *flat.shape)
    fitted = PCA(count, svd_solver="randomized", random_state=0).fit((flat / unit).numpy())

    def features(inputs: Inputs) -> Float[Tensor, "example feature"]:
        return torch.from_numpy(fitted.transform((inputs.flatten(1).float() / unit).numpy())).float()

    return FeatureExtractor(
        f"the first {count} principal components of the training part, which has no labels", features, None
    )
