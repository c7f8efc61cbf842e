from collections.abc import Callable

import pytest

from neuropil.errors import InputError
from neuropil.inspection.neighbours import neighbours
from neuropil.inspection.report.attention import embedding_of
from neuropil.inspection.word_map import linear_map, word_map
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW = find_view("embeddings")


def test_words_are_answered_as_the_run_answers(text_run: Callable[[str], Run]):
    run = text_run("word2vec")
    assert ask(VIEW, "neighbours", run, {"word": "even", "count": 4})["neighbours"] == [
        list(each) for each in run.neighbours("even", count=4)
    ]
    assert ask(VIEW, "analogy", run, {"a": "even", "b": "2", "c": "3"})["answers"] == [
        list(each) for each in run.analogy("even", "2", "3", count=8)
    ]
    words = ["even", "odd", "is", "and"]
    assert ask(VIEW, "odd", run, {"words": words})["ranked"][-1][0] == run.odd_one_out(words)


def test_the_map_is_that_of_the_vectors(text_run: Callable[[str], Run]):
    run = text_run("word2vec")
    opened = ask(VIEW, "open", run, {})
    vectors = run.predictor.vectors
    assert opened["words"] == list(vectors.words)
    assert opened["places"] == linear_map(vectors.vectors).round(4).tolist()
    found = ask(VIEW, "layout", run, {"layout": "tsne"})["places"]
    assert found == word_map(vectors.vectors).round(4).tolist()


def test_the_tokens_of_a_language_model_have_neighbours(text_run: Callable[[str], Run]):
    run = text_run("gpt2")
    found = ask(VIEW, "neighbours", run, {"word": " is", "count": 1})["neighbours"][0]
    tokenizer, embedding = run.predictor.tokenizer, embedding_of(run.model)
    assert embedding is not None
    best = neighbours(embedding, tokenizer.encode([" is"])[0][0], 1)[0]
    assert found == [tokenizer.tokens([best.token])[0], pytest.approx(best.cosine, abs=1e-5)]


def test_an_unknown_word_is_refused_with_a_near_one(text_run: Callable[[str], Run]):
    run = text_run("word2vec")
    with pytest.raises(InputError) as refused:
        ask(VIEW, "neighbours", run, {"word": "evem"})
    known = f"{len(run.predictor.vectors):,}"
    assert str(refused.value) == (
        f"a word must be one of the vocabulary's {known}, but got 'evem': did you mean 'even'?"
    )
