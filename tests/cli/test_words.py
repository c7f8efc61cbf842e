"""Word vectors of a file, from the command line."""

import json
from pathlib import Path

import pytest
import torch

import neuropil
from command_line import printed_and_complained, said
from neuropil.errors import InputError
from neuropil.pretrained.word_vectors import read_vectors, write_vectors

WORDS = ["man", "woman", "king", "queen", "apple"]
VECTORS = torch.tensor([[0.0, 1.0, 0.1], [0.0, -1.0, 0.1], [1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.fixture
def file(tmp_path: Path) -> str:
    write_vectors(tmp_path / "vectors.bin.gz", WORDS, VECTORS)
    return str(tmp_path / "vectors.bin.gz")


def test_neighbours_are_printed_with_their_cosines(file: str, capsys: pytest.CaptureFixture[str]):
    assert said(capsys, "neighbours", file, "king", "--count", "1") == "word\tcosine\nman\t0.7036\n"
    added = said(capsys, "neighbours", file, "king", "woman", "--negative", "man", "--count", "1", "--json")
    assert json.loads(added)["word"] == "queen"


def test_the_vocabulary_can_be_restricted(file: str, capsys: pytest.CaptureFixture[str]):
    shown = said(capsys, "neighbours", file, "king", "--vocabulary-size", "3")
    assert [line.split("\t")[0] for line in shown.splitlines()] == ["word", "man", "woman"]


def test_analogies_are_completed(file: str, capsys: pytest.CaptureFixture[str]):
    assert said(capsys, "analogy", file, "king", "man", "woman").splitlines()[1].split("\t")[0] == "queen"


def test_the_odd_one_out_is_printed_first(file: str, capsys: pytest.CaptureFixture[str]):
    assert said(capsys, "odd-one-out", file, "man", "king", "apple").splitlines()[:2] == [
        "apple",
        "word\tcosine with all",
    ]
    found = json.loads(said(capsys, "odd-one-out", file, "man", "king", "apple", "--json"))
    assert found["odd_one_out"] == min(found["cosines"], key=found["cosines"].get) == "apple"


def test_an_unknown_word_gets_one_sentence(file: str, capsys: pytest.CaptureFixture[str]):
    assert said(capsys, "analogy", file, "king", "man", "womn", code=2) == (
        "neuropil: a word must be one of the vocabulary's 5, but got 'womn': did you mean 'woman'?"
    )
    assert said(capsys, "neighbours", file, code=2) == (
        f"neuropil: neuropil neighbours needs a word, but got none: neuropil neighbours {file} king."
    )


def test_a_file_is_evaluated_on_test_sets(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    analogies, pairs = tmp_path / "questions.txt", tmp_path / "pairs.tsv"
    analogies.write_text(": royal\nman king woman queen\nman king woman pear\n")
    pairs.write_text("man\tking\t7\nman\twoman\t1\napple\tapple\t10\n")
    assert said(capsys, "evaluate", file, "--data", str(analogies)) == (
        "metric\tvalue\naccuracy\t100.00 %\nout_of_vocabulary\t50.00 %\naccuracy_of_royal\t100.00 %\n"
    )
    assert json.loads(said(capsys, "evaluate", file, "--data", str(pairs), "--json"))["spearman"] == pytest.approx(1)
    assert said(capsys, "evaluate", file, code=2) == (
        "neuropil: word vectors are evaluated on a test set, but got none: add --data questions-words.txt."
    )


def test_a_file_is_written_in_another_format(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "glove.txt"
    assert said(capsys, "export", file, "--format", "glove", "--out", str(out), "--vocabulary-size", "2") == f"{out}\n"
    assert out.read_text() == "man 0.0 1.0 0.1\nwoman 0.0 -1.0 0.1\n"
    said(capsys, "export", file, "--out", str(tmp_path / "again.bin"))
    assert torch.equal(read_vectors(tmp_path / "again.bin")[1], VECTORS)
    assert said(capsys, "export", file, "--format", "glove", code=2) == (
        "neuropil: word vectors are exported to a file, but got none: add --out vectors.txt."
    )
    assert said(capsys, "export", file, "--format", "glove", "--out", str(tmp_path / "a.onnx"), code=2) == (
        "neuropil: the name of an exported file must fit its format, but got 'a.onnx' for glove: "
        "call it a.txt, or export it as onnx."
    )


def test_words_that_repeat_are_said_beside_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "v.txt").write_text("a 1 0\nb 1 1\nb 2 2\n")
    printed, complained = printed_and_complained(capsys, "neighbours", str(tmp_path / "v.txt"), "a")
    assert printed == "word\tcosine\nb\t0.7071\n"
    assert complained == "neuropil: 1 of 3 words of v.txt repeats an earlier one and is left out (first: word 3).\n"


def test_python_opens_a_file_in_one_line(file: str):
    opened = neuropil.open(file)
    assert opened.analogy("king", "man", "woman")[0].word == "queen"
    assert opened.model(torch.tensor([4])).tolist() == [[0, 0, 1]]
    assert neuropil.open(file, vocabulary_size=2).words == ["man", "woman"]
    with pytest.raises(InputError) as error:
        neuropil.open(file, vocabulary_size=0)
    assert str(error.value) == "vocabulary_size must be at least 1, but got 0."
