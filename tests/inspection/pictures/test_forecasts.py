import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.pictures.forecasts import Forecast, coverage_by_step, error_by_step, forecasts
from neuropil.inspection.report.svg import figure_svg

HISTORY, MEDIAN = np.array([1.0, np.nan, 3.0, 2.0]), np.array([4.0, 5.0])
BANDS = {"50 %": (MEDIAN - 1, MEDIAN + 1), "80 %": (MEDIAN - 2, MEDIAN + 3)}


def one(**changes: object) -> Forecast:
    return Forecast(
        **{"x": np.arange(6), "history": HISTORY, "median": MEDIAN, "bands": BANDS, "title": "from 5", **changes}
    )


def test_the_forecast_sets_out_from_the_last_value_and_the_bands_with_it():
    axes = forecasts([one(truth=np.array([4.5, np.nan]))], ylabel="sales").axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert np.asarray(lines["forecast"].get_xdata()).tolist() == [3, 4, 5]
    assert np.asarray(lines["forecast"].get_ydata()).tolist() == [2, 4, 5]
    assert np.asarray(lines["what happened"].get_ydata())[0] == 4.5
    widest, narrow = axes.collections
    assert np.asarray(widest.get_paths()[0].vertices)[:, 1].max() == 8
    assert np.asarray(narrow.get_paths()[0].vertices)[:, 1].max() == 6
    assert axes.get_title(loc="left") == "from 5"
    assert axes.get_ylabel() == "sales"


def test_several_forecasts_have_a_panel_each_and_one_legend():
    figure = forecasts([one(title=str(number)) for number in range(3)])
    assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["80 %", "50 %", "history", "forecast"]
    figure_svg(figure)


def test_dates_are_written_as_dates():
    dates = np.datetime64("2020-01") + np.arange(6)
    figure = forecasts([one(x=dates.astype("M8[s]"))])
    assert "2020" in figure_svg(figure)


def test_a_history_that_ends_in_a_gap_is_drawn_too():
    axes = forecasts([one(history=np.array([1.0, 2.0, np.nan, np.nan]))]).axes[0]
    forecast = next(line for line in axes.lines if line.get_label() == "forecast")
    assert np.asarray(forecast.get_xdata()).tolist() == [1, 4, 5]


def test_errors_are_drawn_by_whole_steps_so_that_small_ones_can_be_told_apart():
    axes = error_by_step({"net": np.array([0.5, 0.7]), "AR": np.array([0.6, 0.9])}, step="month").axes[0]
    assert axes.get_yscale() == "log"
    assert error_by_step({"perfect": np.zeros(3)}).axes[0].get_yscale() == "linear"
    assert axes.get_xlabel() == "months ahead"
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [1, 2]
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_coverage_stands_beside_its_promise():
    axes = coverage_by_step({0.5: np.array([0.4, 0.6]), 0.8: np.array([0.8, 0.7])}).axes[0]
    heights = [np.asarray(line.get_ydata()).tolist() for line in axes.lines]
    assert heights == [[40, 60], [50, 50], [80, 70], [80, 80]]


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda: forecasts([]), "a picture of forecasts needs at least one, but got none."),
        (lambda: error_by_step({}), "a picture of errors needs at least one forecaster, but got none."),
        (lambda: coverage_by_step({}), "a picture of coverage needs at least one band, but got none."),
    ],
)
def test_nothing_to_draw_is_refused(draw, sentence: str):
    with pytest.raises(InputError) as error:
        draw()
    assert str(error.value) == sentence
