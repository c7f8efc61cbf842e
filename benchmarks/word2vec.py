"""Skip-gram beside gensim: the same text, settings and threads; words per second and memory, at equal quality.
Goal: 3 times as fast; floor: 1.5 times.

python -m benchmarks.word2vec --text corpus.txt         beside gensim; WordSim-353 and SimLex-999 come with it
python -m benchmarks.word2vec --text corpus.txt --grid  and our speed by vocabulary and dimension
"""

import resource
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.data.words.dataset import END, EncodedWords, WordCorpus
from neuropil.data.words.files import WordDataConfig, prepare_words
from neuropil.models.word2vec.learner import NegativeSampling, NegativeSamplingConfig, num_chunks, sample_places
from neuropil.models.word2vec.network import Word2Vec, Word2VecConfig
from neuropil.randomness import initialised
from neuropil.tasks.word_vectors.questions import SimilarityPairs, read_questions
from neuropil.tasks.word_vectors.scores import similarity_scores
from neuropil.tasks.word_vectors.vectors import WordVectors

RATE, FINAL_RATE = 0.025, 0.0001
WIDTHS = (50, 100, 200, 300)
TESTS = ("wordsim353.tsv", "simlex999.txt")


class Arguments(Config):
    text: Path | None = option(None, "a text, one sentence on each line; without it, docstrings of installed libraries")
    threads: int = option(2, "threads of each", low=1)
    epochs: int = option(5, "passes over the text", low=1)
    seeds: int = option(3, "seeds over which means are taken", low=1)
    width: int = option(100, "vector dimension", low=1)
    grid: bool = option(False, "our speed by vocabulary and dimension, too")


class Trained(NamedTuple):
    words_per_second: float
    words_per_processor_second: float
    megabytes: float
    """Largest resident memory of the process."""
    scores: dict[str, float]


def sentences_of(corpus: WordCorpus, part: EncodedWords) -> list[list[str]]:
    found, words = list[list[str]](), list[str]()
    for number in part.numbers.tolist():
        if number == END:
            found.append(words)
            words = []
        else:
            words.append(corpus.vocabulary.words[number])
    return found


def main(words: Sequence[str] = ()) -> None:
    arguments = parse(Arguments(), words, command="word2vec", about=(__doc__ or "").split("\n")[0])
    found = compare(arguments)
    for name, each in found.items():
        print(f"{name}: {summary(each)}")
    for what in ("words_per_second", "words_per_processor_second", "megabytes"):
        ratios = ratios_of(found, what)
        between = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{what.replace('_', ' ')}, neuropil / gensim: {statistics.median(ratios):.2f} ({between})")
    if arguments.grid:
        for size, *cells in speeds(arguments):
            print(f"vocabulary {size}, words/s by dimension {WIDTHS}: {', '.join(cells)}")


def compare(arguments: Arguments) -> dict[str, list[Trained]]:
    """Of each, a training for each seed."""
    found: dict[str, list[Trained]] = {"neuropil": [], "gensim": []}
    for seed in range(arguments.seeds):
        for name in list(found)[:: 1 if seed % 2 else -1]:  # in turns, so that the machine's mood hits both
            # Each in a process of its own, whose memory can be told.
            with get_context("spawn").Pool(1) as pool:
                found[name].append(pool.apply(TRAIN[name], (arguments, seed)))
            print(f"{name}, seed {seed}: {line(found[name][-1])}", file=sys.stderr, flush=True)
    return found


def ratios_of(found: Mapping[str, Sequence[Trained]], what: str) -> list[float]:
    """Ours to gensim's, for each seed."""
    ours, theirs = ([getattr(each, what) for each in found[name]] for name in ("neuropil", "gensim"))
    return [a / b for a, b in zip(ours, theirs, strict=True)]


HEADER = ("", "words per second", "held-out loss", "WordSim-353", "SimLex-999")


def beside_gensim(text: Path) -> list[list[str]]:
    """Medians of speeds; scores are means over seeds, with standard errors."""
    found = compare(Arguments(text=text))
    rows = []
    for name, each in found.items():
        speed = statistics.median(one.words_per_second for one in each)
        rows.append([name, f"{speed:,.0f}", *mean_scores(each).values()])
    ratio = statistics.median(ratios_of(found, "words_per_second"))
    return [*rows, ["neuropil / gensim", f"{ratio:.2f}", "", "", ""]]


def line(each: Trained) -> str:
    speeds = f"{each.words_per_second:,.0f} words/s, {each.words_per_processor_second:,.0f} words per processor second"
    scores = ", ".join(f"{name} {value:.4f}" for name, value in each.scores.items())
    return f"{speeds}, {each.megabytes:.0f} MB, {scores}"


def summary(several: list[Trained]) -> str:
    return ", ".join(f"{name} {value}" for name, value in mean_scores(several).items())


def mean_scores(several: list[Trained]) -> dict[str, str]:
    """Means over seeds, with standard errors."""
    found: dict[str, str] = {}
    for name in several[0].scores:
        values = [each.scores[name] for each in several]
        error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        found[name] = f"{statistics.mean(values):.4f} ± {error:.4f}"
    return found


def prepared(arguments: Arguments, size: int | None = None) -> WordCorpus:
    data = (arguments.text,) if arguments.text else ()
    return prepare_words(WordDataConfig(data=data, validation=0.0, vocabulary_size=size))


def scored(corpus: WordCorpus, model: Word2Vec, seed: int) -> dict[str, float]:
    from gensim.test.utils import datapath

    learner = NegativeSampling(model, corpus.train, corpus.vocabulary.counts, NegativeSamplingConfig(), seed=seed)
    places = sample_places(corpus.test, learner.sampler, 0, range(num_chunks(corpus.test)))
    vectors = WordVectors(corpus.vocabulary.words, model.input_vectors.detach())
    scores = {"held-out loss": learner.measure(places)["loss"]}
    for name in TESTS:
        pairs = read_questions(Path(datapath(name)))
        scores[Path(name).stem] = similarity_scores(vectors, cast(SimilarityPairs, pairs))["spearman"]
    return scores


def measured(arguments: Arguments, corpus: WordCorpus, train: Any) -> tuple[float, float, float]:
    began, used = time.perf_counter(), time.process_time()
    train()
    words = arguments.epochs * len(corpus.train)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return words / (time.perf_counter() - began), words / (time.process_time() - used), memory


def train_ours(arguments: Arguments, seed: int, corpus: WordCorpus | None = None, width: int | None = None) -> Trained:
    corpus = corpus or prepared(arguments)
    config = Word2VecConfig(width=width or arguments.width, vocabulary_size=len(corpus.vocabulary))
    model = initialised(lambda: Word2Vec(config), seed)
    settings: dict[str, Any] = {"seed": seed, "threads": arguments.threads}
    learner = NegativeSampling(model, corpus.train, corpus.vocabulary.counts, NegativeSamplingConfig(), **settings)
    learner.learn(0, 0, [])  # what is compiled is compiled, or read from the disk
    chunks = len(learner)

    def train() -> None:
        for epoch in range(arguments.epochs):
            shares = (epoch * chunks + np.arange(chunks)) / (arguments.epochs * chunks)
            learner.learn(epoch, 0, (RATE + (FINAL_RATE - RATE) * shares).tolist())

    return Trained(*measured(arguments, corpus, train), scored(corpus, model, seed))


def train_theirs(arguments: Arguments, seed: int) -> Trained:
    from gensim.models import Word2Vec as Gensim

    corpus = prepared(arguments)
    sentences = sentences_of(corpus, corpus.train)
    settings: dict[str, Any] = {"window": 5, "negative": 5, "sample": 1e-3, "min_count": 1, "sg": 1}
    settings |= {"vector_size": arguments.width}
    theirs = Gensim(**settings, alpha=RATE, min_alpha=FINAL_RATE, workers=arguments.threads, seed=seed + 1)
    theirs.build_vocab(sentences)

    def train() -> None:
        theirs.train(sentences, total_examples=theirs.corpus_count, epochs=arguments.epochs)

    figures = measured(arguments, corpus, train)
    model = Word2Vec(Word2VecConfig(width=arguments.width, vocabulary_size=len(corpus.vocabulary)))
    rows: Any = theirs.wv.key_to_index
    order = [rows[word] for word in corpus.vocabulary.words]
    with torch.no_grad():
        model.input_vectors.copy_(torch.from_numpy(theirs.wv.vectors[order]))
        model.output_vectors.copy_(torch.from_numpy(theirs.syn1neg[order]))
    return Trained(*figures, scored(corpus, model, seed))


TRAIN = {"neuropil": train_ours, "gensim": train_theirs}


def speeds(arguments: Arguments) -> list[list[str]]:
    """Our words per second: the size of the vocabulary, and a number for each dimension."""
    rows = []
    for size in (1_000, 10_000, None):
        corpus = prepared(arguments, size)
        found = [train_ours(arguments, 0, corpus, width).words_per_second for width in WIDTHS]
        rows.append([f"{len(corpus.vocabulary):,}", *(f"{speed:,.0f}" for speed in found)])
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
