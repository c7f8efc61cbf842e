"""BERT: the published sizes, its heads, what fills up, and the end of the context."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.bert import BERT, SIZES, BERTClassifier, BERTConfig, MaskedBERT, mean_of
from neuropil.parts.parameters import count_parameters

CONFIG = BERTConfig(width=24, heads=3, layers=2, feed_forward=40, context=16, vocabulary_size=31, classes=4)


@pytest.mark.parametrize(("size", "published"), [("base", 109_482_240), ("large", 335_141_888), ("minilm", 22_713_216)])
def test_sizes_have_as_many_parameters_as_published(size: str, published: int):
    with torch.device("meta"):
        model = BERT(SIZES[size])
    assert count_parameters(model) == published
    assert sum(row.count for row in model.parameter_table()) == published


@pytest.mark.parametrize("kind", [BERT, MaskedBERT, BERTClassifier])
@pytest.mark.parametrize("pooler", [True, False])
def test_tables_count_every_parameter(kind: type[BERT], pooler: bool):
    model = kind(dataclasses.replace(CONFIG, pooler=pooler or kind is BERTClassifier))
    assert sum(row.count for row in model.parameter_table()) == count_parameters(model)


def test_what_fills_up_changes_nothing():
    torch.manual_seed(0)
    model = BERT(CONFIG).eval()
    tokens = torch.randint(31, (2, 9))
    mask = torch.arange(9) < torch.tensor([[9], [5]])
    hidden = model(tokens, mask)
    assert (hidden[1, :5] - model(tokens[1:, :5])[0]).abs().max() < 1e-5
    other = torch.where(mask, tokens, (tokens + 3) % 31)
    assert torch.equal(model(other, mask)[mask], hidden[mask])


def test_without_segments_all_tokens_are_of_the_first():
    model = BERT(CONFIG).eval()
    tokens = torch.randint(31, (2, 9))
    assert torch.equal(model(tokens), model(tokens, segments=torch.zeros_like(tokens)))
    assert not torch.equal(model(tokens), model(tokens, segments=torch.ones_like(tokens)))


def test_sentences_are_means_over_their_tokens_of_unit_length():
    hidden, mask = torch.randn(2, 5, 7), torch.arange(5) < torch.tensor([[5], [2]])
    means = mean_of(hidden, mask)
    assert torch.allclose(means[1], F.normalize(hidden[1, :2].mean(0), dim=0), atol=1e-6)
    assert torch.allclose(means[0], F.normalize(hidden[0].mean(0), dim=0), atol=1e-6)
    assert not mean_of(hidden, torch.zeros_like(mask)).isnan().any()


def test_logits_of_a_few_places_are_those_of_all():
    model = MaskedBERT(CONFIG).eval()
    tokens = torch.randint(31, (2, 9))
    chosen = torch.rand(2, 9) < 0.3
    assert torch.allclose(model.logits(model.bert(tokens)[chosen]), model(tokens)[chosen], atol=1e-6)


def test_a_text_that_is_longer_than_the_context_is_refused():
    with pytest.raises(InputError) as error:
        BERT(CONFIG)(torch.zeros(1, 17, dtype=torch.int64))
    assert str(error.value) == "the context length of this model is 16 tokens, but got 17: shorten the text."


def test_a_classifier_without_classes_is_refused():
    with pytest.raises(InputError) as error:
        BERTClassifier(dataclasses.replace(CONFIG, classes=0))
    assert str(error.value) == "a classifier tells one class or more apart, but got classes=0."
