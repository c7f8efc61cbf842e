"""word2vec: words that occur in the same contexts have vectors that point the same way (Mikolov et al. 2013).

    score           s(o, c) = u_o · v_c                                 u of the centre word o, v of its context c
    skip-gram       v_c is the input vector of each word in the window in turn
    CBOW            v_c is the mean of the input vectors of all of them
    base model      P(o | c) = exp s(o, c) / Σ_w exp s(w, c)            one-hot → V → U → softmax over all words
    neg. sampling   L = −ln σ(s(o, c)) − Σ_k ln σ(−s(n_k, c))           n_1 … n_K drawn with P(w) ∝ count(w)^¾

The softmax costs a product with every word's vector for each pair. Negative sampling asks in its place which word is
the true one among a few that are drawn from the noise; its scores approach ln P(o | c) / P(o)^¾ up to a constant, so
that the words near a word are the same (Levy and Goldberg 2014). This file has the equations, on which `kernel.py`
trains as fast as the machine allows.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.parts.objectives import Objective
from neuropil.parts.parameters import Model, ParameterRow
from neuropil.protocols import Batch
from neuropil.ranges import times

NO_WORD = -1
"""Fills up the contexts or negative samples of a place that has fewer of them than others."""


class Word2VecConfig(Config):
    architecture: Literal["skip_gram", "cbow"] = option("skip_gram", "architecture")
    width: int = option(100, "vector dimension", low=1, high=10_000, tune=times(1 / 2, 1, 2))
    vocabulary_size: int = from_data(2, "number of words")


class Word2Vec(Model):
    """Input vectors are the word vectors; output vectors score words in a context."""

    def __init__(self, config: Word2VecConfig):
        super().__init__()
        self.config = config
        shape = config.vocabulary_size, config.width
        self.input_vectors = nn.Parameter((torch.rand(shape) - 0.5) / config.width)
        self.output_vectors = nn.Parameter(torch.zeros(shape))

    def parameter_table(self) -> list[ParameterRow]:
        sizes = {"v": self.config.vocabulary_size, "d": self.config.width}
        return [ParameterRow(name, "v*d", sizes) for name in ("input_vectors", "output_vectors")]

    def context_vectors(self, contexts: Int64[Tensor, "batch word"]) -> Float[Tensor, "batch width"]:
        # v_c = 1/C Σ_j v_j, of skip-gram with C = 1
        there = (contexts != NO_WORD).to(self.input_vectors.dtype)
        vectors = self.input_vectors[contexts.clamp(min=0)]
        return torch.einsum("bw,bwd->bd", there / there.sum(1, keepdim=True), vectors)

    def forward(
        self, contexts: Int64[Tensor, "batch word"], words: Int64[Tensor, "batch candidate"]
    ) -> Float[Tensor, "batch candidate"]:
        """The scores of candidate words for each context."""
        # s(o, c) = u_o · v_c
        return torch.einsum("bd,bcd->bc", self.context_vectors(contexts), self.output_vectors[words.clamp(min=0)])

    def all_scores(self, contexts: Int64[Tensor, "batch word"]) -> Float[Tensor, "batch vocabulary"]:
        return self.context_vectors(contexts) @ self.output_vectors.T


def negative_sampling_loss(
    scores: Float[Tensor, "batch candidate"], candidates: Int64[Tensor, "batch candidate"]
) -> Float[Tensor, " batch"]:
    """Of scores whose first column is that of the true word, and the others those of negative samples."""
    there = candidates[:, 1:] != NO_WORD
    # L = −ln σ(s(o, c)) − Σ_k ln σ(−s(n_k, c))
    return -F.logsigmoid(scores[:, 0]) - (F.logsigmoid(-scores[:, 1:]) * there).sum(1)


def share_below(
    scores: Float[Tensor, "batch candidate"], candidates: Int64[Tensor, "batch candidate"]
) -> Float[Tensor, " batch"]:
    """Of the negative samples, how many score below the true word: the area under the ROC curve."""
    true, negative, there = scores[:, :1], scores[:, 1:], candidates[:, 1:] != NO_WORD
    below = (negative < true).to(scores.dtype) + 0.5 * (negative == true)
    return (below * there).sum(1) / there.sum(1).clamp(min=1)


class FullSoftmax(Objective[Word2Vec]):
    """The base model: the cross-entropy of the true word among all words. Batches are ``{"input": contexts, "target":
    words}``."""

    phase = "full_softmax"

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return self.metrics(batch)["loss"].mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        # −ln P(o | c)
        return {"loss": F.cross_entropy(self.model.all_scores(batch["input"]), batch["target"], reduction="none")}


SIZES = {
    "skip_gram": Word2VecConfig(vocabulary_size=1_000),
    "cbow": Word2VecConfig(architecture="cbow", vocabulary_size=1_000),
}
