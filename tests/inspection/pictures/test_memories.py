import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from neuropil.inspection.pictures.memories import MOST_LINES, MOST_POINTS, energies_above


def lines_of(axes: Axes) -> tuple[list[Line2D], Line2D]:
    *paths, ends = axes.get_lines()
    return paths, ends


def test_energies_are_drawn_above_the_lowest_and_end_in_a_point_each():
    short = torch.tensor([[5.0, 4.0], [-1.0, 2.0], [-3.0, 2.0]])
    figure = energies_above({"short": short, "other": short}, -3.0)
    paths, ends = lines_of(figure.axes[0])
    np.testing.assert_array_equal([path.get_ydata() for path in paths], [[8, 2, 0], [7, 5, 5]])
    np.testing.assert_array_equal(ends.get_xydata(), [[2, 0], [2, 5]])


def test_of_many_starts_and_sweeps_some_are_drawn_the_first_and_the_last_among_them():
    figure = energies_above({"many": torch.rand(1000, 80)}, 0.0)
    paths, _ = lines_of(figure.axes[0])
    assert len(paths) == MOST_LINES
    sweeps = np.asarray(paths[0].get_xdata())
    assert (len(sweeps), sweeps[0], sweeps[-1]) == (MOST_POINTS, 0, 999)
