"""How good translations are: the share that is exactly right, and sacrebleu's chrF and BLEU."""

from collections.abc import Sequence

from neuropil.data.pairs.dataset import Pairs

WORDS_FOR_BLEU = 2
"""Words that references have on average, at least."""
LARGEST_MEMORY = 50_000
"""Training pairs that the look-up is made from, at most."""


def score_translations(translations: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """`exact_accuracy` from 0 to 1, `chrf` and `bleu` from 0 to 100, over the whole corpus. BLEU counts sequences of up
    to four words, or as many as the longest text has (effective order); there is none where the references are single
    words, as dates are."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    exact = sum(ours == theirs for ours, theirs in zip(translations, references, strict=True)) / len(references)
    scores = {"exact_accuracy": exact, "chrf": CHRF().corpus_score(list(translations), [list(references)]).score}
    if sum(len(reference.split()) for reference in references) > WORDS_FOR_BLEU * len(references):
        scores["bleu"] = BLEU(effective_order=True).corpus_score(list(translations), [list(references)]).score
    return scores


def nearest_pair(train: Pairs, sources: Sequence[str]) -> list[str]:
    """For each source the target of the training pair whose source shares the most rare pieces of up to four letters
    with it."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    known = list(train.sources[:LARGEST_MEMORY])
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 4), lowercase=False, max_features=100_000)
    memory = vectorizer.fit_transform(known).T.tocsc()
    found: list[str] = []
    for start in range(0, len(sources), 200):
        similarity = vectorizer.transform(sources[start : start + 200]) @ memory
        found += map(train.targets.__getitem__, similarity.toarray().argmax(1).tolist())
    return found
