"""Features in which generated examples are compared with real ones: those of a classifier that learned the same
training part, or, where there are no labels, principal components.

Distances between pictures mean little in pixels. The features that a classifier computes before its last layer are far
apart where the classes are, as those of a network trained on photographs are in the usual Fréchet inception distance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.data.examples.dataset import Examples
from neuropil.inspection.output_inputs import with_output_inputs
from neuropil.tasks.classification.small_classifier import BATCH, train_small_classifier
from neuropil.tasks.predictor import device_of

COMPONENTS, AT_ONCE = 64, 512
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
    if not train.schema.classes:
        return _components(train)
    updates = max(updates, math.ceil(len(train) / BATCH))  # all examples are seen
    model = train_small_classifier(train, updates, seed, device)
    return FeatureExtractor(
        f"a {type(model).__name__} that was trained on the labels of the training part",
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
