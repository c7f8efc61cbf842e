"""word2vec's equations in plain PyTorch."""

import math

import torch
from torch.nn import functional as F

from neuropil.models.word2vec.network import (
    NO_WORD,
    FullSoftmax,
    Word2Vec,
    Word2VecConfig,
    negative_sampling_loss,
    share_below,
)


def trained_like(vocabulary_size: int = 7, width: int = 5) -> Word2Vec:
    torch.manual_seed(0)
    model = Word2Vec(Word2VecConfig(width=width, vocabulary_size=vocabulary_size))
    with torch.no_grad():
        model.input_vectors.normal_()
        model.output_vectors.normal_()
    return model


def test_the_context_vector_is_the_mean_over_the_words_that_are_there():
    model = trained_like()
    contexts = torch.tensor([[3, 3, 1], [2, NO_WORD, NO_WORD]])
    found = model.context_vectors(contexts)
    assert torch.allclose(found[0], (2 * model.input_vectors[3] + model.input_vectors[1]) / 3)
    assert torch.equal(found[1], model.input_vectors[2])


def test_scores_of_candidates_are_columns_of_the_scores_of_all_words():
    model = trained_like()
    contexts, words = torch.tensor([[0], [4]]), torch.tensor([[1, 2], [6, 0]])
    assert torch.allclose(model(contexts, words), model.all_scores(contexts).gather(1, words))


def test_the_base_model_is_a_softmax_over_one_hot_words():
    model = trained_like()
    contexts, target = torch.tensor([2, 5]), torch.tensor([1, 1])
    hidden = F.one_hot(contexts, 7).float() @ model.input_vectors
    chances = (hidden @ model.output_vectors.T).softmax(1)
    loss = FullSoftmax(model).loss({"input": contexts[:, None], "target": target})
    assert torch.allclose(loss, -chances[:, 1].log().mean())


def test_vectors_begin_near_zero_where_every_candidate_costs_ln_two():
    model = Word2Vec(Word2VecConfig(width=4, vocabulary_size=9))
    assert float(model.input_vectors.detach().abs().max()) <= 0.5 / 4
    words = torch.tensor([[3, 4, 5], [1, NO_WORD, 2]])
    loss = negative_sampling_loss(model(torch.tensor([[1], [2]]), words), words)
    assert torch.allclose(loss, math.log(2) * torch.tensor([3.0, 2.0]))


def test_negative_samples_below_the_true_word_are_counted_and_ties_are_half():
    scores, words = torch.tensor([[1.0, 0.0, 2.0, 1.0], [0.0, -1.0, 9.0, 9.0]]), torch.tensor([[5, 1, 2, 3]] * 2)
    words[1, 2:] = NO_WORD
    assert share_below(scores, words).tolist() == [0.5, 1.0]


def test_parameters_are_two_vectors_for_each_word():
    assert [str(row) for row in trained_like().parameter_table()] == ["v·d with v = 7, d = 5"] * 2
