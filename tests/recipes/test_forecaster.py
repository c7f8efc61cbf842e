"""The forecaster as a user meets it: a table in, the steps that follow it out, and a folder that keeps both."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import neuropil
from neuropil.cli import main
from neuropil.errors import InputError
from neuropil.models.forecaster import pinball
from neuropil.recipes import recipe
from neuropil.runs.run import Run
from neuropil.tasks.forecasting.experiment import ForecastingExperiment
from neuropil.tasks.forecasting.linear import apply

SMALL: dict[str, Any] = {"hidden_size": 8, "members": 2, "epochs": 2, "batch_size": 64}


def sales(count: int = 150, seed: int = 0, level: float = 100.0) -> np.ndarray:
    """Rises, repeats itself every week, and rests on a price."""
    day = np.arange(count)
    return (
        level
        + 0.2 * day
        + 10 * np.sin(2 * np.pi * day / 7)
        - 5 * price(count)
        + np.random.default_rng(seed).normal(size=count)
    )


def price(count: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=count)


def write_shop(path: Path, count: int = 150, *, shops: tuple[str, ...] = (), future: int = 0) -> Path:
    """`future` rows at the end have a price but no sales."""
    parts = []
    for number, shop in enumerate(shops or ("",)):
        values = sales(count + future, seed=number, level=100 * (number + 1))
        values[count:] = np.nan
        columns = {
            "day": pd.date_range("2024-01-01", periods=count + future),
            "sales": values,
            "price": price(count + future),
        }
        parts.append(pd.DataFrame(columns | ({"shop": shop} if shop else {})))
    pd.concat(parts).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("forecaster")
    path = write_shop(folder / "shop.csv")
    return neuropil.train(
        "forecaster", data=path, target="sales", horizon=7, out=folder / "run", show_progress=False, **SMALL
    )


def test_a_run_ends_beside_its_baselines_with_the_strongest_first(run: Run):
    own, *others = run.results
    assert own.name == "forecaster"
    assert {result.name.split("(")[0] for result in others} == {"AR", "seasonal naive", "persistence"}
    mases = [result.metrics["mase"] for result in others]
    assert mases == sorted(mases)
    assert set(own.metrics) == set(others[0].metrics) == {"mase", "pinball_loss", "coverage_80"}


def test_the_folder_forecasts_in_another_process_as_the_run_itself(run: Run, tmp_path: Path):
    path = write_shop(tmp_path / "more.csv", 90)
    forecasts = run.predict(path)
    assert torch.equal(forecasts.quantiles, neuropil.load(run.folder).predict(str(path)).quantiles)
    assert forecasts.dates[0][0] == "2024-03-31"
    assert forecasts.quantiles.shape == (1, 7, 7)
    low, high = forecasts.band(0.8)
    assert (low < forecasts.median).all()
    assert (forecasts.median < high).all()


def test_a_forecast_is_near_what_comes(run: Run, tmp_path: Path):
    truth = sales(157)
    path = tmp_path / "shop.csv"
    pd.DataFrame({"day": pd.date_range("2024-01-01", periods=150), "sales": truth[:150]}).to_csv(path, index=False)
    error = np.abs(run.predict(path).median[0].numpy() - truth[150:]).mean()
    assert error < np.abs(truth[149] - truth[150:]).mean()


def test_a_forecast_depends_on_the_past_only(run: Run, tmp_path: Path):
    long, short = write_shop(tmp_path / "long.csv", 120), tmp_path / "short.csv"
    pd.read_csv(long).iloc[:100].to_csv(short, index=False)
    trained = run.predictor
    table, _ = trained.read([long])
    panel = trained.panel(table)
    windows = panel.windows(100, 107)
    assert torch.allclose(trained.quantiles(windows)[0], raw(trained, short), atol=1e-4)


def raw(trained, path: Path) -> torch.Tensor:
    table, _ = trained.read([path])
    return trained.quantiles(trained.panel(table).last_windows())[0]


def test_the_command_prints_a_line_for_each_step(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write_shop(tmp_path / "shop.csv", 60)
    main(["predict", str(run.folder), str(path)])
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == [f"2024-03-{day:02}" for day in range(1, 8)]
    assert all(len(line) == 5 for line in lines)
    assert float(lines[0][1]) == pytest.approx(run.predict(path).median[0, 0].item(), rel=1e-4)
    assert lines[0][3].startswith("80 % ")


def test_scores_of_a_file_are_those_of_all_its_origins(run: Run, tmp_path: Path):
    path = write_shop(tmp_path / "shop.csv", 60)
    with pytest.warns(UserWarning, match="^60 of 60 values were in the training part of this run.$"):
        scores = run.evaluate(path)
    assert set(scores) == {"mase", "pinball_loss", "coverage_80"}
    assert 0 < scores["mase"] < 10
    assert run.evaluate() == pytest.approx(run.metrics)


def test_the_report_shows_forecasts_errors_and_what_was_done(run: Run):
    page = run.report.read_text()
    for words in (
        "Forecasts",
        "Error by horizon",
        "Linear start",
        "Future",
        "A step is one day; a season has 7 (from the calendar)",
    ):
        assert words in page
    assert page.count("<svg") >= 5


def test_what_is_known_in_advance_must_go_on(tmp_path: Path):
    data = write_shop(tmp_path / "shop.csv")
    run = neuropil.train(
        "forecaster",
        data=data,
        target="sales",
        known=("price",),
        horizon=5,
        out=tmp_path / "run",
        show_progress=False,
        **SMALL,
    )
    assert "There is no forecast after the end of the data" in run.report.read_text()
    with pytest.raises(InputError) as error:
        run.predict(data)
    assert str(error.value) == (
        "a forecast needs 'price' of the 5 days after 2024-05-29 too, but got 0: add rows for them in which the "
        "target is left empty."
    )
    forecasts = run.predict(write_shop(tmp_path / "more.csv", future=5))
    assert forecasts.dates[0] == ["2024-05-30", "2024-05-31", "2024-06-01", "2024-06-02", "2024-06-03"]


def test_many_series_share_one_net(tmp_path: Path):
    data = write_shop(tmp_path / "shops.csv", shops=("north", "south", "east"))
    run = neuropil.train(
        "forecaster",
        data=data,
        target="sales",
        series="shop",
        horizon=3,
        out=tmp_path / "run",
        report=False,
        show_progress=False,
        **SMALL,
    )
    forecasts = run.predict(data)
    assert forecasts.series == ["north", "south", "east"]
    assert forecasts.median[2].mean() > forecasts.median[0].mean() + 100
    main(["predict", str(run.folder), str(data)])


def test_values_alone_are_enough_where_no_dates_are_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data = tmp_path / "plain.csv"
    data.write_text("\n".join(["value", *map(str, sales(120))]))
    run = neuropil.train(
        "forecaster", data=data, horizon=4, out=tmp_path / "run", report=False, show_progress=False, **SMALL
    )
    assert "No column of plain.csv holds dates, so each row is a step." in run.settings["facts"]["notes"]
    values = sales(120)
    assert run.predict(values).dates == [["121", "122", "123", "124"]]
    assert torch.allclose(run.predict(values).quantiles, run.predict(data).quantiles, atol=1e-3)


def test_dated_series_refuse_values_without_dates(run: Run):
    with pytest.raises(InputError) as error:
        run.predict([1.0, 2.0])
    assert str(error.value) == (
        "this forecaster needs what is known in advance, such as dates, beside the values, but got values only: give "
        "a table with the columns day, sales."
    )


def test_a_series_far_from_zero_is_forecast_as_one_that_is_near(tmp_path: Path):
    values = sales(120).round(3)
    found = []
    for offset in (0.0, 1e9):
        data = tmp_path / f"{offset:g}.csv"
        table = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=120), "sales": values + offset})
        table.to_csv(data, index=False)
        options: dict[str, Any] = {"data": data, "horizon": 5, "report": False, "show_progress": False, **SMALL}
        run = neuropil.train("forecaster", out=tmp_path / f"run{offset:g}", **options)
        found.append((run.metrics, run.predict(data)))
    (near, ahead), (far, far_ahead) = found
    assert far == pytest.approx(near, rel=1e-3)
    assert torch.allclose(far_ahead.quantiles - 1e9, ahead.quantiles, atol=1e-2)
    shown = [float(line[0]) for line in far_ahead.lines()]
    assert shown == pytest.approx(far_ahead.median[0].tolist(), abs=0.1)


def test_training_never_ends_worse_on_validation_than_the_linear_start(run: Run, tmp_path: Path):
    data = write_shop(tmp_path / "shop.csv")
    options: dict[str, Any] = {"data": data, "target": "sales", "horizon": 7, "show_progress": False, **SMALL}
    useless = neuropil.train("forecaster", out=tmp_path / "run", learning_rate=3.0, **options)
    start = useless.experiment()
    later = start.start.later  # type: ignore[attr-defined]
    forecast = apply(later, start.splits.test.batch()["history"])  # type: ignore[attr-defined]
    quantiles = useless.predictor.quantiles(start.splits.test)  # type: ignore[attr-defined]
    assert torch.allclose(quantiles[..., 3], forecast, atol=1e-4)
    page = " ".join(useless.report.read_text().split())
    assert "no update made it better: it is kept. Then the linear forecast is fitted anew" in page
    losses = [row["loss"] for row in run.rows if row["kind"] == "validation"]
    assert run.rows[0] == {**run.rows[0], "kind": "validation", "step": 0}
    assert min(losses) <= losses[0]


def test_two_files_are_refused(run: Run):
    with pytest.raises(InputError) as error:
        run.predictor.read([Path("a.csv"), Path("b.csv")])
    assert str(error.value) == "a forecast continues the series of one file or folder, but got 2."


def test_a_share_that_no_band_holds_is_refused(run: Run, tmp_path: Path):
    with pytest.raises(InputError) as error:
        run.predict(write_shop(tmp_path / "shop.csv", 60)).band(0.7)
    assert str(error.value) == "a band must hold one of the shares 0.5, 0.8, 0.9, but got 0.7."


@pytest.mark.parametrize("cell", [pytest.param("rnn", marks=pytest.mark.slow), "lstm", "mingru"])
def test_every_cell_trains_and_comes_back(tmp_path: Path, cell: str):
    run = neuropil.train(
        "forecaster",
        cell=cell,
        out=tmp_path / "run",
        report=False,
        show_progress=False,
        hidden_size=4,
        members=1,
        epochs=1,
    )
    again = neuropil.load(run.folder)
    assert again.evaluate() == pytest.approx(run.metrics)


def test_training_changes_nothing_about_the_future_that_it_has_not_seen(tmp_path: Path):
    """The weights are the same whatever the test part holds."""
    weights = []
    for name, last in (("one", 0.0), ("two", 1e3)):
        data = tmp_path / f"{name}.csv"
        values = sales(150)
        values[125:] += last
        pd.DataFrame({"day": pd.date_range("2024-01-01", periods=150), "sales": values}).to_csv(data, index=False)
        options = recipe("forecaster").options.override(data=data, horizon=5, hidden_size=4, members=1, epochs=1)
        experiment = recipe("forecaster").build(options, 0)
        experiment.train(tmp_path / name, show_progress=False)
        weights.append(experiment.model.state_dict())  # type: ignore[attr-defined]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["sunspots", "co2"])
def test_it_beats_seasonal_naive_and_the_autoregression_with_bands_that_hold(tmp_path: Path, dataset: str):
    run = neuropil.train("forecaster", dataset=dataset, seed=1, out=tmp_path / "run", show_progress=False)
    scores = {result.name.split("(")[0] + result.name.partition(")")[2]: result.metrics for result in run.results}
    assert scores["forecaster"]["mase"] < 0.85 * scores["seasonal naive"]["mase"]
    assert scores["forecaster"]["mase"] < scores["AR"]["mase"]
    assert 0.75 <= scores["forecaster"]["coverage_80"] <= 0.85


def test_steps_of_a_forecast_count_by_their_weights(tmp_path: Path):
    path, weights = write_shop(tmp_path / "shop.csv"), (4.0, 2.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    given: dict[str, Any] = {"data": path, "target": "sales", "horizon": 7, **SMALL}
    options = recipe("forecaster").options.override(**given, horizon_weights=weights)
    experiment = recipe("forecaster").build(options, 0)
    assert isinstance(experiment, ForecastingExperiment)
    for part in ("train", "validation"):
        batch = next(iter(experiment.batches(part).epoch(0)))
        assert torch.equal(batch["weight"], torch.tensor(weights) * batch["valid_mask"])
    assert "weight" not in next(iter(experiment.batches("test").epoch(0)))
    loss = experiment.learner.phases()[0].loss(batch)
    quantiles = experiment.network(batch["history"], batch["known"], average=False)
    losses = pinball(batch["target"].expand(quantiles.shape[:-1]), quantiles).mean(-1)
    each = (losses * batch["weight"]).sum() / batch["weight"].expand_as(losses).sum()
    torch.testing.assert_close(loss, each)
    with pytest.raises(InputError) as error:
        recipe("forecaster").build(recipe("forecaster").options.override(**given, horizon_weights=(1.0, 2.0)), 0)
    assert str(error.value) == "horizon weights must be one for each of the 7 steps of a forecast, but got 2."
