"""A plane for word vectors: t-SNE keeps neighbours near each other, and says little about what is far apart.

x̂ = x / ‖x‖ → PCA to 50 dimensions → t-SNE (van der Maaten and Hinton, 2008), begun from the first two components
"""

import numpy as np
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

COMPONENTS = 50
FEWEST = 10
"""Words of which t-SNE finds neighbours; fewer, or vectors of a plane, are drawn by PCA alone."""


def word_map(vectors: Float[Tensor, "word width"]) -> Float[np.ndarray, "word 2"]:
    """A place for each word, from 0 to 1 on both axes; the same each time."""
    from sklearn.manifold import TSNE

    linear = _components(vectors)
    if len(linear) < FEWEST or linear.shape[1] <= 2:
        return _in_square(linear)
    perplexity = min(30.0, (len(linear) - 1) / 3)
    return _in_square(TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(linear))


def linear_map(vectors: Float[Tensor, "word width"]) -> Float[np.ndarray, "word 2"]:
    """By PCA alone: at once, and with the directions of the whole, but with neighbours less well kept together."""
    return _in_square(_components(vectors))


def _components(vectors: Float[Tensor, "word width"]) -> Float[np.ndarray, "word component"]:
    """None of fewer than three words."""
    from sklearn.decomposition import PCA

    unit = F.normalize(vectors.detach().float(), dim=1).numpy()
    if len(unit) <= 2:
        return np.zeros((len(unit), 0))
    return PCA(min(COMPONENTS, *unit.shape), svd_solver="full").fit_transform(unit)


def _in_square(places: Float[np.ndarray, "word component"]) -> Float[np.ndarray, "word 2"]:
    """The first two components, from 0 to 1."""
    plane = np.zeros((len(places), 2))
    plane[:, : places.shape[1]] = places[:, :2]
    low, high = plane.min(0), plane.max(0)
    return (plane - low) / np.where(high > low, high - low, 1)
