import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from sklearn.metrics import r2_score, root_mean_squared_error

from neuropil.errors import InputError
from neuropil.inspection.pictures.predictions import confusion_matrix, label_probabilities, predicted_against_actual
from neuropil.inspection.report.svg import figure_svg


def written(axes: Axes) -> dict[tuple[int, int], str]:
    """The text of each cell, by row and column."""
    return {(round(y), round(x)): text.get_text() for text in axes.texts for x, y in [text.get_position()]}


def test_every_count_above_zero_is_written_into_its_cell():
    counts = torch.tensor([[50, 2, 0], [0, 7, 1000], [3, 0, 0]])
    (axes,) = confusion_matrix(counts, ["cat", "dog", "bird"]).axes
    assert written(axes) == {(0, 0): "50", (0, 1): "2", (1, 1): "7", (1, 2): "1000", (2, 0): "3"}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["cat", "dog", "bird"]


def test_mistakes_are_coloured_by_their_share_of_the_row_and_right_answers_stay_pale():
    counts = np.array([[900, 100, 0], [0, 5, 5], [1, 0, 999]])
    (axes,) = confusion_matrix(counts, ["a", "b", "c"]).axes
    colours = np.asarray(axes.images[0].get_array())
    distance_from_white = np.linalg.norm(1 - colours, axis=-1)
    assert distance_from_white[1, 2] > distance_from_white[0, 1] > distance_from_white[2, 0] > 0
    assert distance_from_white[0, 1] > distance_from_white.diagonal().max()
    assert distance_from_white[0, 2] == 0


@pytest.mark.parametrize(
    ("num_classes", "name_length"), [(2, 1), (2, 30), (3, 12), (10, 1), (12, 30), (20, 16), (26, 3), (60, 1), (100, 30)]
)
def test_labels_and_counts_never_outgrow_their_cells(num_classes: int, name_length: int):
    counts = np.eye(num_classes, dtype=int) * 123 + 1
    figure = confusion_matrix(counts, ["m" * name_length] * num_classes)
    (axes,) = figure.axes
    figure.draw_without_rendering()
    cell = axes.get_window_extent().width / num_classes
    for text in axes.texts:
        assert text.get_window_extent().width <= cell
    labels = axes.get_yticklabels()
    assert len(labels) * labels[0].get_window_extent().height <= 1.7 * axes.get_window_extent().height
    for label in [*axes.get_xticklabels(), *labels]:
        extent = label.get_window_extent()
        assert extent.x0 >= 0
        assert extent.y1 <= figure.bbox.height


def test_a_hundred_classes_stay_a_small_drawing():
    counts = np.random.default_rng(0).poisson(1.0, (100, 100))
    assert len(figure_svg(confusion_matrix(counts, [f"class {index}" for index in range(100)]))) < 60_000


def test_a_class_without_examples_has_an_empty_row():
    (axes,) = confusion_matrix(np.array([[4, 0], [0, 0]]), ["a", "$b$"]).axes
    assert written(axes) == {(0, 0): "4"}


def test_a_matrix_that_does_not_fit_its_classes_is_refused():
    with pytest.raises(InputError) as error:
        confusion_matrix(np.eye(3, dtype=int), ["a", "b"])
    assert (
        str(error.value)
        == "a confusion matrix needs one row and one column for each class, but got (3, 3) for 2 classes."
    )


@pytest.mark.parametrize("examples", [2, 50, 3000])
def test_a_regression_is_judged_as_scikit_learn_does(examples: int):
    random = np.random.default_rng(0)
    actual = random.normal(size=examples)
    predicted = actual + 0.3 * random.normal(size=examples)
    figure = predicted_against_actual(predicted, torch.from_numpy(actual))
    scatter, histogram = figure.axes
    assert scatter.get_title(loc="left") == f"R² = {r2_score(actual, predicted):.3f}"
    assert histogram.get_title(loc="left") == f"root mean square error {root_mean_squared_error(actual, predicted):.3g}"
    assert len(figure_svg(figure)) < 400_000


def test_each_label_has_a_dot_for_every_example_on_the_side_of_the_truth():
    probabilities = torch.tensor([[0.9, 0.2], [0.4, 0.7], [0.1, 0.6]])
    targets = torch.tensor([[True, False], [True, True], [False, False]])
    (axes,) = label_probabilities(probabilities, targets, ["even", "large"]).axes
    dots = [np.asarray(each.get_xdata(), dtype=float).round(3).tolist() for each in axes.lines[:4]]
    assert dots == [[0.9, 0.4], [0.1], [0.7], [0.2, 0.6]]
    assert [each.get_text() for each in axes.get_yticklabels()] == ["even", "large"]
