"""Word vectors as a run keeps them, and as a file has them."""

from pathlib import Path

import pytest
import torch
from torch import nn

from neuropil.errors import RunError
from neuropil.tasks.predictor import ComparesWords, Evaluates
from neuropil.tasks.word_vectors.predictor import WordVectorPredictor
from neuropil.training.weights import load_model, save_model

WORDS = ["the", "new\u00a0york", "İstanbul", "cat"]


class TwoTables(nn.Module):
    """What a trained model of word vectors has."""

    def __init__(self) -> None:
        super().__init__()
        self.input_vectors, self.output_vectors = (nn.Parameter(torch.randn(4, 3)) for _ in range(2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [f"{word}\t{count}\n" for word, count in zip(WORDS, (40, 30, 20, 10), strict=True)]
    (tmp_path / "vocabulary.tsv").write_text("".join(lines), encoding="utf-8")
    return tmp_path


def test_a_run_is_restored_before_its_weights_are_loaded(folder: Path):
    torch.manual_seed(0)
    trained = TwoTables()
    save_model(folder / "model.safetensors", trained)
    predictor = WordVectorPredictor.restore(TwoTables(), {}, folder)
    load_model(folder / "model.safetensors", predictor.model)
    assert predictor.words == WORDS
    assert predictor.counts == [40, 30, 20, 10]
    assert torch.equal(predictor.vectors["cat"], trained.input_vectors[3])
    expected = nn.functional.cosine_similarity(*trained.input_vectors[[1, 2]].detach(), dim=0)
    assert predictor.similarity("new\u00a0york", "İstanbul") == pytest.approx(float(expected), abs=1e-6)


def test_vectors_of_a_file_are_an_embedding_of_torch_that_shares_their_memory():
    vectors = torch.randn(4, 3)
    predictor = WordVectorPredictor.of(WORDS, vectors)
    assert isinstance(predictor.model, nn.Embedding)
    assert predictor.vectors.vectors.data_ptr() == vectors.data_ptr()
    assert [each.word for each in predictor.most_frequent(2).neighbours("the")] == ["new\u00a0york"]


def test_it_compares_words_and_is_scored():
    assert issubclass(WordVectorPredictor, ComparesWords)
    assert issubclass(WordVectorPredictor, Evaluates)


def test_a_test_set_is_read_and_scored(tmp_path: Path):
    (tmp_path / "pairs.tsv").write_text("the\tcat\t1\nthe\tthe\t10\nthe\tİSTANBUL\t2\n", encoding="utf-8")
    predictor = WordVectorPredictor.of(WORDS, torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 1.0], [0.0, -1.0]]))
    scores = predictor.evaluate(predictor.read_labelled([tmp_path / "pairs.tsv"]))
    assert scores["spearman"] == pytest.approx(1)
    assert scores["out_of_vocabulary"] == 0


def test_a_damaged_vocabulary_is_refused_in_one_sentence(folder: Path):
    (folder / "vocabulary.tsv").write_text("the\t3\nof two\n")
    with pytest.raises(RunError) as error:
        WordVectorPredictor.restore(TwoTables(), {}, folder)
    path = folder / "vocabulary.tsv"
    assert str(error.value) == (
        f"line 2 of {path} must be a word, a tab and its count, but got 'of two': restore it or train again."
    )
    path.write_text("the\t3\n")
    with pytest.raises(RunError) as error:
        WordVectorPredictor.restore(TwoTables(), {}, folder)
    assert str(error.value) == (
        f"{path} must hold a word for each of the 4 vectors, but got 1 words: restore it or train again."
    )
    path.unlink()
    with pytest.raises(RunError) as error:
        WordVectorPredictor.restore(TwoTables(), {}, folder)
    assert str(error.value) == (
        f"{folder} must hold vocabulary.tsv, but got a run without it: restore it or train again."
    )
