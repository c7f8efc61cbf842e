"""The fit of a bag of words and bigrams, against scikit-learn's logistic regression."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from neuropil.data.batches import EncodedTexts, Sequences
from neuropil.models.text_classifier import BagOfBigrams
from neuropil.tasks.text_classification.bag import STRENGTHS, WITHOUT_VALIDATION, design, fit_bag
from neuropil.tasks.texts import in_order

VOCABULARY = 30


def texts_of(classes: int, count: int, seed: int, *, first: int = 0) -> EncodedTexts:
    """A class prefers some tokens."""
    generator = np.random.default_rng(seed)
    targets = generator.integers(first, classes, count)
    texts = [
        generator.choice(np.arange(4, VOCABULARY), generator.integers(3, 9), p=preferences(target)).tolist()
        for target in targets
    ]
    return EncodedTexts(Sequences.of(texts), torch.from_numpy(targets))


def preferences(target: int) -> np.ndarray:
    share = np.ones(VOCABULARY - 4)
    share[target::4] += 3
    return share / share.sum()


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_scikit_learns_of_the_strength_with_the_least_validation_loss(classes: int):
    train, validation = texts_of(classes, 120, 0), texts_of(classes, 60, 1)
    bag = BagOfBigrams(VOCABULARY, 64, classes)
    fit_bag(bag, train, validation)
    (x, y, _), (held_out, answers, _) = design(bag, train), design(bag, validation)
    models = [LogisticRegression(C=strength, tol=1e-5, max_iter=300).fit(x, y.numpy()) for strength in STRENGTHS]
    losses = [-np.log(model.predict_proba(held_out)[np.arange(60), answers]).mean() for model in models]
    assert len({*np.round(losses, 3)}) == len(STRENGTHS)
    expected = models[int(np.argmin(losses))].predict_log_proba(held_out)
    ours = torch.cat([bag(batch["input"]) for batch in in_order(validation, bag.bias.device).epoch(0)])
    torch.testing.assert_close(ours.log_softmax(-1), torch.from_numpy(expected).float(), atol=1e-4, rtol=1e-4)


def test_without_a_validation_part_there_is_one_strength():
    train, none = texts_of(3, 120, 0), texts_of(3, 120, 0).take(torch.arange(0))
    bag = BagOfBigrams(VOCABULARY, 64, 3)
    fit_bag(bag, train, none)
    x, y, _ = design(bag, train)
    model = LogisticRegression(C=WITHOUT_VALIDATION[0], tol=1e-5, max_iter=300).fit(x, y.numpy())
    torch.testing.assert_close(bag.weight, torch.from_numpy(model.coef_.T).float())


def test_a_class_without_a_training_text_is_never_predicted():
    train = texts_of(4, 120, 0, first=1)
    bag = BagOfBigrams(VOCABULARY, 64, 5)
    fit_bag(bag, train, texts_of(5, 60, 1))
    probabilities = bag(texts_of(5, 200, 2).inputs.padded(torch.arange(200))).softmax(-1)
    assert probabilities[:, [0, 4]].max() < probabilities.amax(-1).min()


def test_weights_of_texts_are_those_of_scikit_learn():
    train, none = texts_of(3, 120, 0), texts_of(3, 120, 0).take(torch.arange(0))
    train = replace(train, weights=torch.arange(120.0) % 4)
    bag = BagOfBigrams(VOCABULARY, 64, 3)
    fit_bag(bag, train, none)
    x, y, weights = design(bag, train)
    assert weights is not None
    relative = (weights / weights.mean()).numpy()  # so that the penalty does not follow their size
    theirs = LogisticRegression(C=WITHOUT_VALIDATION[0], tol=1e-5, max_iter=300).fit(x, y.numpy(), relative)
    np.testing.assert_allclose(bag.bias.numpy(), theirs.intercept_, rtol=1e-3, atol=1e-3)
