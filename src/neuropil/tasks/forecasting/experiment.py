"""From the history of series to quantiles of their future: the experiment, and the trained forecaster that comes out of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.config import Config
from neuropil.data.series.dataset import Series, SeriesTable, step_names
from neuropil.data.series.files import MOST_ORIGINS, SeriesColumns, SeriesSplits, read_series
from neuropil.data.series.season import naive_scales
from neuropil.data.series.steps import TimeStep
from neuropil.data.series.windows import Panel, SeriesWindows, WindowBatches
from neuropil.errors import InputError
from neuropil.files import write_text
from neuropil.inspection.report.page import Section
from neuropil.models.forecaster import BANDS, LEVELS, MEDIAN, Forecaster, QuantileRegression
from neuropil.parts.parameters import ParameterRow
from neuropil.tasks.fingerprint import fingerprint
from neuropil.tasks.forecasting import report as forecasting_report
from neuropil.tasks.forecasting.baselines import Autoregressions, persistence, seasonal_naive
from neuropil.tasks.forecasting.scores import (
    UNSTRETCHED,
    Rolled,
    band_of,
    error_quantiles,
    factors_from,
    ratios,
    sliding_factors,
    stretched,
)
from neuropil.tasks.recipe import Result
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit, pick_device, require_monitor

WINDOWS_AT_ONCE = 512
MOST_IN_A_PASS = 10_000
CALIBRATION_FILE = "calibration.json"


@dataclass(frozen=True)
class Forecasts:
    """For each series the steps that follow its end."""

    series: list[str]
    dates: list[list[str]]
    quantiles: Float[Tensor, "series horizon level"]
    """At the levels 0.05, 0.1, 0.25, 0.5, 0.75, 0.9 and 0.95."""

    def __len__(self) -> int:
        return self.quantiles.shape[0] * self.quantiles.shape[1]

    @property
    def median(self) -> Float[Tensor, "series horizon"]:
        return self.quantiles[..., MEDIAN]

    def band(self, share: float = 0.8) -> tuple[Float[Tensor, "series horizon"], Float[Tensor, "series horizon"]]:
        """Low and high of the band that should hold this share of the truth: 0.5, 0.8 or 0.9."""
        if share not in BANDS:
            raise InputError(f"a band must hold one of the shares {', '.join(map(str, BANDS))}", got=f"{share}")
        return band_of(self.quantiles, BANDS.index(share))

    def lines(self) -> list[list[str]]:
        """The median, then low and high of each band."""
        cells = [[f"{value:.5g}"] for value in self.median.flatten().tolist()]
        for share in BANDS:
            low, high = self.band(share)
            for row, below, above in zip(cells, low.flatten().tolist(), high.flatten().tolist(), strict=True):
                row.append(f"{100 * share:g} % {below:.5g} to {above:.5g}")
        return cells


@dataclass(frozen=True)
class TrainedForecaster:
    """A trained model and all that it must know of its data to read more of the kind."""

    model: nn.Module
    columns: SeriesColumns
    step: TimeStep
    window: int
    horizon: int
    season: int
    longest_gap: int
    scales: Mapping[str, float]
    """Of each series of the training data, by name."""
    calibration: int
    """Over how many steps of outcomes the bands are calibrated."""
    factors: tuple[float, ...]
    """By which the bands are stretched where a file is too short to tell."""

    def predict(self, inputs: "SeriesTable | str | Path | Sequence[float] | np.ndarray") -> Forecasts:
        """What follows the end of each series: of a file, of a table that was read, or of plain values, the last of which is the latest."""
        table = self._table(inputs)
        panel = self._panel(table)
        last = panel.last_windows()
        quantiles = stretched(self.quantiles(last), self._factors(panel, last))
        return Forecasts([series.name for series in table.series], self._dates(table), quantiles)

    def read(self, paths: Sequence[Path]) -> tuple[SeriesTable, list[str]]:
        if len(paths) != 1:
            raise InputError("a forecast continues the series of one file", got=f"{len(paths)}")
        table = self._table(paths[0])
        return table, step_names([series.name for series in table.series], self._dates(table))

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        """Scores of forecasts from every origin of a file that has a window of history before it and a horizon after."""
        if len(paths) != 1:
            raise InputError("series to score are those of one file", got=f"{len(paths)}")
        panel = self._panel(self._table(paths[0]))
        windows = panel.windows(0, panel.table.end).thinned(MOST_ORIGINS)
        if not len(windows):
            needed = panel.table.step.of(self.window + self.horizon)
            raise InputError(f"series to score must have {needed} without a long gap", got="none")
        rolled = Rolled.of(windows, self.quantiles(windows))
        factors = sliding_factors(rolled, rolled.origins, self.calibration, self.factors)
        return rolled.with_quantiles(stretched(rolled.quantiles, factors)).scores()

    def quantiles(self, windows: SeriesWindows) -> Float[Tensor, "window horizon level"]:
        """As the net gives them, before calibration."""
        device = next(self.model.parameters()).device
        found = []
        with torch.no_grad():
            for batch in WindowBatches(windows, WINDOWS_AT_ONCE, seed=0, shuffle=False, device=device).epoch(0):
                found.append(self.model(batch["history"], batch["known"]).cpu())
        return torch.cat(found) if found else torch.zeros(0, self.horizon, len(LEVELS))

    def _dates(self, table: SeriesTable) -> list[list[str]]:
        return [[table.label(series.end + step) for step in range(self.horizon)] for series in table.series]

    def _factors(self, panel: Panel, last: SeriesWindows) -> Float[Tensor, "window band"]:
        """From the latest outcomes in the data itself, as the bands were calibrated when they were scored."""
        begin = min(series.end for series in panel.table.series) - 2 * self.horizon - self.calibration
        recent = panel.windows(begin, panel.table.end).thinned(MOST_ORIGINS)
        return sliding_factors(Rolled.of(recent, self.quantiles(recent)), last.origins, self.calibration, self.factors)

    def _panel(self, table: SeriesTable) -> Panel:
        own = naive_scales(table, self.season, table.end)
        scales = [self.scales.get(series.name, scale) for series, scale in zip(table.series, own, strict=True)]
        return Panel.of(table, self.window, self.horizon, self.longest_gap, scales)

    def _table(self, inputs: Any) -> SeriesTable:
        if isinstance(inputs, SeriesTable):
            return inputs
        if isinstance(inputs, str | Path):
            return read_series(Path(inputs), self.columns, self.step)[0]
        values = np.asarray(inputs, dtype=np.float64)
        if values.ndim != 1 or not len(values) or np.isnan(values[[0, -1]]).any():
            raise InputError(
                "values to continue must be a row of numbers that begins and ends with one",
                got=f"an array of shape {values.shape}",
            )
        table = SeriesTable(
            (Series("", 0, values, np.zeros((len(values), 0))),),
            self.step,
            None,
            self.columns.target or "",
            self.columns.known,
        )
        if table.num_features:
            rule = "this forecaster needs what is known in advance, such as dates, beside the values"
            raise InputError(rule, got="values only", fix="give a file")
        return table


class Forecasting:
    """The experiment: a model, its windows, and how it is trained."""

    def __init__(
        self,
        model: Forecaster,
        model_config: Config,
        splits: SeriesSplits,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        longest_gap: int,
        parameters: Sequence[ParameterRow],
    ):
        self.device = pick_device(training.device)
        self.model, self.model_config, self.splits, self.training = (
            model.to(self.device),
            model_config,
            splits,
            training,
        )
        self.seed, self.name, self.parameters = seed, name, parameters
        self.learner = QuantileRegression(self.model)
        self.forecaster = trained_forecaster(self.model, self._schema(longest_gap), UNSTRETCHED)
        one = splits.test.take(torch.zeros(1, dtype=torch.int64))
        require_monitor(training, evaluate(self.learner, self._held_out(one)))  # before a run folder is made

    def _schema(self, longest_gap: int) -> dict[str, Any]:
        splits, panel = self.splits, self.splits.panel
        return {
            "columns": splits.columns.to_dict(),
            "step": splits.table.step.to_dict(),
            "window": panel.window,
            "horizon": panel.horizon,
            "season": splits.season,
            "longest_gap": longest_gap,
            "scales": {
                series.name: scale for series, scale in zip(splits.table.series, panel.scales.tolist(), strict=True)
            },
            "calibration": max(panel.window, 2 * panel.horizon),
        }

    def facts(self) -> dict[str, Any]:
        panel = self.splits.panel
        return {
            "model": self.model_config.to_dict(),
            "series": self._schema(self.forecaster.longest_gap),
            "source": self.splits.table.source,
            "notes": list(self.splits.table.notes),
            "fingerprint": fingerprint((panel.between, panel.known_at, panel.features), text=str(panel.table.first)),
        }

    def train(self, folder: Path, *, show_progress: bool) -> None:
        fit(
            self.learner,
            self.training_batches,
            self._held_out(self.splits.validation) if len(self.splits.validation) else None,
            self.training,
            seed=self.seed,
            folder=folder,
            title=self.name,
            show_progress=show_progress,
        )
        validation = Rolled.of(self.splits.validation, self.forecaster.quantiles(self.splits.validation))
        factors = factors_from(ratios(validation), validation.there)
        write_text(
            folder / CALIBRATION_FILE, json.dumps({"bands": BANDS, "factors": factors.tolist()}, indent=2) + "\n"
        )

    @property
    def training_batches(self) -> WindowBatches:
        size, most = self.training.batch_size, MOST_IN_A_PASS
        return WindowBatches(self.splits.train, size, self.seed, shuffle=True, most=most, device=self.device)

    @property
    def validation_batches(self) -> WindowBatches:
        return self._held_out(self.splits.validation if len(self.splits.validation) else self.splits.test)

    def own_result(self) -> Result:
        return Result(self.name, self._roll()[1].scores())

    def evaluate(self) -> list[Result]:
        """The run's own first, then the baselines, the strongest first."""
        others = [Result(name, rolled.scores()) for name, rolled in self.baselines.items()]
        return [Result(self.name, self.rolled.scores()), *sorted(others, key=lambda result: result.metrics["mase"])]

    @cached_property
    def rolled(self) -> Rolled:
        """Forecasts of the test part by the trained model, calibrated."""
        return self._roll()[1]

    @cached_property
    def uncalibrated(self) -> Rolled:
        return self._roll()[0]

    def _roll(self) -> tuple[Rolled, Rolled]:
        """As the net gives them, and calibrated."""
        validation, test = (
            Rolled.of(part, self.forecaster.quantiles(part)) for part in (self.splits.validation, self.splits.test)
        )
        factors = sliding_factors(validation + test, test.origins, self.forecaster.calibration)
        return test, test.with_quantiles(stretched(test.quantiles, factors))

    @cached_property
    def baselines(self) -> dict[str, Rolled]:
        splits, panel, season = self.splits, self.splits.panel, self.splits.season
        learned = Autoregressions.fit(panel, season, splits.train_end)
        later = Autoregressions.fit(panel, season, splits.test_begin)
        methods: dict[str, Callable[[SeriesWindows], Tensor]] = {
            f"AR{learned.order}": learned.forecast,
            f"AR{later.order}, fitted to validation too": later.forecast,
            "seasonal naive": lambda windows: seasonal_naive(windows, season),
            "persistence": persistence,
        }
        return {
            name: self._with_bands(forecast)
            for name, forecast in methods.items()
            if season > 1 or name != "seasonal naive"
        }

    def _with_bands(self, forecast: Callable[[SeriesWindows], Tensor]) -> Rolled:
        parts = []
        for windows in (self.splits.validation, self.splits.test):
            points = forecast(windows)
            parts.append(Rolled.of(windows, points.unsqueeze(-1).expand(-1, -1, len(LEVELS))))
        validation, test = parts
        spread = error_quantiles(validation + test, test.origins, self.forecaster.calibration)
        return test.with_quantiles(test.quantiles + spread * rearrange(test.scale, "window -> window 1 1"))

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return forecasting_report.sections(self, history)

    def _held_out(self, windows: SeriesWindows) -> WindowBatches:
        return WindowBatches(windows, WINDOWS_AT_ONCE, seed=0, shuffle=False, device=self.device)


def trained_forecaster(model: nn.Module, schema: Mapping[str, Any], factors: Sequence[float]) -> TrainedForecaster:
    columns, step = SeriesColumns.from_dict(schema["columns"]), TimeStep.from_dict(schema["step"])
    return TrainedForecaster(model, **{**schema, "columns": columns, "step": step, "factors": tuple(factors)})


def load_factors(folder: Path) -> Sequence[float]:
    """Those that a run kept, or none where it was stopped before."""
    path = folder / CALIBRATION_FILE
    return json.loads(path.read_text(encoding="utf-8"))["factors"] if path.exists() else UNSTRETCHED
