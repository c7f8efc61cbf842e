import numpy as np
import torch

from data.written_files import refusal
from neuropil.inspection import pictures
from neuropil.inspection.pictures.texts import Development
from neuropil.inspection.report.svg import figure_svg


def test_accuracy_is_drawn_for_groups_of_like_length_that_are_equally_large():
    lengths = torch.arange(60).flip(0) + 1
    correct = lengths <= 30
    (axes,) = pictures.accuracy_by_length(lengths, correct, groups=3).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "1–20\n20 texts",
        "21–40\n20 texts",
        "41–60\n20 texts",
    ]
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata(), dtype=float), [100, 50, 0])


def test_bars_stay_between_nothing_and_all():
    (axes,) = pictures.accuracy_by_length(np.ones(9, dtype=int), np.ones(9, dtype=bool)).axes
    low, high = axes.dataLim.y0, axes.dataLim.y1
    assert 0 <= low < 100 == high


def test_few_texts_are_few_groups():
    (axes,) = pictures.accuracy_by_length(torch.tensor([3, 5]), torch.tensor([True, False])).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3\n1 texts", "5\n1 texts"]


def test_the_likeliest_classes_are_drawn_over_the_words_of_each_text():
    sure = torch.tensor([[0.2, 0.7, 0.1, 0.0], [0.6, 0.3, 0.1, 0.0], [0.9, 0.05, 0.03, 0.02]])
    figure = pictures.class_by_word(
        [Development("first", ["a", " ", "c"], sure), Development("second", ["d"], sure[:1])], list("wxyz")
    )
    first, second = figure.axes
    assert [label.get_text() for label in first.get_xticklabels()] == ["a", "␣", "c"]
    assert first.get_legend_handles_labels()[1] == ["w", "x", "y"]
    np.testing.assert_allclose(np.asarray(first.lines[0].get_ydata(), dtype=float), [20, 60, 90], rtol=1e-5)
    assert second.get_title(loc="left") == "second"


def test_long_texts_are_drawn_from_their_end():
    figure = pictures.class_by_word(
        [Development("long", [f"w{n}" for n in range(200)], torch.full((200, 2), 0.5))], ["a", "b"]
    )
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels[-1] == "w199"
    assert len(labels) == 60


def test_words_of_any_script_stay_text():
    svg = figure_svg(
        pictures.class_by_word([Development("$x$ <b>", ["یکشنبه", "$5"], torch.full((2, 2), 0.5))], ["a", "b"])
    )
    assert "یکشنبه" in svg
    assert "$5" in svg
    assert "<b>" not in svg


def test_nothing_cannot_be_drawn():
    assert (
        refusal(pictures.class_by_word, [], ["a"])
        == "a picture of how an answer develops needs at least one text, but got none."
    )
    assert refusal(
        pictures.accuracy_by_length, torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.bool)
    ) == ("a picture of accuracy by length needs at least one text, but got none.")
