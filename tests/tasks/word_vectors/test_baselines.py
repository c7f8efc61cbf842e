"""What word vectors are compared with."""

import numpy as np
import torch
from torch.nn import functional as F

from neuropil.data.words.dataset import END, EncodedWords
from neuropil.models.word2vec.learner import NegativeSamplingConfig, keep_chances, noise_chances, sampler_of
from neuropil.tasks.word_vectors.baselines import FactorisedCounts, Unigram

COUNTS = np.array([500, 200, 100, 40, 10], np.int64)


def test_scores_by_frequency_are_the_best_that_know_no_context():
    keep, noise = keep_chances(COUNTS, 0.1), noise_chances(COUNTS, 0.75)
    scores = Unigram(COUNTS, keep, noise, 5).scores.double().requires_grad_()
    true = torch.from_numpy(COUNTS * keep / (COUNTS * keep).sum())
    loss = -(true * F.logsigmoid(scores)).sum() - 5 * (torch.from_numpy(noise) * F.logsigmoid(-scores)).sum()
    (gradient,) = torch.autograd.grad(loss, scores)
    assert float(gradient.abs().max()) < 1e-6


def test_factorised_counts_with_all_dimensions_are_the_mutual_information():
    """Words 0 and 1 are always neighbours, and so are 2 and 3, equally often: ln P(o, c) / P(o) P(c) = ln 4."""
    words = EncodedWords(np.array([0, 1, END, 2, 3, END] * 200, np.int32))
    sampler = sampler_of(np.full(5, 400, np.int64), NegativeSamplingConfig(window=1, subsample=0.0))
    nothing = Unigram(np.full(5, 1, np.int64), np.ones(5), np.full(5, 0.2), 1)
    assert not nothing.scores.any()
    found = FactorisedCounts(words, 5, sampler, nothing, width=4, seed=0)
    contexts, candidates = torch.tensor([[0], [2], [1]]), torch.tensor([[1, 2], [3, 0], [0, 4]])
    expected = np.log(4) * torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    assert torch.allclose(found(contexts, candidates), expected, atol=1e-4)
    assert torch.allclose(found.all_scores(contexts).gather(1, candidates), expected, atol=1e-4)
