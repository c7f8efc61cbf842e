"""A trained forecaster, with all that it must know of its data to read more of the kind: from series to quantiles of
their future."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from neuropil.data.formats.arrays import require_finite
from neuropil.data.formats.memory import in_memory
from neuropil.data.series.dataset import Series, SeriesTable, SeriesUnits, step_names
from neuropil.data.series.files import MOST_ORIGINS, SeriesColumns, read_series
from neuropil.data.series.season import find_units
from neuropil.data.series.steps import TimeStep
from neuropil.data.series.windows import Panel, SeriesWindows, WindowBatches
from neuropil.errors import InputError, RunError, listed
from neuropil.models.forecaster import BANDS, LEVELS, MEDIAN
from neuropil.tasks.forecasting.scores import UNSTRETCHED, Rolled, adaptive_factors, band_of, stretched
from neuropil.tasks.predictor import Source, device_of, only_path, only_source
from neuropil.tasks.results import results_of
from neuropil.training.history import read_history

WINDOWS_AT_ONCE = 512
CALIBRATION_FILE = "calibration.json"


@dataclass(frozen=True)
class SeriesForecasts:
    """For each series the steps that follow its end."""

    series: list[str]
    dates: list[list[str]]
    quantiles: Float64[Tensor, "series horizon level"]
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

    @property
    def digits(self) -> int:
        """Significant digits that tell the quantiles of a step apart: more where a series moves little for its size."""
        width, size = (self.quantiles[..., -1] - self.quantiles[..., 0]).mean(), self.quantiles.abs().max()
        return max(5, 3 + math.ceil(math.log10(size / width))) if size > 0 and width > 0 else 5

    def lines(self) -> list[list[str]]:
        """The median, then low and high of each band."""
        digits = self.digits
        cells = [[f"{value:.{digits}g}"] for value in self.median.flatten().tolist()]
        for share in BANDS:
            low, high = self.band(share)
            for row, below, above in zip(cells, low.flatten().tolist(), high.flatten().tolist(), strict=True):
                row.append(f"{100 * share:g} % {below:.{digits}g} to {above:.{digits}g}")
        return cells

    def records(self) -> list[dict[str, Any]]:
        """The median, then low and high of each band, by its share."""
        bands = {share: torch.stack(self.band(share), -1).flatten(0, -2).tolist() for share in BANDS}
        return [
            {"median": median, "bands": {f"{share:g}": bands[share][index] for share in BANDS}}
            for index, median in enumerate(self.median.flatten().tolist())
        ]


@dataclass(frozen=True)
class SeriesForecaster:
    model: nn.Module
    columns: SeriesColumns
    step: TimeStep
    window: int
    horizon: int
    season: int
    longest_gap: int
    units: Mapping[str, SeriesUnits]
    """Of each series of the training data, by name."""
    calibration: int
    """Over how many steps before the end of a file the bands are calibrated."""
    factors: tuple[float, ...]
    """By which the bands were stretched at the end of the validation part."""

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        """With the factors that the run kept, or none where it was stopped before."""
        return cls.of(model, facts["series"], _factors_of(folder))

    @classmethod
    def of(cls, model: nn.Module, schema: Mapping[str, Any], factors: Sequence[float]) -> Self:
        columns, step = SeriesColumns.from_dict(schema["columns"]), TimeStep.from_dict(schema["step"])
        units = {name: SeriesUnits(*own) for name, own in schema["units"].items()}
        return cls(model, **{**schema, "columns": columns, "step": step, "units": units, "factors": tuple(factors)})

    def predict(self, inputs: Any) -> SeriesForecasts:
        return self.forecast(inputs)

    def forecast(self, inputs: Any) -> SeriesForecasts:
        """What follows the end of each series: of a file, of a table that was read, or of plain values, the last of
        which is the latest."""
        table = self._table(inputs)
        panel = self.panel(table)
        last = panel.last_windows()
        quantiles = last.restored(stretched(self.quantiles(last), self._factors(panel, last)))
        if not quantiles.isfinite().all():
            largest = max(np.nanmax(np.abs(series.values)) for series in table.series)
            rule = "values to continue must be of the size of those that were learned, or nearly"
            raise InputError(rule, got=f"some of up to {largest:g}")
        return SeriesForecasts([series.name for series in table.series], self._dates(table), quantiles)

    def read(self, paths: Sequence[Path]) -> tuple[SeriesTable, list[str]]:
        table = self._table(only_path(paths, "a forecast continues the series of"))
        return table, step_names([series.name for series in table.series], self._dates(table))

    def read_labelled(self, source: Source) -> SeriesTable:
        return self._table(only_source(source, "series to score are those of"))

    def evaluate(self, table: SeriesTable) -> dict[str, float]:
        """Scores of forecasts from every origin that has a window of history before it and a horizon after."""
        panel = self.panel(table)
        windows = panel.windows(0, panel.table.end).thinned(MOST_ORIGINS)
        if not len(windows):
            needed = panel.table.step.of(self.window + self.horizon)
            raise InputError(f"series to score must have {needed} without a long gap", got="none")
        rolled = Rolled.of(windows, self.quantiles(windows))
        factors = adaptive_factors(rolled, rolled.origins, self.factors)
        return rolled.with_quantiles(stretched(rolled.quantiles, factors)).scores()

    def quantiles(self, windows: SeriesWindows) -> Float[Tensor, "window horizon level"]:
        """As the net gives them, before calibration."""
        batches = WindowBatches(windows, WINDOWS_AT_ONCE, seed=0, shuffle=False, device=device_of(self.model))
        with torch.no_grad():
            found = [self.model(batch["history"], batch["known"]).cpu() for batch in batches.epoch(0)]
        return torch.cat(found) if found else torch.zeros(0, self.horizon, len(LEVELS))

    def _dates(self, table: SeriesTable) -> list[list[str]]:
        return [[table.label(series.end + step) for step in range(self.horizon)] for series in table.series]

    def _factors(self, panel: Panel, last: SeriesWindows) -> Float[Tensor, "window band"]:
        """From the latest outcomes in the data itself, as the bands were calibrated when they were scored."""
        begin = min(series.end for series in panel.table.series) - 2 * self.horizon - self.calibration
        recent = panel.windows(begin, panel.table.end).thinned(MOST_ORIGINS)
        return adaptive_factors(Rolled.of(recent, self.quantiles(recent)), last.origins, self.factors)

    def panel(self, table: SeriesTable) -> Panel:
        """In the units of the training data, where a series was in it."""
        own = find_units(table, self.season, table.end)
        units = [self.units.get(series.name, found) for series, found in zip(table.series, own, strict=True)]
        return Panel.of(table, self.window, self.horizon, self.longest_gap, units)

    def _table(self, inputs: Any) -> SeriesTable:
        if isinstance(inputs, SeriesTable):
            return inputs
        if isinstance(inputs, str | Path):
            return read_series(Path(inputs), self.columns, self.step)[0]
        if not isinstance(inputs, np.ndarray | Tensor | list | tuple):
            return read_series(in_memory(inputs), self.columns, self.step)[0]
        rule = "values to continue must be a row of numbers that begins and ends with one"
        try:
            values = np.asarray(inputs.numpy(force=True) if isinstance(inputs, Tensor) else inputs, dtype=np.float64)
        except (TypeError, ValueError) as cause:
            raise InputError(rule, got=f"a {type(inputs).__name__} of other things ({cause})") from cause
        if values.ndim != 1 or not len(values) or np.isnan(values[[0, -1]]).any():
            raise InputError(rule, got=f"an array of shape {values.shape}")
        require_finite(values, "values to continue", gaps=True)
        series = Series("", 0, values, np.zeros((len(values), 0)))
        table = SeriesTable((series,), self.step, None, self.columns.target or "", self.columns.known)
        if table.num_features:
            rule = "this forecaster needs what is known in advance, such as dates, beside the values"
            named = [name for name in (self.columns.date, self.columns.target, *self.columns.known) if name]
            raise InputError(rule, got="values only", fix=f"give a table with the columns {listed(named)}")
        return table


def _factors_of(folder: Path) -> Sequence[float]:
    path = folder / CALIBRATION_FILE
    if not path.exists() and not results_of(read_history(folder / "metrics.jsonl")):
        return UNSTRETCHED
    try:
        return [float(factor) for factor in json.loads(path.read_text(encoding="utf-8"))["factors"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        rule, got = (
            f"{path} must be the JSON that neuropil wrote",
            "a damaged file" if path.exists() else "no such file",
        )
        raise RunError(rule, got=got, fix="restore it or train again") from error
