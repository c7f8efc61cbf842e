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
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    unit = F.normalize(vectors.detach().float(), dim=1).numpy()
    places = np.zeros((len(unit), 2))
    if len(unit) > 2:
        linear = PCA(min(COMPONENTS, *unit.shape), svd_solver="full").fit_transform(unit)
        places[:, : linear.shape[1]] = linear[:, :2]
        if len(unit) >= FEWEST and linear.shape[1] > 2:
            perplexity = min(30.0, (len(unit) - 1) / 3)
            places = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(linear)
    low, high = places.min(0), places.max(0)
    return (places - low) / np.where(high > low, high - low, 1)
