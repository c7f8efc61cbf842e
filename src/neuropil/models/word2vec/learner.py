"""word2vec's learner: chunks of encoded words, sampled and learned from by the compiled kernel.

subsampling          P(keep w) = √(t / f(w)) + t / f(w)            f the share of all words, t the threshold
noise                P(w) ∝ count(w)^¾
reduced window       at each place as far as r words to both sides, r drawn from 1 … window
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.words.dataset import EncodedWords
from neuropil.models.word2vec.kernel import ALWAYS, CHUNK, Sampler, fill_aliases, learn, sample_chunk
from neuropil.models.word2vec.network import NO_WORD, FullSoftmax, Word2Vec, negative_sampling_loss, share_below
from neuropil.parts.threads.pytorch_threads import one_thread, torch_threads
from neuropil.parts.threads.team import team_of
from neuropil.protocols import Batch, ChunkLosses
from neuropil.randomness import mix, seeded

PLACES_AT_ONCE = 1 << 12
EXAMPLES_PER_UPDATE = 64
"""Of the base model, whose gradients are added up: with 256 a frequent word is moved so far that the loss diverges."""
Scores: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Of candidate words for contexts."""


class NegativeSamplingConfig(Config):
    loss: Literal["negative_sampling", "softmax"] = option(
        "negative_sampling", "loss; softmax over all words is the base model, slow unless the vocabulary is small"
    )
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

    def portions(self, size: int = PLACES_AT_ONCE) -> "list[SampledPlaces]":
        return [SampledPlaces(*both) for both in zip(*(each.split(size) for each in self), strict=True)]


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


def softmax_metrics(
    logits: Callable[[Tensor], Tensor], places: SampledPlaces, log_noise: Float[Tensor, " word"]
) -> dict[str, float]:
    """Of logits of all words for contexts: the mean cross-entropy, and the same share by ln P(o | c) / Pₙ(o), which is
    what negative sampling scores by."""
    sums = {"loss": 0.0, "auc": 0.0}
    for contexts, candidates in places.portions():
        found = logits(contexts).log_softmax(1)
        scores = (found - log_noise).gather(1, candidates.clamp(min=0))
        sums["loss"] -= found.gather(1, candidates[:, :1]).double().sum().item()
        sums["auc"] += share_below(scores, candidates).double().sum().item()
    return {name: total / len(places.contexts) for name, total in sums.items()}


@runtime_checkable
class WordScores(Protocol):
    """What scores words by their contexts, as negative sampling does: near ln P(o | c) / K Pₙ(o)."""

    def __call__(self, contexts: Tensor, candidates: Tensor) -> Tensor: ...

    def all_scores(self, contexts: Tensor) -> Tensor: ...


class WordLearner(ABC):
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
        self.noise = noise_chances(counts, config.noise_exponent)
        self.threads = threads or os.cpu_count() or 1

    def __len__(self) -> int:
        return num_chunks(self.words)

    def learn(self, epoch: int, first: int, rates: Sequence[float]) -> ChunkLosses:
        # In another order in each pass: what is read last would be remembered best.
        order = torch.randperm(len(self), generator=seeded(self.seed, "order", epoch)).numpy()
        totals, examples = self.descend(order[first : first + len(rates)], rates, mix(self.seed, "pass", epoch))
        self.words.release()
        return ChunkLosses(totals, examples, round(len(self.words) * len(rates) / len(self)))

    @abstractmethod
    def descend(self, chunks: Int64[np.ndarray, " chunk"], rates: Sequence[float], key: int) -> tuple[list[float], int]:
        """Learn from each of the chunks with its rate; the sums of their losses, and of how many examples."""

    def metrics(self) -> dict[str, float]:
        return {} if self.held_out is None else self.measure(self.held_out)

    @abstractmethod
    def measure(self, places: SampledPlaces) -> dict[str, float]:
        """On places of a text, by the equations of `network.py`."""

    @abstractmethod
    def measure_scores(self, scores: WordScores, places: SampledPlaces) -> dict[str, float]:
        """The same of what the model is compared with."""

    def examples(self, places: SampledPlaces) -> SampledPlaces:
        """Skip-gram takes each context alone."""
        return places.pairs() if self.model.config.architecture == "skip_gram" else places


class NegativeSampling(WordLearner):
    """Compiled."""

    def descend(self, chunks: Int64[np.ndarray, " chunk"], rates: Sequence[float], key: int) -> tuple[list[float], int]:
        losses, examples = np.zeros(len(rates)), np.zeros(len(rates), np.int64)
        vectors = self.model.input_vectors.detach().numpy(), self.model.output_vectors.detach().numpy()
        skip_gram, taken = self.model.config.architecture == "skip_gram", np.zeros(1, np.int64)
        of_chunks = chunks, np.array(rates, np.float32), losses, examples
        team = team_of(self.threads)
        team.run(learn, self.words.numbers, *vectors, self.sampler, skip_gram, np.uint64(key), *of_chunks, taken)
        return losses.tolist(), int(examples.sum())

    def measure(self, places: SampledPlaces) -> dict[str, float]:
        return self.measure_scores(self.model, places)

    @torch.no_grad()
    def measure_scores(self, scores: WordScores, places: SampledPlaces) -> dict[str, float]:
        with one_thread():  # its others would spin where the kernel's threads compute
            return negative_sampling_metrics(scores, self.examples(places))


class FullSoftmaxDescent(WordLearner):
    """The base model: gradient descent on the cross-entropy over all words, in PyTorch, from the places that negative
    sampling would learn from."""

    def descend(self, chunks: Int64[np.ndarray, " chunk"], rates: Sequence[float], key: int) -> tuple[list[float], int]:
        totals, examples = list[float](), 0
        with torch_threads(self.threads):
            for chunk, rate in zip(chunks.tolist(), rates, strict=True):
                found = self.examples(sample_places(self.words, self.sampler, key, [chunk]))
                batches = found.portions(EXAMPLES_PER_UPDATE)
                totals.append(sum(self._update({"input": each, "target": of[:, 0]}, rate) for each, of in batches))
                examples += len(found.contexts)
        return totals, examples

    def _update(self, batch: Batch, rate: float) -> float:
        """The loss before it, summed: each example moves the vectors by its own gradient, as if it were alone."""
        vectors = [self.model.input_vectors, self.model.output_vectors]
        loss = FullSoftmax(self.model).metrics(batch)["loss"].sum()
        gradients = torch.autograd.grad(loss, vectors)
        with torch.no_grad():
            for each, gradient in zip(vectors, gradients, strict=True):
                each.sub_(gradient, alpha=rate)
        return loss.item()

    def measure(self, places: SampledPlaces) -> dict[str, float]:
        return self._measured(self.model.all_scores, places)

    def measure_scores(self, scores: WordScores, places: SampledPlaces) -> dict[str, float]:
        # P(o | c) ∝ Pₙ(o) exp s(o, c)
        return self._measured(lambda contexts: scores.all_scores(contexts) + self.log_noise, places)

    @property
    def log_noise(self) -> Float[Tensor, " word"]:
        return torch.from_numpy(np.log(self.noise)).float()

    @torch.no_grad()
    def _measured(self, logits: Callable[[Tensor], Tensor], places: SampledPlaces) -> dict[str, float]:
        with torch_threads(self.threads):
            return softmax_metrics(logits, self.examples(places), self.log_noise)


LEARNERS: Mapping[str, type[WordLearner]] = {"negative_sampling": NegativeSampling, "softmax": FullSoftmaxDescent}
"""By the loss."""
