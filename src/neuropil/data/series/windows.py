"""Windows of series: what was known up to an origin, and what followed.

    history = y[o − W … o − 1]        target = y[o … o + H − 1]

Nothing of a window's input depends on a value at or after its origin o. So a gap is filled by a straight line only if
the value at its far end was known by then; otherwise the last value before it is carried on.

Each series is learned and scored in its own units, (y − level) / scale, computed in double precision: a series around
1e9 that moves by 1 would have few different values in single precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64
from torch import Tensor

from neuropil.data.batches import Device, ShuffledBatches
from neuropil.data.series.dataset import Series, SeriesTable, SeriesUnits, gap_lengths, series_name
from neuropil.errors import InputError

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Panel:
    """All series one after another, each with room for a horizon after its end; `window` and `horizon` are W and H."""

    table: SeriesTable
    window: int
    horizon: int
    units: Sequence[SeriesUnits]
    """Of each series."""
    between: Float32[Tensor, " place"]
    """The values in these units, gaps filled by straight lines."""
    before: Float32[Tensor, " place"]
    """The same, gaps filled by what came before."""
    known_at: Int64[Tensor, " place"]
    """The place of the value at the far end of a gap; where there is a value, its own."""
    readable: Bool[Tensor, " place"]
    """False inside gaps that are too long to be filled, and after the end."""
    features: Float32[Tensor, "place feature"]
    begins: tuple[int, ...]
    """The place of each series' first value."""

    @classmethod
    def of(
        cls, table: SeriesTable, window: int, horizon: int, longest_gap: int, units: Sequence[SeriesUnits]
    ) -> "Panel":
        pieces = [
            _laid_out(table, replace(series, values=own.standardised(series.values)), horizon, longest_gap)
            for series, own in zip(table.series, units, strict=True)
        ]
        begins = np.cumsum([0, *(len(piece.between) for piece in pieces)])
        known_at = [np.where(p.known_at == NEVER, NEVER, p.known_at + b) for p, b in zip(pieces, begins, strict=False)]

        def joined(name: str) -> Tensor:
            return torch.from_numpy(np.concatenate([getattr(piece, name) for piece in pieces]))

        return cls(
            table,
            window,
            horizon,
            units,
            between=joined("between").float(),
            before=joined("before").float(),
            known_at=torch.from_numpy(np.concatenate(known_at)),
            readable=joined("readable"),
            features=joined("features").float(),
            begins=tuple(begins[:-1].tolist()),
        )

    def windows(self, begin: int, end: int) -> "SeriesWindows":
        """All whose targets lie in the steps from `begin` to before `end` and have at least one value."""
        places, series = [], []
        unreadable = torch.cat([torch.zeros(1, dtype=torch.int64), (~self.readable).long().cumsum(0)])
        values = torch.cat([torch.zeros(1, dtype=torch.int64), self.valid_mask.long().cumsum(0)])
        for number, (each, first) in enumerate(zip(self.table.series, self.begins, strict=True)):
            low = max(begin, each.start + self.window)
            high = min(end, each.end) - self.horizon + 1
            origin = torch.arange(low, max(low, high)) - each.start + first
            whole = unreadable[origin] == unreadable[origin - self.window]
            places.append(origin[whole & (values[origin + self.horizon] > values[origin])])
            series.append(torch.full((len(places[-1]),), number))
        return SeriesWindows(self, torch.cat(places), torch.cat(series))

    def last_windows(self) -> "SeriesWindows":
        """The one at the end of each series, whose targets nobody knows yet."""
        places = []
        for each, first in zip(self.table.series, self.begins, strict=True):
            self._require_history(each, first)
            self._require_known(each)
            places.append(first + len(each.values))
        return SeriesWindows(self, torch.tensor(places), torch.arange(len(places)))

    @property
    def valid_mask(self) -> Bool[Tensor, " place"]:
        """Where there is a value."""
        return self.known_at == torch.arange(len(self.known_at))

    def _require_history(self, series: Series, first: int) -> None:
        name, step = series_name(series), self.table.step
        if len(series.values) < self.window:
            rule = f"a forecast of {name} needs {step.of(self.window)} of history"
            raise InputError(rule, got=f"{len(series.values):,}")
        if not self.readable[first + len(series.values) - self.window : first + len(series.values)].all():
            rule = f"the last {step.of(self.window)} of {name} must have no long gap for a forecast"
            raise InputError(rule, got="one that is too long to be filled", fix="fill it in")

    def _require_known(self, series: Series) -> None:
        missing = self.horizon - (len(series.known) - len(series.values))
        if self.table.known and missing > 0:
            last = self.table.label(series.end - 1)
            names = " and ".join(map(repr, self.table.known))
            needed = f"{names} of the {self.table.step.of(self.horizon)} after {last}"
            fix = "add rows for them in which the target is left empty"
            raise InputError(f"a forecast needs {needed} too", got=f"{self.horizon - missing}", fix=fix)


@dataclass(frozen=True)
class SeriesWindows:
    panel: Panel
    places: Int64[Tensor, " window"]
    """Of the origins."""
    series: Int64[Tensor, " window"]

    def __len__(self) -> int:
        return len(self.places)

    @property
    def origins(self) -> Int64[Tensor, " window"]:
        """Each window's first target, as a step of the time that all series share."""
        starts = torch.tensor([series.start for series in self.panel.table.series])
        return self.places - torch.tensor(self.panel.begins)[self.series] + starts[self.series]

    def take(self, index: Int64[Tensor, " chosen"]) -> "SeriesWindows":
        return SeriesWindows(self.panel, self.places[index], self.series[index])

    def thinned(self, most: int) -> "SeriesWindows":
        """At most so many, evenly spaced over each and all."""
        if len(self) <= most:
            return self
        return self.take(torch.linspace(0, len(self) - 1, most).round().long())

    def history(self, length: int) -> Float32[Tensor, "window time"]:
        """The values before the origin, as they were known there; a shorter series begins with its first value."""
        first = torch.tensor(self.panel.begins)[self.series].unsqueeze(1)
        place = (self.places.unsqueeze(1) + torch.arange(-length, 0)).clamp(min=first)
        was_known = self.panel.known_at[place] < self.places.unsqueeze(1)
        return torch.where(was_known, self.panel.between[place], self.panel.before[place])

    def batch(self, index: Int64[Tensor, " batch"] | None = None) -> dict[str, Tensor]:
        """Of all windows or of some: `history`, what was `known` of it and of the horizon in advance, `target` (0 where
        there is none), and its `valid_mask`."""
        if index is not None:
            return self.take(index).batch()
        window, horizon = self.panel.window, self.panel.horizon
        place = self.places.unsqueeze(1) + torch.arange(-window, horizon)
        valid_mask = self.panel.valid_mask[place[:, window:]]
        return {
            "history": self.history(window),
            "known": self.panel.features[place],
            "target": torch.where(valid_mask, self.panel.between[place[:, window:]], 0.0),
            "valid_mask": valid_mask,
        }

    def restored(self, values: Float[Tensor, "window *any"]) -> Float64[Tensor, "window *any"]:
        """Values in the units of the panel, such as forecasts, as those of the table."""
        scale, level = (
            torch.tensor([getattr(own, name) for own in self.panel.units], dtype=torch.double)[self.series].view(
                -1, *[1] * (values.ndim - 1)
            )
            for name in ("scale", "level")
        )
        return level + scale * values.double()


class WindowBatches(ShuffledBatches):
    """Passes over windows, cut out when they are needed.

    Windows overlap, so a pass in random order need not have all of them: `most` are drawn, others each time.
    """

    def __init__(
        self,
        windows: SeriesWindows,
        size: int,
        seed: int,
        *,
        shuffle: bool,
        most: int | None = None,
        device: Device = "cpu",
    ):
        super().__init__(windows, size, seed, shuffle=shuffle, device=device)
        self.count = min(len(windows), most or len(windows))

    def __len__(self) -> int:
        return -(-self.count // self.size)

    def order(self, number: int) -> Int64[Tensor, " window"]:
        return super().order(number)[: self.count]


@dataclass(frozen=True)
class _Piece:
    """One series of a panel; places are counted from its first value."""

    between: Float64[np.ndarray, " place"]
    before: Float64[np.ndarray, " place"]
    known_at: Int64[np.ndarray, " place"]
    readable: Bool[np.ndarray, " place"]
    features: Float64[np.ndarray, "place feature"]


def _laid_out(table: SeriesTable, series: Series, horizon: int, longest_gap: int) -> _Piece:
    values, after = series.values, np.zeros(horizon)
    places = np.arange(len(values))
    valid = ~np.isnan(values)
    between = np.interp(places, places[valid], values[valid])
    before = values[np.maximum.accumulate(np.where(valid, places, 0))]
    known_at = places[valid][np.searchsorted(places[valid], places)]
    steps = len(values) + horizon
    known = np.concatenate([series.known, np.zeros((max(0, steps - len(series.known)), series.known.shape[1]))])
    with_room = Series(series.name, series.start, values, known)
    return _Piece(
        np.concatenate([between, after]),
        np.concatenate([before, after]),
        np.concatenate([known_at, np.full(horizon, NEVER)]),
        np.concatenate([gap_lengths(values) <= longest_gap, np.zeros(horizon, bool)]),
        table.features(with_room, steps),
    )
