"""The compiled updates of word2vec, beside plain PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

from neuropil.data.corpus.embedded import python_documentation
from neuropil.data.formats.memory import in_memory
from neuropil.data.words.dataset import END, EncodedWords
from neuropil.data.words.files import WordDataConfig, prepare_words
from neuropil.models.word2vec.kernel import CHUNK
from neuropil.models.word2vec.learner import (
    EXAMPLES_PER_UPDATE,
    FullSoftmaxDescent,
    NegativeSampling,
    NegativeSamplingConfig,
    SampledPlaces,
    WordLearner,
    keep_chances,
    noise_chances,
    sample_places,
    sampler_of,
)
from neuropil.models.word2vec.network import NO_WORD, Word2Vec, Word2VecConfig, negative_sampling_loss
from neuropil.randomness import initialised, mix
from neuropil.tasks.word_vectors.baselines import Unigram

SIZE = 40
COUNTS = np.arange(SIZE, 0, -1).astype(np.int64) * 30


def text(length: int = 600, seed: int = 0) -> EncodedWords:
    """Words at random, frequent ones more often, in sentences of about nine."""
    generator = np.random.default_rng(seed)
    numbers = generator.choice(SIZE, length, p=COUNTS / COUNTS.sum()).astype(np.int32)
    numbers[generator.random(length) < 0.1] = END
    return EncodedWords(numbers)


def learner_of(
    words: EncodedWords,
    *,
    architecture: Any = "skip_gram",
    width: int = 13,
    kind: type[WordLearner] = NegativeSampling,
    **options: Any,
) -> Any:
    torch.manual_seed(1)
    model = Word2Vec(Word2VecConfig(architecture=architecture, width=width, vocabulary_size=SIZE))
    with torch.no_grad():
        model.output_vectors.normal_(std=0.5)
        model.input_vectors.normal_(std=0.5)
    threads = options.pop("threads", 1)
    return kind(model, words, COUNTS, NegativeSamplingConfig(**options), seed=3, threads=threads)


def places_of(learner: WordLearner, epoch: int = 0) -> SampledPlaces:
    """What a pass over a single chunk samples."""
    return sample_places(learner.words, learner.sampler, mix(learner.seed, "pass", epoch), [0])


def plain_pass(learner: NegativeSampling, rate: float) -> tuple[float, int]:
    """Gradient descent by autograd, at one place after the other; the sum of losses, and of how many examples."""
    model, total, count = learner.model, 0.0, 0
    for contexts, candidates in zip(*places_of(learner), strict=True):
        place = learner.examples(SampledPlaces(contexts[None], candidates[None]))
        loss = negative_sampling_loss(model(*place), place.candidates)
        gradients = torch.autograd.grad(loss.sum(), [model.input_vectors, model.output_vectors])
        with torch.no_grad():
            for vectors, gradient in zip([model.input_vectors, model.output_vectors], gradients, strict=True):
                vectors -= rate * gradient
        total, count = total + float(loss.detach().double().sum()), count + len(loss)
    return total, count


@pytest.mark.parametrize("architecture", ["skip_gram", "cbow"])
@pytest.mark.parametrize(("window", "negatives", "width"), [(5, 5, 13), (1, 1, 3), (3, 7, 40)])
def test_a_compiled_pass_is_gradient_descent_by_autograd(architecture: str, window: int, negatives: int, width: int):
    sizes = {"window": window, "negatives": negatives, "width": width, "subsample": 0.05}
    compiled, plain = (learner_of(text(), architecture=architecture, **sizes) for _ in range(2))
    found = compiled.learn(0, 0, [0.1])
    total, count = plain_pass(plain, 0.1)
    assert found.examples == count
    assert sum(found.totals) == pytest.approx(total, rel=1e-5)
    assert torch.allclose(compiled.model.input_vectors, plain.model.input_vectors, atol=1e-5)
    assert torch.allclose(compiled.model.output_vectors, plain.model.output_vectors, atol=1e-5)


def test_a_loss_is_right_where_scores_are_so_large_that_exponentials_would_overflow():
    learner = learner_of(text())
    with torch.no_grad():
        learner.model.input_vectors.mul_(40)
    places = learner.examples(places_of(learner))
    expected = negative_sampling_loss(learner.model(*places), places.candidates).detach().double().sum()
    found = learner.learn(0, 0, [0.0])
    assert float(expected) / found.examples > 50
    assert sum(found.totals) == pytest.approx(float(expected), rel=1e-5)


def test_a_rate_of_zero_changes_nothing():
    learner = learner_of(text())
    before = learner.model.input_vectors.detach().clone(), learner.model.output_vectors.detach().clone()
    learner.learn(0, 0, [0.0])
    assert torch.equal(learner.model.input_vectors, before[0])
    assert torch.equal(learner.model.output_vectors, before[1])


def test_one_thread_makes_the_same_bits_however_the_chunks_are_taken():
    words = text(5 * CHUNK - 123)
    whole, parts, other = (learner_of(words) for _ in range(3))
    whole.learn(0, 0, [0.05] * 5)
    for first in range(5):
        parts.learn(0, first, [0.05])
    other.learn(1, 0, [0.05] * 5)
    assert torch.equal(whole.model.input_vectors, parts.model.input_vectors)
    assert torch.equal(whole.model.output_vectors, parts.model.output_vectors)
    assert not torch.equal(whole.model.input_vectors, other.model.input_vectors)


def test_threads_see_the_same_samples_and_share_the_vectors():
    words = text(6 * CHUNK)
    one, two = learner_of(words), learner_of(words, threads=2)
    alone, together = (learner.learn(0, 0, [0.01] * 6) for learner in (one, two))
    assert alone.examples == together.examples
    assert sum(together.totals) == pytest.approx(sum(alone.totals), rel=1e-2)


def test_the_vectors_are_one_array_for_numpy_and_pytorch():
    learner = learner_of(text())
    pointer = learner.model.input_vectors.data_ptr()
    before = learner.model.input_vectors.detach().clone()
    learner.learn(0, 0, [0.1])
    assert learner.model.input_vectors.data_ptr() == pointer
    assert not torch.equal(learner.model.input_vectors, before)


def test_contexts_are_the_words_around_in_the_same_sentence():
    words = EncodedWords(np.array([0, 1, 2, 3, END, 4, 5, END, 6, END], np.int32))
    learner = learner_of(words, window=1, subsample=0.0)
    contexts, candidates = places_of(learner)
    assert candidates[:, 0].tolist() == [0, 1, 2, 3, 4, 5]  # the sixth word is alone
    found = [sorted(each for each in row if each != NO_WORD) for row in contexts.tolist()]
    assert found == [[1], [0, 2], [1, 3], [2], [5], [4]]


def test_every_reach_up_to_the_window_is_equally_frequent():
    words = EncodedWords(np.tile(np.arange(SIZE, dtype=np.int32), CHUNK // SIZE))
    contexts, _ = places_of(learner_of(words, window=4, subsample=0.0))
    reaches = (contexts[10:-10] != NO_WORD).sum(1) // 2
    assert reaches.bincount(minlength=5)[1:] / len(reaches) == pytest.approx(np.full(4, 0.25), abs=0.02)


def test_negative_samples_have_the_noise_distribution_and_are_never_the_word_itself():
    words = EncodedWords(np.tile(np.array([0, 1], np.int32), CHUNK // 2))
    _, candidates = places_of(learner_of(words, negatives=20, subsample=0.0))
    noise = noise_chances(COUNTS, 0.75)
    negatives = candidates[candidates[:, 0] == 0][:, 1:]
    assert not (negatives == 0).any()
    found = negatives[negatives != NO_WORD].bincount(minlength=SIZE)[1:]
    assert (found / found.sum()).numpy() == pytest.approx(noise[1:] / noise[1:].sum(), abs=0.004)
    assert (negatives == NO_WORD).float().mean() == pytest.approx(noise[0], abs=0.004)


def test_frequent_words_are_kept_as_often_as_they_should_be():
    words = text(CHUNK)
    learner = learner_of(words, subsample=0.01, window=1)
    found = sample_places(words, learner.sampler, 5, [0]).candidates[:, 0].bincount(minlength=SIZE).numpy()
    expected = words.counts(SIZE) * keep_chances(COUNTS, 0.01)
    assert found.sum() == pytest.approx(expected.sum(), rel=0.1)  # and some are alone in their sentence
    assert found[:5].sum() / words.counts(SIZE)[:5].sum() < 0.75 * found[-20:].sum() / words.counts(SIZE)[-20:].sum()


def test_a_single_word_of_noise_is_always_drawn():
    sampler = sampler_of(np.array([0, 10**9, 0, 0], np.int64), NegativeSamplingConfig(noise_exponent=2.0))
    drawn = sample_places(EncodedWords(np.array([0, 2, 3] * 50, np.int32)), sampler, 1, [0]).candidates[:, 1:]
    assert set(drawn.flatten().tolist()) == {1}


# --- the base model ---------------------------------------------------------------------------------------------------


def test_an_update_of_the_base_model_goes_down_the_gradient_of_its_softmax():
    learner = learner_of(text(12), kind=FullSoftmaxDescent, subsample=0.0)
    v, u = (
        each.detach().double().numpy().copy() for each in (learner.model.input_vectors, learner.model.output_vectors)
    )
    contexts, words = (each[:, 0].numpy() for each in places_of(learner).pairs())
    assert 20 < len(words) <= EXAMPLES_PER_UPDATE  # and learned from in one update
    found = learner.learn(0, 0, [0.1])
    # ∂L/∂v_c = Σ_w (P(w | c) − [w = o]) u_w,   ∂L/∂u_w = (P(w | c) − [w = o]) v_c
    chances = np.exp(v[contexts] @ u.T)
    chances /= chances.sum(1, keepdims=True)
    assert found.examples == len(words)
    assert sum(found.totals) == pytest.approx(-np.log(chances[np.arange(len(words)), words]).sum(), rel=1e-5)
    errors = chances - np.eye(SIZE)[words]
    expected = v.copy()
    np.add.at(expected, contexts, -0.1 * errors @ u)
    assert learner.model.input_vectors.detach().numpy() == pytest.approx(expected, abs=1e-5)
    assert learner.model.output_vectors.detach().numpy() == pytest.approx(u - 0.1 * errors.T @ v[contexts], abs=1e-5)


def test_the_loss_of_the_base_model_is_the_cross_entropy_over_all_words():
    learner = learner_of(text(), kind=FullSoftmaxDescent, subsample=0.0)
    places = places_of(learner)
    words = places.pairs().candidates[:, 0].numpy()
    with torch.no_grad():
        learner.model.output_vectors.zero_()
    assert learner.measure(places)["loss"] == pytest.approx(np.log(SIZE))
    # what knows the frequencies alone, as negative sampling would score it
    unigram = Unigram(COUNTS, np.ones(SIZE), learner.noise, 5)
    assert learner.measure_scores(unigram, places)["loss"] == pytest.approx(
        -np.log(COUNTS / COUNTS.sum())[words].mean()
    )


@pytest.mark.slow
def test_neighbours_by_negative_sampling_are_those_of_the_base_model():
    """On Python's documentation, with its 300 most frequent words. Both models share about 42 % of the neighbours (48 %
    after ten passes of the base model); negative sampling with two seeds shares 60 % with itself."""
    data = in_memory([python_documentation()[0]])
    corpus = prepare_words(WordDataConfig(data=data, sentence="paragraph", vocabulary_size=300))
    near = []
    for kind, passes in ((NegativeSampling, 20), (FullSoftmaxDescent, 4)):
        model = initialised(lambda: Word2Vec(Word2VecConfig(width=30, vocabulary_size=300)), seed=0)
        learner = kind(model, corpus.train, corpus.vocabulary.counts, NegativeSamplingConfig(), seed=0, threads=1)
        steps = passes * len(learner)
        for epoch in range(passes):
            done = epoch * len(learner)
            learner.learn(epoch, 0, [0.05 * (1 - (done + chunk) / steps) for chunk in range(len(learner))])
        vectors = torch.nn.functional.normalize(model.input_vectors.detach(), dim=1)
        near.append((vectors @ vectors.T).fill_diagonal_(-2).topk(10).indices[:100].tolist())
    shared = np.mean([len({*one} & {*other}) / 10 for one, other in zip(*near, strict=True)])
    chance = 10 / 299  # of ten among the others, whatever the ten are
    assert shared > 10 * chance
