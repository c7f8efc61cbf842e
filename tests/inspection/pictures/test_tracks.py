import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from neuropil.errors import InputError
from neuropil.inspection.pictures.tracks import FRAMES, Track, error_since_hidden, film_paths, film_strips
from neuropil.inspection.report.svg import figure_svg


def track(length: int, seed: int = 0) -> Track:
    time = torch.arange(float(length))
    truth = torch.stack([time, time / 2], -1)
    frames = torch.randint(0, 256, (length, 20, 30), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    return Track(frames, truth, truth + 1, torch.arange(length) % 4 == 3)


def test_a_strip_shows_frames_from_the_first_to_the_last():
    long, short = film_strips([track(24), track(5)]).axes
    numbers = [int(text.get_text()) for text in long.texts]
    assert (len(numbers), numbers[0], numbers[-1]) == (FRAMES, 1, 24)
    assert [text.get_text() for text in short.texts] == ["1", "2", "3", "4", "5"]
    board = np.asarray(short.images[0].get_array())
    np.testing.assert_allclose(board[:20, :30, 0], track(5, seed=0).frames[0] / 255)
    assert board[:20, :30, 3].all()
    assert not board[23:, :, 3].any()  # no second row


def test_a_ring_is_where_it_is_and_a_cross_where_it_is_said_to_be():
    (axes,) = film_strips([track(5)]).axes
    ring, cross = (np.asarray(line.get_xydata())[0] for line in axes.lines[4:6])
    left = 2 * (30 + 2)  # of the third frame
    assert (ring - [left, 0]).tolist() == [2, 1]
    assert (cross - [left, 0]).tolist() == [3, 2]


def test_frames_that_hide_the_object_have_a_border():
    (axes,) = film_strips([track(5)]).axes
    (border,) = axes.patches
    assert isinstance(border, Rectangle)
    assert border.get_xy() == (3 * (30 + 2) - 0.5, -0.5)
    assert (border.get_width(), border.get_height()) == (30, 20)


def test_paths_are_drawn_as_the_frames_are_with_y_downwards():
    figure = film_paths([track(8)])
    axes = figure.axes[0]
    assert axes.get_ylim() == (19.5, -0.5)
    assert axes.get_xlim() == (-0.5, 29.5)
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), track(8).truth)
    assert np.asarray(axes.lines[2].get_xdata()).size == 2  # hidden ones


def test_unknown_positions_leave_a_gap():
    one = track(6)
    one.truth[2] = torch.nan
    assert len(figure_svg(film_paths([one]))) > 0
    assert len(figure_svg(film_strips([one]))) > 0


def test_errors_begin_with_the_frames_that_show_the_object():
    figure = error_since_hidden({"a": torch.tensor([1.0, 2.0, 4.0]), "b": torch.tensor([1.0, 8.0, 8.0])}, [50, 10, 5])
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["seen", "1", "2"]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [1, 8, 8])


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        (lambda: film_strips([]), "a picture of film strips needs at least one film, but got none."),
        (lambda: film_paths([]), "a picture of paths needs at least one film, but got none."),
        (lambda: error_since_hidden({}, []), "a picture of errors needs at least one tracker, but got none."),
    ],
)
def test_nothing_cannot_be_drawn(drawing, message: str):
    with pytest.raises(InputError) as error:
        drawing()
    assert str(error.value) == message
