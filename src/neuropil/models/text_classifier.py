"""Text classifier: a recurrent network and a bag of words and bigrams read the same text, each for itself, and vote.

    φ_g = 1 + ln((1 + N) / (1 + N_g))     if the word or bigram g occurs in the text, which N_g of N texts have; else 0
    u = B φ / ‖φ‖ + b                     the bag: logistic regression on TF-IDF, fitted before training
    v = V pool_t(h_t) + c                 the network, many to one (models/recurrent.py)
    p(class) ∝ exp((1 − w) u + w v)       logarithmic opinion pool

The bag has one weight for each word, pair of neighbours and class, which few texts are enough for; the network reads in
order. While it learns, the network answers alone: the bag knows the training texts by heart and would leave it nothing
to learn. The share w is fitted last, to texts that neither has seen.

A bigram is looked up by its hash. A bucket belongs to the most frequent of the bigrams that fall into it, and the
others are not counted.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import torch
from einops import einsum
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import option
from neuropil.models.recurrent import RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts.parameters import Model
from neuropil.protocols import PADDING, UNKNOWN, Batch

NOBODY = -1
FEWEST_TEXTS = 2
"""That a bigram must occur in to be counted: of the others, which are most, nothing is learned."""
PRIME = 1_000_000_007
"""Larger than any vocabulary, so that no two bigrams have one number, and odd, so that they spread over the buckets."""

Tokens: TypeAlias = Int64[Tensor, "batch time"]


class RecurrentTextClassifierConfig(RecurrentNetworkConfig):
    bag: bool = option(True, "vote with logistic regression on words and bigrams")
    bigrams: int = option(131_072, "hash buckets for the bigrams of the bag", low=1)


class RecurrentTextClassifier(Model):
    share: Float[Tensor, ""]
    """w of the network."""

    def __init__(self, config: RecurrentTextClassifierConfig):
        super().__init__()
        self.config = config
        self.network = RecurrentNetwork(config)
        if config.bag:
            self.bag = BagOfBigrams(config.vocabulary_size, config.bigrams, config.output_size)
            self.register_buffer("share", torch.tensor(0.5))

    @property
    def output(self) -> nn.Linear:
        """Of the network; what it is given are the features of a text."""
        return self.network.output

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch output"]:
        v = self.network(tokens)
        if self.training or not self.config.bag:
            return v
        return (1 - self.share) * self.bag(tokens) + self.share * v

    @torch.no_grad()
    def fit_share(self, batches: Iterable[Batch]) -> None:
        """w with the lowest cross-entropy on these texts."""
        read = [(self.bag(batch["input"]), self.network(batch["input"]), batch["target"]) for batch in batches]
        u, v, target = (torch.cat(part) for part in zip(*read, strict=True))
        shares = torch.linspace(0, 1, 21, device=u.device)
        losses = torch.stack([F.cross_entropy((1 - w) * u + w * v, target) for w in shares])
        self.share.copy_(shares[losses.argmin()])


class BagOfBigrams(nn.Module):
    """Its features are the tokens, by their numbers, and after them the buckets of bigrams."""

    owner: Int64[Tensor, " bucket"]
    """The bigram that each bucket belongs to."""
    idf: Float[Tensor, " feature"]
    weight: Float[Tensor, "feature output"]
    bias: Float[Tensor, " output"]

    def __init__(self, vocabulary_size: int, buckets: int, classes: int):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.register_buffer("owner", torch.full((buckets,), NOBODY))
        self.register_buffer("idf", torch.zeros(vocabulary_size + buckets))
        self.register_buffer("weight", torch.zeros(vocabulary_size + buckets, classes))  # B
        self.register_buffer("bias", torch.zeros(classes))  # b

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch output"]:
        features, phi = self.features(tokens)
        # u = B φ / ‖φ‖ + b
        return einsum(phi, self.weight[features], "batch feature, batch feature output -> batch output") + self.bias

    def features(self, tokens: Tokens) -> tuple[Int64[Tensor, "batch feature"], Float[Tensor, "batch feature"]]:
        """Those that occur in each text, and φ / ‖φ‖ of them: 0 of one that stands here again."""
        found, first = distinct(self._features(tokens))
        return found, F.normalize(self.idf[found] * first)

    @torch.no_grad()
    def count(self, texts: Sequence[Tokens]) -> None:
        """Give the buckets to bigrams, and measure in how many texts each feature occurs."""
        bigrams, counts = count_texts(map(self._bigrams, texts))
        kept = (counts >= FEWEST_TEXTS) & (bigrams != PADDING)
        bigrams = bigrams[kept][counts[kept].argsort(stable=True)]
        # Of those that fall into one bucket the last one stays, which is the most frequent.
        owners = dict(zip(self._buckets(bigrams).tolist(), bigrams.tolist(), strict=True))
        buckets, bigrams = torch.tensor([*owners.items()], dtype=torch.int64).reshape(-1, 2).unbind(1)
        self.owner[buckets] = bigrams.to(self.owner)
        features, counts = count_texts(map(self._features, texts))
        # φ_g = 1 + ln((1 + N) / (1 + N_g)) where g occurs
        self.idf[features] = 1 + torch.log((1 + sum(map(len, texts))) / (1 + counts))
        self.idf[: UNKNOWN + 1] = 0  # padding and unknown words say nothing

    def _features(self, tokens: Tokens) -> Int64[Tensor, "batch feature"]:
        bigrams = self._bigrams(tokens)
        buckets = self._buckets(bigrams)
        known = self.owner[buckets] == bigrams
        return torch.cat([tokens, torch.where(known, self.vocabulary_size + buckets, PADDING)], 1)

    def _bigrams(self, tokens: Tokens) -> Int64[Tensor, "batch pair"]:
        """A number for each two neighbours, where both are known."""
        left, right = tokens[:, :-1], tokens[:, 1:]
        return torch.where((left > UNKNOWN) & (right > UNKNOWN), PRIME * left + right, PADDING)

    def _buckets(self, bigrams: Int64[Tensor, "*any"]) -> Int64[Tensor, "*any"]:
        return bigrams % len(self.owner)


def count_texts(batches: Iterable[Int64[Tensor, "batch any"]]) -> tuple[Int64[Tensor, " kind"], Int64[Tensor, " kind"]]:
    """Each number that occurs, and in how many rows."""
    found = (distinct(numbers) for numbers in batches)
    return torch.cat([numbers[first] for numbers, first in found]).unique(return_counts=True)


def distinct(numbers: Int64[Tensor, "batch any"]) -> tuple[Int64[Tensor, "batch any"], Bool[Tensor, "batch any"]]:
    """The numbers of each row, none of which is negative, in order, and where each stands for the first time."""
    ordered = numbers.sort(1).values
    return ordered, F.pad(ordered, (1, 0), value=NOBODY).diff(dim=1) != 0  # also of rows without a number


SIZES = {
    "small": RecurrentTextClassifierConfig(vocabulary_size=100, bigrams=64, hidden_size=8, embedding_size=8),
    "base": RecurrentTextClassifierConfig(vocabulary_size=100, bidirectional=True, pooling="max", cell="gru"),
    "network": RecurrentTextClassifierConfig(vocabulary_size=100, bag=False),
}
