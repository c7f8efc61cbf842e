import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.pictures.kernels import (
    MOST_MARKERS,
    Curve,
    Points,
    process_samples,
    smoothers,
    weight_matrices,
    weight_profiles,
)
from neuropil.inspection.report.svg import figure_svg

X = np.linspace(0, 10, 50)
KNOWN = Points(np.array([1.0, 4.0, 9.0]), np.array([0.0, 2.0, 1.0]))
HELD_OUT = Points(np.array([2.0, 6.0]), np.array([1.0, -3.0]))


def test_each_curve_has_a_panel_and_the_band_reaches_two_deviations():
    curves = {"plain": Curve(np.sin(X)), "banded": Curve(np.sin(X), np.full(50, 0.5)), "third": Curve(X)}
    figure = smoothers(X, curves, KNOWN, HELD_OUT, xlabel="time", ylabel="height")
    plain, banded, third, empty = figure.axes
    assert [axes.get_title(loc="left") for axes in (plain, banded, third)] == list(curves)
    assert not empty.get_visible()
    assert not plain.collections
    (band,) = banded.collections
    corners = np.asarray(band.get_paths()[0].vertices)
    assert corners[:, 1].max() == pytest.approx(np.sin(X).max() + 1.96 * 0.5)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["held out", "known", "holds 95 %"]
    assert third.get_xlabel() == "time"


def test_a_curve_that_runs_away_leaves_the_points_in_view():
    axes = smoothers(X, {"wild": Curve(1000 * X)}, KNOWN, HELD_OUT).axes[0]
    assert axes.get_ylim() == pytest.approx((-3.75, 2.75))


def test_many_points_are_thinned_and_both_ends_kept():
    many = Points(np.arange(5000.0)[::-1], np.zeros(5000))
    axes = smoothers(X, {"one": Curve(X)}, many, HELD_OUT).axes[0]
    drawn = np.asarray(next(line for line in axes.lines if line.get_label() == "known").get_xdata())
    assert len(drawn) == MOST_MARKERS
    assert (drawn[0], drawn[-1]) == (0, 4999)


def test_shares_are_blue_and_weights_of_both_signs_are_centred_on_white():
    shares, signed = np.eye(4), np.eye(4) - 0.2
    figure = weight_matrices({"shares": shares, "signed": signed}, np.array([0.0, 1, 2, 3]), np.array([-1.0, 1, 2, 30]))
    left, right = (axes.images[0] for axes in figure.axes[:2])
    assert left.get_clim()[0] == 0
    assert sum(right.get_clim()) == 0
    assert right.cmap(0.5)[:3] == pytest.approx((1, 1, 1), abs=0.05)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["−1", "1", "2", "30"]


def test_a_matrix_of_nothing_is_drawn_too():
    figure_svg(weight_matrices({"zero": np.zeros((3, 2))}, np.arange(3.0), np.arange(2.0)))


def test_a_profile_shows_the_points_with_weight_and_the_sum_of_all():
    x = np.arange(100.0)
    near = np.where(np.abs(x - 50) <= 2, 0.2, 0.0)
    figure = weight_profiles(x, {"smoothing": near, "process": near - np.where(x == 46, 0.1, 0.0)}, at=50.0)
    smoothing, process = figure.axes
    assert smoothing.get_title(loc="left") == "smoothing: sum 1.00"
    assert process.get_title(loc="left") == "process: sum 0.90"
    assert len(np.unique(np.asarray(process.collections[0].get_edgecolor()), axis=0)) == 2
    drawn = np.asarray(smoothing.lines[-1].get_xdata())
    assert (drawn.min(), drawn.max()) == (46, 54)


def test_functions_are_drawn_over_the_band_and_points_over_the_posterior_only():
    curve, samples = Curve(np.zeros(50), np.ones(50)), np.random.default_rng(0).normal(size=(4, 50))
    prior, posterior = process_samples(X, {"prior": (curve, samples), "posterior": (curve, samples)}, KNOWN).axes
    assert len(prior.lines) == 5
    assert len(posterior.lines) == 6
    assert np.asarray(posterior.lines[-1].get_xdata()).tolist() == [1.0, 4.0, 9.0]


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda: smoothers(X, {}, KNOWN, HELD_OUT), "a picture of smoothers needs at least one curve, but got none."),
        (lambda: weight_matrices({}, X, X), "a picture of weights needs at least one matrix, but got none."),
        (lambda: weight_profiles(X, {}, 0.0), "a picture of weights needs at least one query's, but got none."),
        (lambda: process_samples(X, {}, KNOWN), "a picture of samples needs at least one process, but got none."),
    ],
)
def test_nothing_to_draw_is_refused(draw, sentence: str):
    with pytest.raises(InputError) as error:
        draw()
    assert str(error.value) == sentence
