import torch

from neuropil.data.tokenizers.learned import learn_merges
from neuropil.inspection.neighbours import neighbours
from neuropil.tasks.word_vectors.tokens import spelling, token_vectors


def test_tokens_have_the_neighbours_of_the_embedding():
    tokenizer = learn_merges(["a list of lists, and a list of a list"] * 5, 280)
    embedding = torch.randn(len(tokenizer) + 8, 6, generator=torch.Generator().manual_seed(0))
    vectors = token_vectors(tokenizer, embedding)
    assert len(vectors) < len(tokenizer), "bytes that are no character alone look alike"
    number = tokenizer.encode([" list"])[0][0]
    found = [each.cosine for each in vectors.neighbours(" list", count=3)]
    known = {
        tokenizer.tokens([each.token])[0]: each.cosine for each in neighbours(embedding, number, len(embedding) - 1)
    }
    assert all(abs(known[each.word] - each.cosine) < 1e-6 for each in vectors.neighbours(" list", count=3)), found


def test_a_word_is_spelled_as_the_vocabulary_has_it():
    tokenizer = learn_merges(["a list of lists, and a list of a list"] * 5, 280)
    vectors = token_vectors(tokenizer, torch.randn(len(tokenizer), 4, generator=torch.Generator().manual_seed(0)))
    assert spelling(vectors, "List") == " list"
    assert spelling(vectors, "a") == "a"
    assert spelling(vectors, "nowhere") == "nowhere"
