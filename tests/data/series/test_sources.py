from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.written_files import refusal
from neuropil.data.series.sources import SeriesDataConfig, cuts, prepare_series
from neuropil.errors import InputError


def write_months(path: Path, count: int = 120, shops: tuple[str, ...] = ("a",), late: int = 0) -> Path:
    rng = np.random.default_rng(0)
    parts = []
    for number, shop in enumerate(shops):
        begin = late if number == len(shops) - 1 else 0
        dates = pd.date_range("2010-01-01", periods=count, freq="MS")[begin:]
        values = 10 * number + np.sin(np.arange(len(dates)) * 2 * np.pi / 12) + 0.1 * rng.normal(size=len(dates))
        parts.append(pd.DataFrame({"date": dates, "shop": shop, "sales": values}))
    pd.concat(parts).to_csv(path, index=False)
    return path


@settings(deadline=None, max_examples=60)
@given(st.integers(20, 500), st.integers(1, 6), st.floats(0, 0.5), st.floats(0.01, 0.8))
def test_the_parts_follow_one_another_and_have_room_for_a_forecast(
    length: int, horizon: int, validation: float, test: float
):
    train_end, test_begin = cuts(length, horizon, validation, test)
    assert train_end <= test_begin <= length - horizon
    assert test_begin - train_end >= (horizon if validation else 0)
    assert length - test_begin == max(round(test * length), horizon)


@pytest.mark.parametrize(("dataset", "season", "window", "horizon"), [("sunspots", 11, 33, 11), ("co2", 12, 36, 12)])
def test_embedded_series_come_in_three_parts_of_time(dataset: str, season: int, window: int, horizon: int):
    splits = prepare_series(SeriesDataConfig(dataset=dataset))  # type: ignore[arg-type]
    assert (splits.season, splits.panel.window, splits.panel.horizon) == (season, window, horizon)
    assert int(splits.train.origins.max()) + horizon <= splits.train_end <= int(splits.validation.origins.min())
    assert int(splits.validation.origins.max()) + horizon <= splits.test_begin <= int(splits.test.origins.min())
    assert int(splits.test.origins.max()) + horizon == splits.table.end


def test_nothing_of_the_later_parts_is_in_the_scale_or_the_season_or_the_training_windows(tmp_path: Path):
    path = write_months(tmp_path / "shop.csv")
    config = SeriesDataConfig(data=path, target="sales")
    before = prepare_series(config)
    table = pd.read_csv(path)
    table.loc[before.train_end :, "sales"] = 1000 * np.random.default_rng(1).normal(size=len(table) - before.train_end)
    table.to_csv(path, index=False)
    after = prepare_series(config)
    assert torch.equal(before.panel.scales, after.panel.scales)
    assert (before.season, before.train_end) == (after.season, after.train_end)
    for name, values in before.train.batch().items():
        assert torch.equal(values, after.train.batch()[name]), name


def test_each_series_has_a_scale_of_its_own(tmp_path: Path):
    path = write_months(tmp_path / "shops.csv", shops=("a", "b"))
    table = pd.read_csv(path)
    table.loc[table["shop"] == "b", "sales"] *= 100
    table.to_csv(path, index=False)
    scales = prepare_series(SeriesDataConfig(data=path, target="sales", series="shop")).panel.scales
    assert 50 < float(scales[1] / scales[0]) < 200


def test_what_was_decided_is_told(tmp_path: Path):
    config = SeriesDataConfig(data=write_months(tmp_path / "shop.csv"), target="sales")
    assert prepare_series(config).table.notes == (
        "A step is one month; a season has 12 (from the calendar); 36 are read to forecast 12.",
    )
    given_season = SeriesDataConfig(data=config.data, target="sales", season=6, horizon=3, window=8)
    assert prepare_series(given_season).table.notes == (
        "A step is one month; a season has 6 (as given); 8 are read to forecast 3.",
    )


def test_series_that_begin_too_late_are_left_out_and_named(tmp_path: Path):
    path = write_months(tmp_path / "shops.csv", shops=("a", "b", "late"), late=70)
    splits = prepare_series(SeriesDataConfig(data=path, target="sales", series="shop"))
    assert [series.name for series in splits.table.series] == ["a", "b"]
    assert splits.table.notes[0] == "1 of 3 series are too short before the validation part, and are left out: late."


def test_a_series_that_is_too_short_is_refused_with_a_way_out(tmp_path: Path):
    path = write_months(tmp_path / "shop.csv", count=50)
    assert refusal(prepare_series, SeriesDataConfig(data=path, target="sales", horizon=24)) == (
        "the training part must be longer than a window of history and a horizon, together 36 months, but got 2: give a longer series, or "
        "a shorter --horizon or --window."
    )


def test_columns_of_embedded_data_cannot_be_named():
    with pytest.raises(InputError) as error:
        SeriesDataConfig(target="sunspots")
    assert (
        str(error.value)
        == "columns are named in a CSV or TSV of your own, but got target for embedded data: leave it out."
    )
