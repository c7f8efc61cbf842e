from pathlib import Path

import numpy as np
import pytest
import torch

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.copies import TRAINING_FILE, Keyed, save_hashes, training_copies
from neuropil.data.corpus.dataset import Passages
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.films.dataset import Films
from neuropil.data.labelled_texts.dataset import LabelledTexts
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.series.dataset import Series, SeriesTable
from neuropil.data.series.steps import TimeStep
from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.errors import RunError

ROWS = Schema(kind="table", shape=(2,), classes=("a", "b"))
PICTURES = torch.arange(48, dtype=torch.uint8).reshape(3, 1, 4, 4)


def texts(*some: str) -> LabelledTexts:
    return LabelledTexts(some, torch.zeros(len(some), dtype=torch.int64), ("a",), "")


def films(*lengths: int) -> Films:
    count = sum(lengths)
    frames, positions = PICTURES[:count], torch.zeros(count, 2)
    names = [str(number) for number in range(len(lengths))]
    hidden = torch.zeros(count, dtype=torch.bool)
    return Films(frames, torch.tensor(lengths), positions, hidden, names, (4, 4), "")


def series(values: list[float], first: str | None = "2020-01-01") -> SeriesTable:
    begin = None if first is None else np.datetime64(first, "s")
    step = TimeStep() if first is None else TimeStep(count=86_400, unit="second")
    return SeriesTable((Series("", 0, np.array(values), np.zeros((len(values), 0))),), step, begin, "sales")


@pytest.mark.parametrize(
    ("learned", "scored", "sentence"),
    [
        (texts("Good film", "bad"), texts("good  FILM", "fine"), "1 of 2 texts was"),
        (
            Pairs(["a b", "c"], ["x", "y"], (), ""),
            Pairs(["A  b", "c", "d"], ["other", "y", "z"], (), ""),
            "2 of 3 pairs were",
        ),
        (
            TaggedTexts([["New", "York"]], [["B", "I"]], (), "words", ""),
            TaggedTexts([["new", "york"], ["Rome"]], [["B", "I"], ["B"]], (), "words", ""),
            "1 of 2 texts was",
        ),
        (
            Examples(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1]), ROWS, ""),
            Examples(torch.tensor([[3.0, 4.0], [3.0, 5.0]]), torch.tensor([0, 1]), ROWS, ""),
            "1 of 2 examples was",
        ),
        (
            CaptionedPictures(PICTURES[:2], [["a"], ["b"]], (), ""),
            CaptionedPictures(PICTURES[1:], [["c"], ["d"]], (), ""),
            "1 of 2 pictures was",
        ),
        (films(1, 2), films(1, 1), "1 of 2 films was"),
        (series([1.0, 2.0, np.nan, 3.0]), series([1.0, 2.0, 2.5, 3.5]), "2 of 4 values were"),
        (series([1.0, 2.0], None), series([2.0, 2.0], None), "1 of 2 values was"),
        (
            Passages("To be, or not to be, that is the question.\n}\nWhether 'tis nobler in the mind to suffer"),
            Passages("to be, or not to be, that is  the question.  Something else that Hamlet never said.\n}\n"),
            "1 of 2 passages was",
        ),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Keyed) else "",
)
def test_examples_that_were_trained_on_are_counted(tmp_path: Path, learned: Keyed, scored: Keyed, sentence: str):
    save_hashes(tmp_path, learned.keys)
    assert training_copies(tmp_path, scored) == f"{sentence} in the training part of this run."


def test_other_examples_and_runs_that_kept_no_hashes_need_no_word(tmp_path: Path):
    assert training_copies(tmp_path, texts("a")) == ""
    save_hashes(tmp_path, texts("a", "b").keys)
    assert training_copies(tmp_path, texts("c")) == training_copies(tmp_path, texts()) == ""


def test_an_example_costs_eight_bytes_and_its_copies_none(tmp_path: Path):
    save_hashes(tmp_path, [str(number % 1_000) for number in range(5_000)])
    assert (tmp_path / TRAINING_FILE).stat().st_size == 128 + 8 * 1_000
    assert np.load(tmp_path / TRAINING_FILE, allow_pickle=False).dtype == np.uint64


def test_values_of_a_series_after_the_training_part_are_not_learned():
    assert series([1.0, np.nan, 3.0, 4.0]).keys_before(3) == [
        "\t2020-01-01 00:00:00\t1.0",
        "\t2020-01-03 00:00:00\t3.0",
    ]
    assert series([1.0, 2.0]).keys_before(-1) == []


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", np.arange(3.0).tobytes()])
def test_damaged_hashes_are_refused(tmp_path: Path, content: bytes):
    path, fix = tmp_path / TRAINING_FILE, "restore it, or remove it to do without"
    path.write_bytes(content)
    with pytest.raises(RunError) as error:
        training_copies(tmp_path, texts("a"))
    sentence = f"{path} must be the array that neuropil wrote, but got a damaged file: {fix}."
    assert str(error.value) == sentence
    with path.open("wb") as file:
        np.save(file, np.arange(3.0))
    with pytest.raises(RunError) as error:
        training_copies(tmp_path, texts("a"))
    assert str(error.value) == sentence
