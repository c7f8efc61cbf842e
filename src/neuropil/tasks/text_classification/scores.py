"""What a reader of texts must beat: counting words, and the answer that is right most often."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.labelled_texts.dataset import LabelledTexts
from neuropil.data.splits import Splits
from neuropil.data.tokenizers.learned import Kind
from neuropil.tasks.experiment import Result

STRENGTHS = (1.0, 10.0, 100.0)
"""1/λ of the logistic regression; the validation part says which."""
LARGEST = 50_000
WORDS = r"\w+|[^\w\s]"
"""Single letters and punctuation too, which scikit-learn would leave out and a network reads."""


def classifiers(splits: Splits[LabelledTexts], tokens: Kind) -> list[Result]:
    """Scores on the test part of what learned from the training part; of a large one from its first texts, and the name
    says so."""
    train, test = splits.train, splits.test
    note = ""
    if len(train) > LARGEST:
        train, note = train.take(torch.arange(LARGEST)), f" (on {LARGEST:,} texts)"
    predict = count_words(train, splits.validation, tokens)
    most_frequent = train.targets.mode().values
    return [
        Result(f"TF-IDF and logistic regression{note}", {"accuracy": _share(predict(test.texts) == test.targets)}),
        Result("always the most frequent class", {"accuracy": _share(test.targets == most_frequent)}),
    ]


def count_words(
    train: LabelledTexts, validation: LabelledTexts, tokens: Kind
) -> Callable[[Sequence[str]], Int64[Tensor, " text"]]:
    """Logistic regression on weighted counts: of words, or, where a model reads letters, of up to four letters in a
    row."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    if tokens == "characters":
        vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 4), sublinear_tf=True, max_features=200_000)
    else:
        vectorizer = TfidfVectorizer(token_pattern=WORDS, sublinear_tf=True)
    counts = vectorizer.fit_transform(train.texts)

    def fit(strength: float) -> Any:
        return LogisticRegression(C=strength, max_iter=300, tol=1e-3).fit(counts, train.targets.numpy())

    def predict(model: Any, texts: Sequence[str]) -> Int64[Tensor, " text"]:
        return torch.from_numpy(model.predict(vectorizer.transform(texts)))

    if not len(validation):
        model = fit(STRENGTHS[0])
        return lambda texts: predict(model, texts)
    models = map(fit, STRENGTHS)
    best = max(models, key=lambda model: _share(predict(model, validation.texts) == validation.targets))
    return lambda texts: predict(best, texts)


def _share(correct: Tensor) -> float:
    return correct.double().mean().item()
