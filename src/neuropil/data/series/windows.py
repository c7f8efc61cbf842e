"""Windows of series: what was known up to an origin, and what followed.

    history = y[o − W … o − 1]        target = y[o … o + H − 1]

Nothing of a window's input depends on a value at or after its origin o. So a gap is filled by a straight line only if the value at its
far end was known by then; otherwise the last value before it is carried on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from neuropil.data.series.dataset import Series, SeriesTable, gap_lengths
from neuropil.errors import InputError
from neuropil.protocols import Batch
from neuropil.randomness import seeded

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Panel:
    """All series one after another, each followed by room for a horizon after its end; `window` and `horizon` are W and H."""

    table: SeriesTable
    window: int
    horizon: int
    between: Float32[Tensor, " place"]
    """The values, gaps filled by straight lines."""
    before: Float32[Tensor, " place"]
    """The values, gaps filled by what came before."""
    known_at: Int64[Tensor, " place"]
    """The place of the value at the far end of a gap; where there is a value, its own."""
    readable: Bool[Tensor, " place"]
    """False inside gaps that are too long to be filled, and after the end."""
    features: Float32[Tensor, "place feature"]
    scales: Float32[Tensor, " series"]
    """One for each series, in whose units it is learned and scored."""
    begins: tuple[int, ...]
    """The place of each series' first value."""

    @classmethod
    def of(cls, table: SeriesTable, window: int, horizon: int, longest_gap: int, scales: Sequence[float]) -> "Panel":
        pieces = [_laid_out(table, series, horizon, longest_gap) for series in table.series]
        begins = np.cumsum([0, *(len(piece.between) for piece in pieces)])
        known_at = [
            np.where(piece.known_at == NEVER, NEVER, piece.known_at + b)
            for piece, b in zip(pieces, begins, strict=False)
        ]
        return cls(
            table,
            window,
            horizon,
            torch.from_numpy(np.concatenate([piece.between for piece in pieces])).float(),
            torch.from_numpy(np.concatenate([piece.before for piece in pieces])).float(),
            torch.from_numpy(np.concatenate(known_at)),
            torch.from_numpy(np.concatenate([piece.readable for piece in pieces])),
            torch.from_numpy(np.concatenate([piece.features for piece in pieces])).float(),
            torch.tensor(scales, dtype=torch.float32),
            tuple(begins[:-1].tolist()),
        )

    def windows(self, begin: int, end: int) -> "Windows":
        """Of all series, those whose targets lie in the steps from `begin` to before `end`; at least one target has a value."""
        places, series = [], []
        unreadable = torch.cat([torch.zeros(1, dtype=torch.int64), (~self.readable).long().cumsum(0)])
        there = torch.cat([torch.zeros(1, dtype=torch.int64), self.there.long().cumsum(0)])
        for number, (each, first) in enumerate(zip(self.table.series, self.begins, strict=True)):
            low = max(begin, each.start + self.window)
            high = min(end, each.end) - self.horizon + 1
            origin = torch.arange(low, max(low, high)) - each.start + first
            whole = unreadable[origin] == unreadable[origin - self.window]
            places.append(origin[whole & (there[origin + self.horizon] > there[origin])])
            series.append(torch.full((len(places[-1]),), number))
        return Windows(self, torch.cat(places), torch.cat(series))

    def last_windows(self) -> "Windows":
        """The one at the end of each series, whose targets nobody knows yet."""
        places = []
        for each, first in zip(self.table.series, self.begins, strict=True):
            self._require_history(each, first)
            self._require_known(each)
            places.append(first + len(each.values))
        return Windows(self, torch.tensor(places), torch.arange(len(places)))

    @property
    def there(self) -> Bool[Tensor, " place"]:
        """Where there is a value."""
        return self.known_at == torch.arange(len(self.known_at))

    def _require_history(self, series: Series, first: int) -> None:
        name, step = series_name(series), self.table.step
        if len(series.values) < self.window:
            raise InputError(
                f"a forecast of {name} needs {step.of(self.window)} of history", got=f"{len(series.values):,}"
            )
        if not self.readable[first + len(series.values) - self.window : first + len(series.values)].all():
            rule = f"the last {step.of(self.window)} of {name} must have no long gap for a forecast"
            raise InputError(rule, got="one that is too long to be filled", fix="fill it in")

    def _require_known(self, series: Series) -> None:
        missing = self.horizon - (len(series.known) - len(series.values))
        if self.table.known and missing > 0:
            last = self.table.label(series.end - 1)
            raise InputError(
                f"a forecast needs {' and '.join(map(repr, self.table.known))} of the {self.table.step.of(self.horizon)} after {last} too",
                got=f"{self.horizon - missing}",
                fix="add rows for them in which the target is left empty",
            )


@dataclass(frozen=True)
class Windows:
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

    def take(self, index: Int64[Tensor, " chosen"]) -> "Windows":
        return Windows(self.panel, self.places[index], self.series[index])

    def thinned(self, most: int) -> "Windows":
        """At most so many, evenly spaced over each and all."""
        if len(self) <= most:
            return self
        return self.take(torch.linspace(0, len(self) - 1, most).round().long())

    def history(self, length: int) -> Float32[Tensor, "window time"]:
        """The values before the origin, as they were known there; a series that is shorter begins with its first value."""
        first = torch.tensor(self.panel.begins)[self.series].unsqueeze(1)
        place = (self.places.unsqueeze(1) + torch.arange(-length, 0)).clamp(min=first)
        was_known = self.panel.known_at[place] < self.places.unsqueeze(1)
        return torch.where(was_known, self.panel.between[place], self.panel.before[place])

    def batch(self) -> dict[str, Tensor]:
        """`history`, what was `known` of it and of the horizon in advance, `target` (0 where there is none), whether it is `there`, and the
        `scale` of its series."""
        window, horizon = self.panel.window, self.panel.horizon
        place = self.places.unsqueeze(1) + torch.arange(-window, horizon)
        there = self.panel.there[place[:, window:]]
        return {
            "history": self.history(window),
            "known": self.panel.features[place],
            "target": torch.where(there, self.panel.between[place[:, window:]], 0.0),
            "valid_mask": there,
            "scale": self.panel.scales[self.series],
        }


class WindowBatches:
    """Passes over windows, cut out when they are needed. A pass is the same whenever it is made, and from whatever batch on.

    Windows overlap, so a pass in random order need not have all of them: `most` are drawn, others each time.
    """

    def __init__(
        self,
        windows: Windows,
        size: int,
        seed: int,
        *,
        shuffle: bool,
        most: int | None = None,
        device: torch.device | str = "cpu",
    ):
        self.windows, self.size, self.seed, self.shuffle, self.device = (
            windows,
            size,
            seed,
            shuffle,
            torch.device(device),
        )
        self.count = min(len(windows), most or len(windows))

    def __len__(self) -> int:
        return -(-self.count // self.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        every = len(self.windows)
        order = torch.randperm(every, generator=seeded(self.seed, number)) if self.shuffle else torch.arange(every)
        for chosen in order[: self.count].split(self.size)[start:]:
            yield {name: values.to(self.device) for name, values in self.windows.take(chosen).batch().items()}


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
    there = ~np.isnan(values)
    between = np.interp(places, places[there], values[there])
    before = values[np.maximum.accumulate(np.where(there, places, 0))]
    known_at = places[there][np.searchsorted(places[there], places)]
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


def series_name(series: Series) -> str:
    return f"the series {series.name!r}" if series.name else "the series"
