"""Word vectors: a model that learns which words occur together, and so which are alike."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neuropil.data.copies import save_hashes
from neuropil.data.words.dataset import END, EncodedWords, Vocabulary, WordCorpus
from neuropil.errors import InputError
from neuropil.inspection.pictures.training import learning_curve
from neuropil.inspection.report.page import Picture, Section, Text
from neuropil.metrics import find_metric
from neuropil.models.word2vec.learner import (
    LEARNERS,
    NegativeSamplingConfig,
    SampledPlaces,
    keep_chances,
    num_chunks,
    sample_places,
)
from neuropil.models.word2vec.network import Word2Vec
from neuropil.randomness import mix
from neuropil.tasks.experiment import Result, Selection, fingerprint
from neuropil.tasks.report import data_section, model_section
from neuropil.tasks.word_vectors import report
from neuropil.tasks.word_vectors.baselines import FactorisedCounts, Unigram
from neuropil.tasks.word_vectors.vectors import WordVectors
from neuropil.training.chunk_loop import ChunkTrainingConfig, fit_chunks
from neuropil.training.history import Row, Watch

MOST_CHUNKS = 5
"""Of each held-out part, evenly spaced: the loss of more pairs would be the same."""
FIXED_SECONDS = 5.0
"""About what baselines and report take, however long the text is."""
MOST_SENTENCES = 1_000_000
"""Of the training part, by which it is known again."""


class WordVectorExperiment:
    """The loss of validation and test is that of the same pairs and negative samples, whatever is trained."""

    def __init__(
        self,
        model: Word2Vec,
        corpus: WordCorpus,
        sampling: NegativeSamplingConfig,
        training: ChunkTrainingConfig,
        *,
        seed: int,
        name: str,
    ):
        require_sentences(corpus)
        self.model, self.corpus, self.sampling, self.training = model, corpus, sampling, training
        self.seed, self.name = seed, name
        self.notes = [*corpus.notes, training.fitted] if training.fitted else list(corpus.notes)
        counts = corpus.vocabulary.counts
        how = {"seed": seed, "threads": training.threads}
        self.learner = LEARNERS[sampling.loss](model, corpus.train, counts, sampling, **how)
        if len(corpus.validation):
            found = self.held_out(corpus.validation, "validation")
            self.learner.held_out = found if len(found.contexts) else None
        if not len(self.test.contexts):
            rule, fix = "there must be pairs of words for the test part", "give longer sentences, or --subsample 0"
            raise InputError(rule, got="none", fix=fix)

    def held_out(self, words: EncodedWords, part: str) -> SampledPlaces:
        total = num_chunks(words)
        chunks = np.unique(np.linspace(0, total - 1, min(total, MOST_CHUNKS)).astype(int))
        return sample_places(words, self.learner.sampler, mix(self.seed, part), chunks.tolist())

    def facts(self) -> dict[str, Any]:
        vocabulary = self.corpus.vocabulary
        words = hashlib.sha256("\n".join(vocabulary.words).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        numbers = (torch.from_numpy(block) for part in self.corpus.parts.values() for block in part.blocks())
        return {
            "model": self.model.config.to_dict(),
            "source": self.corpus.source,
            "notes": self.notes,
            "vocabulary": words,
            "fingerprint": fingerprint(numbers),
        }

    @property
    def selection(self) -> Selection | None:
        return Selection(find_metric("loss"), keeps_best=False) if self.learner.held_out is not None else None

    def train(self, folder: Path, *, show_progress: bool) -> None:
        self.train_model(folder, title=self.name, show_progress=show_progress)

    def train_model(self, folder: Path, *, title: str, show_progress: bool, watch: Watch | None = None) -> list[Row]:
        self.corpus.vocabulary.save(folder)
        save_hashes(folder, islice(sentences(self.corpus.train, self.corpus.vocabulary), MOST_SENTENCES))
        shown = {"title": title, "show_progress": show_progress}
        return fit_chunks(self.learner, self.training, folder=folder, **shown, watch=watch)

    # --- how well words are told from noise ---------------------------------------------------------------------------

    @cached_property
    def test(self) -> SampledPlaces:
        return self.held_out(self.corpus.test, "test")

    def own_result(self) -> Result:
        return Result(self.name, self.learner.measure(self.test))

    def evaluate(self) -> list[Result]:
        counts, learner, width = self.corpus.vocabulary.counts, self.learner, self.model.config.width
        unigram = Unigram(counts, keep_chances(counts, self.sampling.subsample), learner.noise, self.sampling.negatives)
        baselines = {
            f"PPMI + SVD, {width} dimensions": FactorisedCounts(
                self.corpus.train, len(counts), learner.sampler, unigram, width=width, seed=self.seed
            ),
            "word frequencies": unigram,
        }
        results = [Result(name, learner.measure_scores(scores, self.test)) for name, scores in baselines.items()]
        return [
            self.own_result(),
            *sorted(results, key=lambda result: result.metrics["loss"]),
        ]

    def scoring_seconds(self) -> float:
        """What evaluation and report take, about, where nothing else runs."""
        began = time.process_time()
        self.learner.measure(self.test)
        return FIXED_SECONDS + 3 * (time.process_time() - began)

    # --- report -------------------------------------------------------------------------------------------------------

    def sections(self, history: Sequence[Row]) -> list[Section]:
        curve = Picture.of(learning_curve(history), alt="loss against training steps")
        seconds, threads = max((row["seconds"] for row in history), default=0.0), self.learner.threads
        words = f"Training took {seconds:,.1f} seconds on {threads} {'thread' if threads == 1 else 'threads'}, for "
        passes = max((row["epoch"] for row in history), default=0.0)
        words += f"{passes:.3g} passes over {len(self.corpus.train):,} words."
        vocabulary = self.corpus.vocabulary
        vectors = WordVectors(vocabulary.words, self.model.input_vectors.detach(), vocabulary.counts.tolist())
        parts = [[name, len(part), part.num_sentences] for name, part in self.corpus.parts.items()]
        return [
            Section("Training", [Text(words), curve]),
            report.map_section(vectors),
            report.neighbours_section(vectors),
            model_section(self.model.parameter_table(), self.model),
            data_section(self.corpus.source, ["part", "words", "sentences"], parts, self.notes),
        ]


def require_sentences(corpus: WordCorpus) -> None:
    for name, part in (("training", corpus.train), ("test", corpus.test)):
        if not len(part):
            rule, fix = "there must be sentences for the training part and others for the test part", "give more text"
            raise InputError(rule, got=f"none for the {name} part", fix=fix)


def sentences(part: EncodedWords, vocabulary: Vocabulary) -> Iterator[str]:
    words: list[str] = []
    for block in part.blocks():
        for number in block.tolist():
            if number == END:
                yield " ".join(words)
                words = []
            else:
                words.append(vocabulary.words[number])
