import numpy as np
import pytest
import torch

from data.written_files import refusal
from neuropil.errors import InputError
from neuropil.inspection.pictures.texts import (
    Development,
    accuracy_by_length,
    attention_matrix,
    class_by_word,
    gate_maps,
    logit_lens,
)
from neuropil.inspection.report.svg import figure_svg


def test_the_map_shows_the_chosen_units_over_the_tokens_that_were_read():
    gates = {"forget": torch.rand(5, 8), "c": 3 * torch.randn(5, 8)}
    rows = {"forget": [(3, "inside quotes"), (0, "")], "c": [(7, "digit")]}
    figure = gate_maps(gates, list("ab\nc "), rows)
    forget, memory = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert forget.get_title(loc="left") == "forget gate"
    assert memory.get_title(loc="left") == "cell state c"
    np.testing.assert_allclose(np.asarray(forget.images[0].get_array()), gates["forget"][:, [3, 0]].T)
    assert [label.get_text() for label in forget.get_yticklabels()] == ["inside quotes  3", "0"]
    assert [label.get_text() for label in memory.get_xticklabels()] == ["a", "b", "⏎", "c", "␣"]
    assert forget.images[0].get_clim() == (0, 1)
    low, high = memory.images[0].get_clim()
    assert -low == high >= float(gates["c"][:, 7].abs().max())


def test_without_a_gate_there_is_no_picture():
    with pytest.raises(InputError) as error:
        gate_maps({}, [], {})
    assert str(error.value) == "a picture of gates needs a gate and units to show, but got 0 gates."


LIKELIEST = [["a", "b"], [" the", "b"], ["cat", "$x$"]]


def test_every_cell_says_what_is_likeliest_and_how_likely():
    shares = torch.tensor([[0.1, 0.2], [0.3, 0.9], [0.75, 1.0]])
    axes = logit_lens(shares, LIKELIEST, ["It", " is"]).axes[0]
    texts = {(int(text.get_position()[0]), int(text.get_position()[1])): text for text in axes.texts}
    assert [texts[0, layer].get_text() for layer in range(3)] == ["a\n10 %", "␣the\n30 %", "cat\n75 %"]
    assert texts[1, 2].get_text() == "$x$\n100 %"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["embedding", "block 1", "block 2"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["It", "␣is"]
    assert texts[0, 2].get_fontweight() == "bold"
    assert texts[0, 0].get_fontweight() == "normal"


def test_the_last_layer_is_on_top():
    low, high = logit_lens(torch.rand(3, 2), LIKELIEST, ["a", "b"]).axes[0].get_ylim()
    assert low < high


def test_a_text_without_tokens_is_refused():
    with pytest.raises(InputError) as error:
        logit_lens(torch.zeros(3, 0), [[], [], []], [])
    assert str(error.value) == "a picture of layers needs at least one token, but got none."


def test_accuracy_is_drawn_for_groups_of_like_length_that_are_equally_large():
    lengths = torch.arange(60).flip(0) + 1
    correct = lengths <= 30
    (axes,) = accuracy_by_length(lengths, correct, groups=3).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "1–20\n20 texts",
        "21–40\n20 texts",
        "41–60\n20 texts",
    ]
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata(), dtype=float), [100, 50, 0])


def test_bars_stay_between_nothing_and_all():
    (axes,) = accuracy_by_length(np.ones(9, dtype=int), np.ones(9, dtype=bool)).axes
    low, high = axes.dataLim.y0, axes.dataLim.y1
    assert 0 <= low < 100 == high


def test_few_texts_are_few_groups():
    (axes,) = accuracy_by_length(torch.tensor([3, 5]), torch.tensor([True, False])).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3\n1 text", "5\n1 text"]


def test_the_likeliest_classes_are_drawn_over_the_words_of_each_text():
    sure = torch.tensor([[0.2, 0.7, 0.1, 0.0], [0.6, 0.3, 0.1, 0.0], [0.9, 0.05, 0.03, 0.02]])
    figure = class_by_word(
        [Development("first", ["a", " ", "c"], sure), Development("second", ["d"], sure[:1])], list("wxyz")
    )
    first, second = figure.axes
    assert [label.get_text() for label in first.get_xticklabels()] == ["a", "␣", "c"]
    assert first.get_legend_handles_labels()[1] == ["w", "x", "y"]
    np.testing.assert_allclose(np.asarray(first.lines[0].get_ydata(), dtype=float), [20, 60, 90], rtol=1e-5)
    assert second.get_title(loc="left") == "second"


def test_long_texts_are_drawn_from_their_end():
    figure = class_by_word([Development("long", [f"w{n}" for n in range(200)], torch.full((200, 2), 0.5))], ["a", "b"])
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels[-1] == "w199"
    assert len(labels) == 60


def test_words_of_any_script_stay_text():
    svg = figure_svg(class_by_word([Development("$x$ <b>", ["یکشنبه", "$5"], torch.full((2, 2), 0.5))], ["a", "b"]))
    assert "یکشنبه" in svg
    assert "$5" in svg
    assert "<b>" not in svg


def test_nothing_cannot_be_drawn():
    assert (
        refusal(class_by_word, [], ["a"])
        == "a picture of how an answer develops needs at least one text, but got none."
    )
    assert refusal(accuracy_by_length, torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.bool)) == (
        "a picture of accuracy by length needs at least one text, but got none."
    )


def test_every_token_has_its_place_and_spaces_are_visible():
    weights = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    figure = attention_matrix(weights, queries=["a", "b"], keys=["x", " ", "z"])
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "␣", "z"]
    np.testing.assert_allclose(np.asarray(axes.images[0].get_array()), weights)
