"""How good word vectors are: analogies that they complete, and similarities that they share with people.

As the original word2vec and gensim compute them: among the most frequent words only; whatever the case of the letters,
of several spellings the most frequent; and questions with a word that is not known are left out, and counted.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.errors import InputError
from neuropil.metrics import ACCURACY_OF
from neuropil.progress import tracked
from neuropil.tasks.word_vectors.questions import Analogy, AnalogyQuestions, SimilarityPairs
from neuropil.tasks.word_vectors.vectors import COSINES_AT_ONCE, WordVectors

ROUNDING = 1e-6
VOCABULARY_SIZE = 300_000
"""Words that are compared with, as in gensim."""


class CaseInsensitive:
    """Words whatever the case of their letters: each stands for the most frequent spelling."""

    def __init__(self, vectors: WordVectors):
        self.first: dict[str, int] = {}
        self.spellings: dict[int, list[int]] = {}
        """The rows of all spellings, by that of the most frequent."""
        rows: list[int] = []
        for number, word in enumerate(vectors.words):
            first = self.first.setdefault(word.upper(), number)
            self.spellings.setdefault(first, []).append(number)
            rows.append(first)
        self.rows: Int64[Tensor, " word"] = torch.tensor(rows)
        """For each row that of the most frequent spelling."""

    def known(self, *words: str) -> list[int] | None:
        """Rows, if all of the words are known."""
        found = [self.first.get(word.upper()) for word in words]
        return [row for row in found if row is not None] if None not in found else None


def analogy_scores(
    vectors: WordVectors, questions: AnalogyQuestions, vocabulary_size: int = VOCABULARY_SIZE
) -> dict[str, float]:
    """The share of analogies whose last word is found first, of all and of each section; and that of the analogies
    with a word that is not known."""
    compared = vectors.most_frequent(vocabulary_size)
    words = CaseInsensitive(compared)
    known = {name: _known(words, section) for name, section in questions.sections.items()}
    scored = [each for section in known.values() for each in section]
    total = sum(map(len, questions.sections.values()))
    if not scored:
        rule = f"some analogies must be of words among the vocabulary's {len(compared):,}"
        raise InputError(rule, got=f"none of {total:,}")
    found = iter(_completed(compared, words, torch.tensor(scored)))
    right = {name: [next(found) for _ in section] for name, section in known.items()}
    scores = {"accuracy": sum(map(sum, right.values())) / len(scored)}
    scores["out_of_vocabulary"] = 1 - len(scored) / total
    return scores | {f"{ACCURACY_OF}{name}": sum(each) / len(each) for name, each in right.items() if each}


def _known(words: CaseInsensitive, section: list[Analogy]) -> list[list[int]]:
    rows = (words.known(*analogy) for analogy in section)
    return [each for each in rows if each is not None]


def _completed(vectors: WordVectors, words: CaseInsensitive, analogies: Int64[Tensor, "analogy 4"]) -> list[bool]:
    """Whether d is found for each a is to b as c is to d; no spelling of a, b or c is an answer."""
    right: list[bool] = []
    portions = analogies.split(max(1, COSINES_AT_ONCE // len(vectors)))
    for portion in tracked(portions, "Completing analogies"):
        a, b, c = (vectors.unit(column.tolist()) for column in portion[:, :3].T)
        # argmax_x cos(x, b̂ − â + ĉ); the length of the sum is the same for every x
        cosines = vectors.cosines(b - a + c)
        for row, asked in zip(cosines, portion[:, :3].tolist(), strict=True):
            row[[number for first in asked for number in words.spellings[first]]] = -torch.inf
        best = cosines.max(1)  # none, where every word is one of a, b and c
        right += ((words.rows[best.indices] == portion[:, 3]) & best.values.isfinite()).tolist()
    return right


def similarity_scores(
    vectors: WordVectors, judged: SimilarityPairs, vocabulary_size: int = VOCABULARY_SIZE
) -> dict[str, float]:
    """Spearman's rank correlation and Pearson's between the cosines of pairs and what people say of them."""
    from scipy import stats

    compared = vectors.most_frequent(vocabulary_size)
    words = CaseInsensitive(compared)
    rows = [words.known(*pair) for pair in judged.pairs]
    known = [(row, similarity) for row, similarity in zip(rows, judged.similarities, strict=True) if row is not None]
    if len(known) < 2:
        rule = f"two pairs or more must be of words among the vocabulary's {len(compared):,}"
        raise InputError(rule, got=f"{len(known)} of {len(rows):,}")
    x, y = (compared.unit([row[side] for row, _ in known]) for side in (0, 1))
    cosines, similarities = (x * y).sum(1).numpy(), [similarity for _, similarity in known]
    for what, values in (("judgements", np.array(similarities)), ("cosines", cosines)):
        if np.ptp(values) <= ROUNDING * np.abs(values).max():  # the correlation with what does not vary is undefined
            rule = f"a correlation is that of {what} which differ from pair to pair"
            raise InputError(rule, got=f"{values[0]:g} for each of {len(known):,} pairs")
    correlations: Any = {"spearman": stats.spearmanr, "pearson": stats.pearsonr}
    return {
        **{name: float(compute(similarities, cosines).statistic) for name, compute in correlations.items()},
        "out_of_vocabulary": 1 - len(known) / len(rows),
    }
