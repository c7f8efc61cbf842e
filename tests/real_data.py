"""Real data for tests, as scikit-learn carries it."""

from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from sklearn.datasets import load_diabetes, load_digits
from torch import Tensor, nn
from torch.nn import functional as F


def digits() -> tuple[UInt8[np.ndarray, "example 8 8"], Int[np.ndarray, " example"]]:
    """Pixels as bytes, and the digit that each picture shows."""
    bunch = cast(Any, load_digits())
    return (bunch.images * 255 / 16).round().astype(np.uint8), bunch.target


def few_digits(count: int) -> tuple[UInt8[Tensor, "example 1 8 8"], Int[Tensor, " example"]]:
    """The first of them as tensors, pictures with one channel."""
    images, labels = digits()
    return torch.from_numpy(images[:count, None]), torch.from_numpy(labels[:count])


def diabetes() -> tuple[list[str], Float[np.ndarray, "example 10"], Float[np.ndarray, " example"]]:
    """Names of ten measurements, the measurements in their own units, and how far the disease went in a year."""
    bunch = cast(Any, load_diabetes(scaled=False))
    return bunch.feature_names, bunch.data, bunch.target


def diabetes_pair() -> tuple[Float[np.ndarray, "example 2"], Float[np.ndarray, " example"]]:
    """Body-mass index and the logarithm of blood fats, centred, and the standardised progress of the disease."""
    names, features, target = diabetes()
    chosen = features[:, [names.index("bmi"), names.index("s5")]]
    return chosen - chosen.mean(0), (target - target.mean()) / target.std(ddof=1)


def accuracy_after_learning_digits(model: nn.Module, learning_rate: float, passes: int) -> float:
    """On the last third of the digits, after a plain loop over the others."""
    images, labels = (torch.from_numpy(array) for array in digits())
    images, labels = images[:, None], labels.long()
    cast(Any, model).standardize.fit(images[:1200])
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(passes):
        for x, t in zip(images[:1200].split(40), labels[:1200].split(40), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(x), t).backward()
            optimizer.step()
    return (model.eval()(images[1200:]).argmax(-1) == labels[1200:]).float().mean().item()
