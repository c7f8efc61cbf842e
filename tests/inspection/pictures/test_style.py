import itertools

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from neuropil.inspection.pictures.style import PALETTE, house_style, line, make_logarithmic, new_figure, power_of_ten

# Machado, Oliveira and Fernandes (2009), severity 1.0: linear RGB as those with that colour blindness see it.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
SRGB_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear_rgb(colour: str) -> np.ndarray:
    channels = np.array(to_rgb(colour))
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    ratios = SRGB_TO_XYZ @ rgb / [0.9505, 1, 1.089]
    x, y, z = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_any_two_colours_differ_for_every_eye(blindness: str):
    seen = [lab(np.clip(BLINDNESS[blindness] @ linear_rgb(colour), 0, 1)) for colour in PALETTE]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15


def test_every_colour_stands_out_from_the_paper_as_wcag_asks_of_graphics():
    luminances = [SRGB_TO_XYZ[1] @ linear_rgb(colour) for colour in PALETTE]
    assert min(1.05 / (luminance + 0.05) for luminance in luminances) >= 3


def test_no_two_of_thirty_lines_look_the_same():
    looks = [(look["color"], look["linestyle"]) for look in map(line, range(30))]
    assert len(set(looks)) == 30


def test_neighbouring_lines_differ_on_a_grey_printer_too():
    assert all(line(index)["linestyle"] != line(index + 1)["linestyle"] for index in range(30))


@house_style
def drawn() -> Figure:
    figure = new_figure(3, 2)
    figure.subplots().plot([1, 2], [3, 4], label="$5 and $6")
    return figure


def test_pictures_ignore_the_users_settings_and_leave_them_alone():
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.facecolor": "black"}):
        (axes,) = drawn().axes
        assert matplotlib.rcParams["lines.linewidth"] == 9
    assert axes.lines[0].get_linewidth() == 1.6
    assert axes.get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (0.01, "0.01"),
        (20000, "20000"),
        (1e-3, "0.001"),
        (1e-4, "10⁻⁴"),
        (5e-12, "5·10⁻¹²"),
        (1e6, "10⁶"),
        (2e5, "2·10⁵"),
    ],
)
def test_powers_of_ten_are_written_in_short_without_mathematics_markup(value: float, text: str):
    assert power_of_ten(value) == text


@settings(deadline=None, max_examples=40)
@given(low=st.floats(-12, 3), decades=st.floats(0.7, 20))
def test_a_logarithmic_axis_always_has_at_least_two_labels_and_never_a_crowd(low: float, decades: float):
    axes = Figure().subplots()
    axes.plot([0, 1], [10**low, 10 ** (low + decades)])
    make_logarithmic(axes)
    bottom, top = axes.get_ylim()
    labelled = [tick for tick in axes.yaxis.get_majorticklocs() if bottom <= tick <= top]
    assert 2 <= len(labelled) <= 10
