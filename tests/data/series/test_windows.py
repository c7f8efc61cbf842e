import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from data.written_files import refusal
from neuropil.data.series.dataset import Series, SeriesTable, SeriesUnits
from neuropil.data.series.steps import TimeStep
from neuropil.data.series.windows import Panel, WindowBatches

N = np.nan


def panel_of(
    *series: list[float], window: int = 3, horizon: int = 2, longest_gap: int = 2, starts: tuple[int, ...] = ()
) -> Panel:
    starts = starts or (0,) * len(series)
    each = tuple(
        Series(str(number), start, np.array(values, dtype=float), np.zeros((len(values), 0)))
        for number, (start, values) in enumerate(zip(starts, series, strict=True))
    )
    table = SeriesTable(each, TimeStep(), None, "y")
    return Panel.of(table, window, horizon, longest_gap, [SeriesUnits()] * len(series))


gappy = st.lists(st.one_of(st.floats(-9, 9), st.just(N)), min_size=8, max_size=30).map(
    lambda values: [1.0, *values, 2.0]
)


def test_a_window_is_what_came_before_and_what_came_after():
    batch = panel_of([1, 2, 3, 4, 5, 6]).windows(0, 6).batch()
    assert batch["history"].tolist() == [[1, 2, 3], [2, 3, 4]]
    assert batch["target"].tolist() == [[4, 5], [5, 6]]
    assert batch["valid_mask"].all()


@settings(deadline=None, max_examples=60)
@given(gappy, st.integers(0, 4), st.data())
def test_no_input_depends_on_a_value_at_or_after_its_origin(values: list[float], longest_gap: int, data: st.DataObject):
    panel = panel_of(values, longest_gap=longest_gap)
    windows = panel.windows(0, len(values))
    if not len(windows):
        return
    chosen = data.draw(st.integers(0, len(windows) - 1))
    origin = int(windows.origins[chosen])
    future = data.draw(st.lists(st.floats(-1e3, 1e3), min_size=len(values) - origin, max_size=len(values) - origin))
    other = panel_of([*values[:origin], *future], longest_gap=longest_gap)
    places = torch.tensor([origin])
    assert torch.equal(
        windows.take(torch.tensor([chosen])).history(3), type(windows)(other, places, torch.tensor([0])).history(3)
    )


@settings(deadline=None, max_examples=60)
@given(gappy, st.integers(0, 4))
def test_inputs_are_the_values_themselves_and_between_them_nothing_new(values: list[float], longest_gap: int):
    array = np.array(values)
    windows = panel_of(values, longest_gap=longest_gap).windows(0, len(values))
    for origin, history, target, there in zip(
        windows.origins.tolist(), *(windows.batch()[name] for name in ("history", "target", "valid_mask")), strict=True
    ):
        past, ahead = array[origin - 3 : origin], array[origin : origin + 2]
        assert history[~np.isnan(past)].tolist() == pytest.approx(past[~np.isnan(past)].tolist())
        assert there.tolist() == (~np.isnan(ahead)).tolist()
        assert target[there].tolist() == pytest.approx(ahead[~np.isnan(ahead)].tolist())
        known = array[:origin][~np.isnan(array[:origin])]
        assert known.min() - 1e-6 <= history.min() <= history.max() <= known.max() + 1e-6


def test_a_gap_is_a_straight_line_once_its_end_is_known_and_before_that_the_last_value():
    windows = panel_of([1, 2, N, N, 8, 9, 10, 11, 12]).windows(0, 9)
    histories = dict(zip(windows.origins.tolist(), windows.history(3).tolist(), strict=True))
    assert histories[3] == [1, 2, 2]
    assert histories[4] == [2, 2, 2]
    assert histories[5] == [4, 6, 8]


def test_no_window_reaches_into_a_long_gap_but_targets_may():
    windows = panel_of([1, 2, 3, 4, N, N, N, 5, 6, 7, 8, 9]).windows(0, 12)
    assert windows.origins.tolist() == [3, 10]
    assert windows.batch()["valid_mask"].tolist() == [[True, False], [True, True]]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 6), st.integers(1, 5))
def test_the_targets_of_a_part_lie_in_it_and_all_that_can_are_there(begin: int, end: int, window: int, horizon: int):
    windows = panel_of([float(value) for value in range(30)], window=window, horizon=horizon).windows(begin, end)
    expected = [
        origin for origin in range(30) if origin >= window and origin >= begin and origin + horizon <= min(end, 30)
    ]
    assert windows.origins.tolist() == expected
    target = windows.batch()["target"]
    assert target.tolist() == [[float(origin + step) for step in range(horizon)] for origin in expected]


def test_series_stay_apart_and_share_time():
    panel = panel_of([1, 2, 3, 4, 5], [10, 20, 30, 40, 50, 60], starts=(0, 2))
    windows = panel.windows(0, 8)
    assert windows.series.tolist() == [0, 1, 1]
    assert windows.origins.tolist() == [3, 5, 6]
    assert windows.batch()["history"].tolist() == [[1, 2, 3], [10, 20, 30], [20, 30, 40]]
    assert windows.history(5)[1].tolist() == [10, 10, 10, 20, 30]  # nothing of the other series before the first value


def test_the_last_window_ends_with_the_last_value():
    last = panel_of([1, 2, 3, 4, 5], [10, 20, 30], starts=(0, 4)).last_windows()
    assert last.history(3).tolist() == [[3, 4, 5], [10, 20, 30]]
    assert last.origins.tolist() == [5, 7]
    assert not last.batch()["valid_mask"].any()


def test_a_forecast_needs_history_without_a_long_gap_and_what_is_known_in_advance():
    assert refusal(panel_of([1, 2]).last_windows) == "a forecast of the series '0' needs 3 rows of history, but got 2."
    assert refusal(panel_of([1, 2, N, N, N, 3]).last_windows) == (
        "the last 3 rows of the series '0' must have no long gap for a forecast, "
        "but got one that is too long to be filled: fill it in."
    )
    series = Series("", 0, np.arange(4.0), np.zeros((5, 1)))
    panel = Panel.of(SeriesTable((series,), TimeStep(), None, "y", ("price",)), 3, 2, 2, [SeriesUnits()])
    assert refusal(panel.last_windows) == (
        "a forecast needs 'price' of the 2 rows after 4 too, "
        "but got 1: add rows for them in which the target is left empty."
    )


def test_a_pass_has_every_window_once_and_is_the_same_from_any_batch_on():
    windows = panel_of([float(value) for value in range(20)]).windows(0, 20)
    batches = WindowBatches(windows, 4, seed=1, shuffle=True)
    whole = list(batches.epoch(3))
    assert len(whole) == len(batches) == 4
    firsts = torch.cat([batch["target"][:, 0] for batch in whole])
    assert sorted(firsts.tolist()) == windows.origins.tolist()
    assert not torch.equal(firsts, torch.cat([batch["target"][:, 0] for batch in batches.epoch(4)]))
    rest = list(batches.epoch(3, start=2))
    assert [batch_text(batch) for batch in rest] == [batch_text(batch) for batch in whole[2:]]


def test_a_pass_may_draw_some_of_many_windows_others_each_time():
    windows = panel_of([float(value) for value in range(20)]).windows(0, 20)
    batches = WindowBatches(windows, 2, seed=1, shuffle=True, most=5)
    drawn = [torch.cat([batch["target"][:, 0] for batch in batches.epoch(number)]).tolist() for number in range(20)]
    assert len(batches) == 3
    assert all(len(set(each)) == 5 for each in drawn)
    assert set().union(*drawn) == set(windows.origins.tolist())


def test_thinned_windows_are_evenly_spaced():
    windows = panel_of([float(value) for value in range(104)]).windows(0, 104).thinned(34)
    assert windows.origins.diff().unique().tolist() == [3]
    assert (windows.origins[0], windows.origins[-1]) == (3, 102)


def batch_text(batch: "dict[str, Tensor] | object") -> str:
    return str({name: values.tolist() for name, values in batch.items()})  # type: ignore[union-attr]
