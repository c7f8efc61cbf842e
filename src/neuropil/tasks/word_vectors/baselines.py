"""What word vectors are compared with: how frequent each word is, and counts of the same pairs, factorised.

    unigram      s(o, c) = ln P(o) − ln K Pₙ(o)                     the best scores that know nothing of the context
    PPMI + SVD   s(o, c) = (U √Σ)_c · (V √Σ)_o + the same           max(ln P(o, c) / P(o) P(c), 0) ≈ U Σ Vᵀ

Negative sampling fits ln P(o, c) / (P(c) K Pₙ(o)) by products of vectors (Levy and Goldberg 2014), so that both are
scores of the same kind, and have the same loss.
"""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from neuropil.data.words.dataset import EncodedWords
from neuropil.models.word2vec.kernel import Sampler
from neuropil.models.word2vec.learner import num_chunks, sample_places
from neuropil.models.word2vec.network import Word2Vec, Word2VecConfig
from neuropil.randomness import mix

MOST_CHUNKS = 200
"""Of the training part, evenly spaced, whose pairs are counted."""
MOST_WORDS = 10_000
"""The most frequent, whose matrix of counts is factorised; of others little is counted."""


class Unigram(nn.Module):
    """How frequent words are, in any context."""

    def __init__(
        self,
        counts: Int64[np.ndarray, " word"],
        keep: Float64[np.ndarray, " word"],
        noise: Float64[np.ndarray, " word"],
        negatives: int,
    ):
        super().__init__()
        kept = counts * keep
        # s(o) = ln P(o) − ln K Pₙ(o)
        scores = np.log(np.maximum(kept, 1e-9) / kept.sum()) - np.log(negatives * noise)
        self.scores = torch.from_numpy(scores).float()

    def forward(
        self, contexts: Int64[Tensor, "batch word"], candidates: Int64[Tensor, "batch candidate"]
    ) -> Float[Tensor, "batch candidate"]:
        return self.scores[candidates.clamp(min=0)]

    def all_scores(self, contexts: Int64[Tensor, "batch word"]) -> Float[Tensor, "batch vocabulary"]:
        return self.scores.expand(len(contexts), -1)


class FactorisedCounts(nn.Module):
    """Positive pointwise mutual information of words and contexts, by its largest singular values."""

    def __init__(self, words: EncodedWords, size: int, sampler: Sampler, unigram: Unigram, *, width: int, seed: int):
        super().__init__()
        from scipy.sparse import coo_matrix, csr_matrix
        from sklearn.utils.extmath import randomized_svd

        self.unigram, known = unigram, min(size, MOST_WORDS)
        counts, chunks = csr_matrix((known, known)), num_chunks(words)
        for chunk in np.unique(np.linspace(0, chunks - 1, min(chunks, MOST_CHUNKS)).astype(int)).tolist():
            contexts, candidates = sample_places(words, sampler, mix(seed, "counts"), [chunk]).pairs()
            pairs = torch.stack([contexts[:, 0], candidates[:, 0]]).numpy()
            pairs = pairs[:, (pairs < known).all(0)]
            counts += coo_matrix((np.ones(pairs.shape[1]), pairs), (known, known)).tocsr()
        of_context, of_word = np.asarray(counts.sum(1))[:, 0], np.asarray(counts.sum(0))[0]
        found = counts.tocoo()
        # ln P(o, c) / P(o) P(c)
        information = np.log(found.data * counts.sum() / (of_context[found.row] * of_word[found.col]))
        positive = coo_matrix((np.maximum(information, 0), (found.row, found.col)), (known, known)).tocsr()
        u, sigma, v = randomized_svd(positive, min(width, known - 1), random_state=seed)
        self.vectors = Word2Vec(Word2VecConfig(width=len(sigma), vocabulary_size=size))
        with torch.no_grad():
            for vectors, factor in ((self.vectors.input_vectors, u), (self.vectors.output_vectors, v.T)):
                vectors.zero_()
                vectors[:known] = torch.from_numpy(factor * np.sqrt(sigma))

    @torch.no_grad()
    def forward(
        self, contexts: Int64[Tensor, "batch word"], candidates: Int64[Tensor, "batch candidate"]
    ) -> Float[Tensor, "batch candidate"]:
        return self.vectors(contexts, candidates) + self.unigram(contexts, candidates)

    @torch.no_grad()
    def all_scores(self, contexts: Int64[Tensor, "batch word"]) -> Float[Tensor, "batch vocabulary"]:
        return self.vectors.all_scores(contexts) + self.unigram.all_scores(contexts)
