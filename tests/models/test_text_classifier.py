"""The vote of a bag of words and bigrams and a recurrent network, against scikit-learn's TF-IDF."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor

from neuropil.models.text_classifier import BagOfBigrams, RecurrentTextClassifier, RecurrentTextClassifierConfig
from neuropil.protocols import PADDING, UNKNOWN

VOCABULARY, CLASSES = 12, 3
TEXTS = [[5, 6, 7, 5, 6], [6, 7], [UNKNOWN, 5, 6, UNKNOWN], [8, 9, 8, 9, 10], [7, 5]]
NUMBERS = r"\d+"


def padded(texts: list[list[int]]) -> Tensor:
    longest = max(map(len, texts))
    return torch.tensor([[*text, *[PADDING] * (longest - len(text))] for text in texts])


def counted(buckets: int = 4_096) -> BagOfBigrams:
    bag = BagOfBigrams(VOCABULARY, buckets, CLASSES)
    bag.count([padded(TEXTS[:2]), padded(TEXTS[2:])])
    return bag


def weighed(buckets: int = 4_096) -> BagOfBigrams:
    bag = counted(buckets)
    torch.manual_seed(0)
    bag.weight.normal_()
    bag.bias.normal_()
    return bag


def test_features_are_those_of_scikit_learns_tf_idf():
    """Of words, and of bigrams that two texts or more have: 5 6, 6 7 and 7 5, but neither 8 9, 9 8 nor 9 10."""
    bag = counted()
    bigrams = ["5 6", "6 7", "7 5"]
    words = [str(number) for number in range(UNKNOWN + 1, VOCABULARY)]
    reference = TfidfVectorizer(
        vocabulary=[*words, *bigrams], binary=True, ngram_range=(1, 2), norm="l2", token_pattern=NUMBERS
    )
    # What is unknown parts its neighbours, as a word does that no bigram has.
    expected = reference.fit_transform([" ".join(map(str, text)).replace("3", "99") for text in TEXTS]).toarray()
    features, phi = bag.features(padded(TEXTS))
    found = torch.zeros(len(TEXTS), len(bag.idf)).scatter_add(1, features, phi)
    assert int((found != 0).sum()) == int((expected != 0).sum())
    torch.testing.assert_close(found[:, UNKNOWN + 1 : VOCABULARY], torch.tensor(expected[:, : len(words)]).float())
    owned = bag.owner[bag.owner >= 0].sort().values  # in the order of the first words, as these bigrams are
    buckets = [VOCABULARY + int((bag.owner == bigram).nonzero()) for bigram in owned]
    torch.testing.assert_close(found[:, buckets], torch.tensor(expected[:, len(words) :]).float())


def test_a_bucket_belongs_to_the_most_frequent_of_its_bigrams():
    texts = [[5, 6], [5, 6], [7, 8], [7, 8], [7, 8], [9, 10]]
    bag = BagOfBigrams(VOCABULARY, 1, CLASSES)
    bag.count([padded(texts)])
    _, phi = bag.features(padded(texts))
    torch.testing.assert_close(bag.idf[-1], 1 + torch.tensor(7 / 4).log())
    assert [(row != 0).sum().item() for row in phi] == [2, 2, 3, 3, 3, 2]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(UNKNOWN, VOCABULARY - 1), max_size=9), st.integers(0, 4))
def test_the_bag_counts_what_occurs_once_and_no_padding(text: list[int], padding: int):
    bag = weighed()
    alone = bag(torch.tensor([[*text, PADDING]]))
    torch.testing.assert_close(bag(torch.tensor([[*text, *[PADDING] * (padding + 1)]])), alone)
    again = bag(torch.tensor([[*text, UNKNOWN, *text, PADDING]]))  # the unknown token makes no bigram
    torch.testing.assert_close(again, alone)


def test_texts_of_one_word_are_counted_by_themselves_as_they_are_among_longer_ones():
    words, longer = padded([[5], [6], [5]]), padded(TEXTS)
    alone, among = (BagOfBigrams(VOCABULARY, 64, CLASSES) for _ in range(2))
    alone.count([words, longer])
    among.count([padded([[5], [6], [5], *TEXTS])])
    torch.testing.assert_close(alone.idf, among.idf)
    features, phi = alone.features(words)
    assert torch.equal(features, words)
    assert torch.equal(phi, torch.ones(3, 1))


def test_a_text_of_unknown_words_has_the_bias_alone():
    bag = weighed()
    torch.testing.assert_close(bag(torch.tensor([[UNKNOWN, UNKNOWN, PADDING]])), bag.bias[None])


def model_of(**options: Any) -> RecurrentTextClassifier:
    torch.manual_seed(0)
    config = RecurrentTextClassifierConfig(
        vocabulary_size=VOCABULARY, output_size=CLASSES, hidden_size=4, embedding_size=4, bigrams=64, **options
    )
    model = RecurrentTextClassifier(config)
    if config.bag:
        model.bag.count([padded(TEXTS)])
        model.bag.weight.normal_()
    return model.eval()


def test_the_two_vote_by_their_shares():
    model, tokens = model_of(), padded(TEXTS)
    u, v = model.bag(tokens), model.network(tokens)
    for share in (0.0, 0.3, 1.0):
        model.share.fill_(share)
        torch.testing.assert_close(model(tokens), (1 - share) * u + share * v)


def test_while_it_learns_the_network_answers_alone():
    model, tokens = model_of(), padded(TEXTS)
    alone = model.network(tokens)
    assert not torch.allclose(model(tokens), alone)
    torch.testing.assert_close(model.train()(tokens), alone)  # it has no dropout here
    assert not any(parameter.requires_grad for parameter in model.bag.parameters())


def test_without_a_bag_it_is_the_network():
    model, tokens = model_of(bag=False), padded(TEXTS)
    assert torch.equal(model(tokens), model.network(tokens))
    assert not [name for name in model.state_dict() if not name.startswith("network.")]


@pytest.mark.parametrize("right", ["bag", "network"])
def test_the_share_goes_to_the_one_that_is_right(right: str):
    model, tokens = model_of(), padded(TEXTS)
    with torch.no_grad():
        model.network.output.weight.mul_(100)
    target = getattr(model, right)(tokens).argmax(-1)
    model.fit_share([{"input": tokens[:2], "target": target[:2]}, {"input": tokens[2:], "target": target[2:]}])
    losses = []
    for share in torch.linspace(0, 1, 101):
        model.share.fill_(share)
        losses.append(torch.nn.functional.cross_entropy(model(tokens), target))
    best = torch.stack(losses).argmin() / 100
    model.fit_share([{"input": tokens, "target": target}])
    assert (model.share > 0.5) == (right == "network")
    assert abs(model.share - best) <= 0.05
