"""The bag of words and bigrams of a text classifier, fitted before its network learns: logistic regression on TF-IDF.

B, b = argmin  Σ_i −α_i ln softmax(B φ_i / ‖φ_i‖ + b)[class_i] + λ/2 ‖B‖²          α_i: the weight of a text, or 1
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor
from torch.nn import functional as F

from neuropil.data.batches import EncodedTexts
from neuropil.data.weights import relative
from neuropil.models.text_classifier import BagOfBigrams
from neuropil.parts.losses import weighted_mean
from neuropil.protocols import WEIGHT
from neuropil.tasks.texts import in_order

STRENGTHS = (10.0, 100.0, 1000.0)
"""1/λ; the validation part says which."""
WITHOUT_VALIDATION = (100.0,)
MOST_TEXTS = 50_000
"""To fit to, evenly spaced: from more, the network learns enough by itself."""


def fit_bag(bag: BagOfBigrams, train: EncodedTexts, validation: EncodedTexts) -> None:
    train = train.take(torch.arange(0, len(train), -(-len(train) // MOST_TEXTS)))
    bag.count([batch["input"] for batch in in_order(train, bag.bias.device).epoch(0)])
    counted = bag.idf.cpu().nonzero().flatten()
    phi, targets, weights = design(bag, train)
    held_out, answers, held_weights = design(bag, validation) if len(validation) else (phi[:0], targets[:0], None)

    def loss(weights: Weights) -> float:
        logits = torch.from_numpy(held_out[:, counted.numpy()] @ weights.weight.numpy()) + weights.bias
        return weighted_mean(F.cross_entropy(logits, answers, reduction="none"), held_weights).item()

    strengths = STRENGTHS if len(validation) else WITHOUT_VALIDATION
    features = phi[:, counted.numpy()]
    fitted = [regress(features, targets, strength, len(bag.bias), weights) for strength in strengths]
    best = min(fitted, key=loss)
    bag.weight[counted] = best.weight.to(bag.weight)
    bag.bias.copy_(best.bias)


class Weights(NamedTuple):
    weight: Float64[Tensor, "feature output"]
    bias: Float64[Tensor, " output"]


def regress(
    phi: Any,
    targets: Int64[Tensor, " text"],
    strength: float,
    classes: int,
    weights: Float64[Tensor, " text"] | None = None,
) -> Weights:
    """B and b. A class that has no text is hardly ever predicted."""
    from sklearn.linear_model import LogisticRegression

    model: Any = LogisticRegression(C=strength, tol=1e-5, max_iter=300)
    model.fit(phi, targets.numpy(), relative(weights))
    found, own, constant = model.classes_, model.coef_.T, model.intercept_
    if len(found) == 2:  # one column of log-odds
        own, constant = np.concatenate([-own, own], 1) / 2, np.concatenate([-constant, constant]) / 2
    weight = torch.zeros(phi.shape[1], classes, dtype=torch.float64)
    bias = torch.full((classes,), constant.min() - np.log(len(targets)), dtype=torch.float64)
    weight[:, found], bias[found] = torch.from_numpy(own), torch.from_numpy(constant)
    return Weights(weight, bias)


def design(
    bag: BagOfBigrams, encoded: EncodedTexts
) -> tuple[Any, Int64[Tensor, " text"], Float64[Tensor, " text"] | None]:
    """φ / ‖φ‖ of all texts as a sparse matrix, their classes, and their weights if they have any."""
    from scipy.sparse import csr_array, vstack

    rows, targets, weights = [], [], []
    for batch in in_order(encoded, bag.bias.device).epoch(0):
        features, phi = (each.cpu() for each in bag.features(batch["input"]))
        row, place = phi.nonzero(as_tuple=True)
        entries = phi[row, place].double().numpy(), (row.numpy(), features[row, place].numpy())
        rows.append(csr_array(entries, shape=(len(phi), len(bag.idf))))
        targets.append(batch["target"].cpu())
        weights += [batch[WEIGHT].double().cpu()] if WEIGHT in batch else []
    return vstack(rows, format="csr"), torch.cat(targets), torch.cat(weights) if weights else None
