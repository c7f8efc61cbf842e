"""Forecasting: a model that reads the history of series and predicts quantiles of their future."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.data.series.files import SeriesSplits
from neuropil.data.series.windows import SeriesWindows, WindowBatches
from neuropil.data.splits import PartName
from neuropil.data.weights import WeightedBatches, step_weights
from neuropil.extras import require_extra
from neuropil.files import write_text
from neuropil.inspection.report.page import Section
from neuropil.models.forecaster import BANDS, LEVELS, MEDIAN, Forecaster, QuantileRegression
from neuropil.protocols import Batches, Learner
from neuropil.tasks import preview
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.tasks.forecasting import report
from neuropil.tasks.forecasting.baselines import Autoregressions, persistence, seasonal_naive
from neuropil.tasks.forecasting.linear import LinearStart
from neuropil.tasks.forecasting.predictor import CALIBRATION_FILE, WINDOWS_AT_ONCE, SeriesForecaster
from neuropil.tasks.forecasting.scores import (
    SCORED_BAND,
    UNSTRETCHED,
    Rolled,
    adaptive_factors,
    band_of,
    error_quantiles,
    stretched,
)
from neuropil.training.config import TrainingConfig
from neuropil.training.history import Row
from neuropil.training.previews import Preview
from neuropil.training.weights import save_model

MOST_IN_A_PASS = 10_000
FORECASTS_SHOWN = 4
"""In previews."""


class ForecastingExperiment(TrainableExperiment[Rolled]):
    """`predictions` are forecasts from every origin of the test part, with calibrated bands."""

    def __init__(
        self,
        model: Forecaster,
        splits: SeriesSplits,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        longest_gap: int,
        start: LinearStart,
        horizon_weights: Sequence[float] = (),
    ):
        """`horizon_weights` are those of each step of the forecasts in the loss, the next first."""
        self.splits, self.start, panel, table = splits, start, splits.panel, splits.table
        self.network, self.windows = model, splits.parts
        self.schema = {
            "columns": splits.columns.to_dict(),
            "step": table.step.to_dict(),
            "window": panel.window,
            "horizon": panel.horizon,
            "season": splits.season,
            "longest_gap": longest_gap,
            "units": {each.name: list(astuple(own)) for each, own in zip(table.series, panel.units, strict=True)},
            "calibration": max(panel.window, 2 * panel.horizon),
        }
        self.forecaster = SeriesForecaster.of(model, self.schema, UNSTRETCHED)
        self.horizon_weights = step_weights(horizon_weights, panel.horizon)
        learner = QuantileRegression(model)
        super().__init__(learner, self.windows, training, seed, name, table.source, table.notes)

    def own_facts(self) -> dict[str, Any]:
        return {"series": self.schema, "first": str(self.splits.table.first)}

    def training_keys(self) -> list[str]:
        return self.splits.table.keys_before(self.splits.train_end)

    def fingerprinted(self) -> Iterable[Tensor]:
        panel = self.splits.panel
        return (panel.between, panel.known_at, panel.features)

    def require_scorable(self) -> None:
        require_extra("forecasting", "the baseline of a forecaster")

    def batches(self, part: PartName) -> Batches:
        batches = WindowBatches(self.windows[part], WINDOWS_AT_ONCE, seed=0, shuffle=False, device=self.device)
        if part == "train":
            size, most = self.training.batch_size, MOST_IN_A_PASS
            batches = WindowBatches(self.splits.train, size, self.seed, shuffle=True, most=most, device=self.device)
        if self.horizon_weights is None or part == "test":
            return batches
        weights = self.horizon_weights.to(self.device)
        return WeightedBatches(batches, lambda batch: weights * batch["valid_mask"])

    def calibrate(self, folder: Path) -> None:
        """Widths by forecasts of what no part of the model has seen; then the linear forecast is fitted anew, to the
        validation part too: the latest values tell most of the next."""
        content = json.dumps({"bands": BANDS, "factors": self._factors_after_validation().tolist()}, indent=2)
        write_text(folder / CALIBRATION_FILE, content + "\n")
        self.network.linear.copy_(self.start.later)
        save_model(folder / "model.safetensors", self.network)

    def predict_test(self, learner: Learner) -> Rolled:
        test = self._uncalibrated(self.splits.test)
        factors = adaptive_factors(test, test.origins, self._factors_after_validation().tolist())
        return test.with_quantiles(stretched(test.quantiles, factors))

    def _factors_after_validation(self) -> Float[Tensor, " band"]:
        """By the linear forecast that was fitted before it: errors of the later one would be too small."""
        linear = self.network.linear.clone()
        self.network.linear.copy_(self.start.learned)
        validation = self._uncalibrated(self.splits.validation)
        self.network.linear.copy_(linear)
        return adaptive_factors(validation, torch.tensor([self.splits.test_begin]))[0]

    def preview(self) -> Preview:
        """Forecasts from a few origins, with bands that are not calibrated yet."""
        windows = self.windows[self.watched_part].thinned(FORECASTS_SHOWN)
        rolled, table, length = self._uncalibrated(windows), self.splits.table, self.splits.panel.window
        quantiles = windows.restored(rolled.quantiles)
        history, truth = windows.restored(windows.history(length)), windows.restored(rolled.target)
        low, high = band_of(quantiles, SCORED_BAND)
        places = zip(windows.series.tolist(), windows.origins.tolist(), strict=True)
        return preview.curves(
            {
                "name": f"{table.series[number].name} {table.label(origin)}".strip(),
                "history": preview.numbers(history[index, -preview.MOST_POINTS :]),
                "forecast": preview.numbers(quantiles[index, :, MEDIAN]),
                "low": preview.numbers(low[index]),
                "high": preview.numbers(high[index]),
                "truth": preview.numbers(truth[index].masked_fill(~rolled.valid_mask[index], torch.nan)),
            }
            for index, (number, origin) in enumerate(places)
        )

    def score(self, learner: Learner, predictions: Rolled) -> dict[str, float]:
        return predictions.scores()

    @cached_property
    def compared(self) -> dict[str, Rolled]:
        """Forecasts of the baselines, the best first."""
        splits, panel, season = self.splits, self.splits.panel, self.splits.season
        learned = Autoregressions.fit(panel, season, splits.train_end)
        later = Autoregressions.fit(panel, season, splits.test_begin)
        methods: dict[str, Callable[[SeriesWindows], Tensor]] = {
            f"AR{learned.order}": learned.forecast,
            f"AR{later.order}, fitted to validation too": later.forecast,
            "seasonal naive": lambda windows: seasonal_naive(windows, season),
            "persistence": persistence,
        }
        if season <= 1:
            del methods["seasonal naive"]
        found = {name: self._with_bands(forecast) for name, forecast in methods.items()}
        return dict(sorted(found.items(), key=lambda each: each[1].scores()["mase"]))

    def baselines(self) -> list[Result]:
        return [Result(name, rolled.scores()) for name, rolled in self.compared.items()]

    def sections(self, history: Sequence[Row]) -> list[Section]:
        learning, *others = super().sections(history)
        return [learning, report.start_section(self.start, history, self.training.monitor), *others]

    def own_sections(self) -> list[Section]:
        splits, table = self.splits, self.splits.table
        by_method = {self.name: self.predictions, **self.compared}
        return [
            report.forecasts_section(splits.test, self.predictions, table.target),
            report.horizon_section(by_method, self._uncalibrated(splits.test), str(table.step)),
            report.future_section(self.forecaster, table, splits.panel),
        ]

    def data_section(self) -> Section:
        return report.data_section(self.splits)

    def _uncalibrated(self, windows: SeriesWindows) -> Rolled:
        return Rolled.of(windows, self.forecaster.quantiles(windows))

    def _with_bands(self, forecast: Callable[[SeriesWindows], Tensor]) -> Rolled:
        """Points as quantiles, and around them the quantiles of their own recent errors."""
        validation, test = (
            Rolled.of(windows, forecast(windows).unsqueeze(-1).expand(-1, -1, len(LEVELS)))
            for windows in (self.splits.validation, self.splits.test)
        )
        spread = error_quantiles(validation + test, test.origins, self.forecaster.calibration)
        return test.with_quantiles(test.quantiles + spread)
