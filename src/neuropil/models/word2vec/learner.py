"""word2vec's learner: chunks of encoded words, sampled and learned from by the compiled kernel.

subsampling          P(keep w) = √(t / f(w)) + t / f(w)            f the share of all words, t the threshold
noise                P(w) ∝ count(w)^¾
reduced window       at each place as far as r words to both sides, r drawn from 1 … window
"""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.words.dataset import EncodedWords
from neuropil.models.word2vec.kernel import ALWAYS, CHUNK, Sampler, fill_aliases, learn, sample_chunk
from neuropil.models.word2vec.network import NO_WORD, Word2Vec, negative_sampling_loss, share_below
from neuropil.parts.threads import one_thread, team_of
from neuropil.protocols import ChunkLosses
from neuropil.randomness import mix, seeded

PLACES_AT_ONCE = 1 << 12
Scores: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Of candidate words for contexts."""


class NegativeSamplingConfig(Config):
    window: int = option(5, "maximum distance of a context word", low=1, high=1_000)
    negatives: int = option(5, "number of negative samples at each place", low=1, high=100)
    noise_exponent: float = option(0.75, "exponent of word counts in the noise distribution", low=-2, high=2)
    subsample: float = option(1e-3, "subsampling threshold t of frequent words; 0 for none", low=0, high=1)


def keep_chances(counts: Int64[np.ndarray, " word"], threshold: float) -> Float64[np.ndarray, " word"]:
    if threshold == 0:
        return np.ones(len(counts))
    # P(keep w) = √(t / f(w)) + t / f(w)
    ratio = threshold * counts.sum() / np.maximum(counts, 1)
    return np.minimum(1, np.sqrt(ratio) + ratio)


def noise_chances(counts: Int64[np.ndarray, " word"], exponent: float) -> Float64[np.ndarray, " word"]:
    # P(w) ∝ count(w)^¾
    powers = np.maximum(counts, 1).astype(np.float64) ** exponent
    return powers / powers.sum()


def sampler_of(counts: Int64[np.ndarray, " word"], config: NegativeSamplingConfig) -> Sampler:
    kept, alias = np.empty(len(counts), np.uint64), np.empty(len(counts), np.int32)
    fill_aliases(noise_chances(counts, config.noise_exponent), kept, alias)
    keep = (keep_chances(counts, config.subsample) * ALWAYS).astype(np.uint64)
    return Sampler(keep, kept, alias, config.window, config.negatives)


class SampledPlaces(NamedTuple):
    """Places of a text as they are learned from: contexts and candidates, of which the first is the true word. Where
    there are fewer, `NO_WORD` stands."""

    contexts: Int64[Tensor, "place context"]
    candidates: Int64[Tensor, "place candidate"]

    def pairs(self) -> "SampledPlaces":
        """Each context alone, as skip-gram takes them."""
        there = self.contexts != NO_WORD
        return SampledPlaces(self.contexts[there][:, None], self.candidates.repeat_interleave(there.sum(1), 0))

    def portions(self) -> "list[SampledPlaces]":
        return [SampledPlaces(*both) for both in zip(*(each.split(PLACES_AT_ONCE) for each in self), strict=True)]


def sample_places(words: EncodedWords, sampler: Sampler, key: int, chunks: Sequence[int]) -> SampledPlaces:
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for chunk in chunks:
        contexts = np.full((CHUNK, 2 * sampler.window), NO_WORD)
        candidates = np.full((CHUNK, sampler.negatives + 1), NO_WORD)
        count = sample_chunk(words.numbers, sampler, np.uint64(key), chunk, contexts, candidates)
        found.append((contexts[:count], candidates[:count]))
    contexts, candidates = (np.concatenate(each) for each in zip(*found, strict=True))
    return SampledPlaces(torch.from_numpy(contexts), torch.from_numpy(candidates))


def num_chunks(words: EncodedWords) -> int:
    return -(-len(words.numbers) // CHUNK)


def negative_sampling_metrics(score: Scores, places: SampledPlaces) -> dict[str, float]:
    """The mean loss, and the share of negative samples that score below the true word, by whatever scores them."""
    sums = {"loss": 0.0, "auc": 0.0}
    for contexts, candidates in places.portions():
        scores = score(contexts, candidates)
        sums["loss"] += negative_sampling_loss(scores, candidates).double().sum().item()
        sums["auc"] += share_below(scores, candidates).double().sum().item()
    return {name: total / len(places.contexts) for name, total in sums.items()}


class NegativeSampling:
    """A `ChunkLearner`. Its vectors are those of the model, which NumPy and PyTorch both see."""

    def __init__(
        self,
        model: Word2Vec,
        words: EncodedWords,
        counts: Int64[np.ndarray, " word"],
        config: NegativeSamplingConfig,
        *,
        seed: int,
        threads: int | None = None,
        held_out: SampledPlaces | None = None,
    ):
        self.model, self.words, self.seed, self.held_out = model, words, seed, held_out
        self.sampler = sampler_of(counts, config)
        self.threads = threads or os.cpu_count() or 1

    def __len__(self) -> int:
        return num_chunks(self.words)

    def learn(self, epoch: int, first: int, rates: Sequence[float]) -> ChunkLosses:
        losses, examples = np.zeros(len(rates)), np.zeros(len(rates), np.int64)
        vectors = self.model.input_vectors.detach().numpy(), self.model.output_vectors.detach().numpy()
        skip_gram, key = self.model.config.architecture == "skip_gram", np.uint64(mix(self.seed, "pass", epoch))
        # In another order in each pass: what is read last would be remembered best.
        order = torch.randperm(len(self), generator=seeded(self.seed, "order", epoch)).numpy()
        of_chunks = order[first : first + len(rates)], np.array(rates, np.float32), losses, examples
        taken = np.zeros(1, np.int64)
        team = team_of(self.threads)
        team.run(learn, self.words.numbers, *vectors, self.sampler, skip_gram, key, *of_chunks, taken)
        read = round(len(self.words) * len(rates) / len(self))
        return ChunkLosses(float(losses.sum()), int(examples.sum()), read)

    def metrics(self) -> dict[str, float]:
        return {} if self.held_out is None else self.measure(self.held_out)

    @torch.no_grad()
    def measure(self, places: SampledPlaces) -> dict[str, float]:
        """On places of a text, by the equations of `network.py`."""
        with one_thread():  # its others would spin where the kernel's threads compute
            return negative_sampling_metrics(self.model, self.examples(places))

    def examples(self, places: SampledPlaces) -> SampledPlaces:
        """Skip-gram takes each context alone."""
        return places.pairs() if self.model.config.architecture == "skip_gram" else places
