"""From a film to a path: the experiment of a tracker, and what it leaves behind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from neuropil.data.films.batches import FilmBatches
from neuropil.data.films.dataset import Films
from neuropil.data.films.files import read_films, read_frames, unlabelled
from neuropil.data.progress import tracked
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.inspection.report.page import Section
from neuropil.models.tracker import Tracker, Tracking
from neuropil.tasks.fingerprint import fingerprint
from neuropil.tasks.recipe import Result
from neuropil.tasks.tracking import report as tracking_report
from neuropil.tasks.tracking.scores import carried_on, score_tracks
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit, pick_device, require_monitor

FRAMES_AT_ONCE = 2_048


@dataclass(frozen=True)
class Tracks:
    """x and y of every frame, film after film."""

    positions: Float[Tensor, "frame 2"]
    lengths: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.positions)

    def lines(self) -> list[list[str]]:
        return [[f"{x:.2f}", f"{y:.2f}"] for x, y in self.positions.tolist()]

    @property
    def films(self) -> list[Float[Tensor, "time 2"]]:
        return list(self.positions.split(list(self.lengths)))


@dataclass(frozen=True)
class FilmTracker:
    """A trained tracker: from frames to positions."""

    model: Tracker
    size: tuple[int, int]
    """Height and width of the frames that positions are in the pixels of."""

    def predict(self, inputs: Any) -> Tracks:
        """`inputs` are frames as bytes, [film time channel height width] or of one film, with or without channels; or paths of films."""
        if isinstance(inputs, str | Path) or (
            isinstance(inputs, list | tuple) and all(isinstance(item, str | Path) for item in inputs)
        ):
            inputs, _ = self.read([Path(path) for path in ([inputs] if isinstance(inputs, str | Path) else inputs)])
        films = inputs if isinstance(inputs, Films) else self._as_films(inputs)
        return Tracks(self.follow(films), tuple(films.lengths.tolist()))

    def read(self, paths: Sequence[Path]) -> tuple[Films, list[str]]:
        return read_frames(paths, self.model.config.shape, self.size)

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        if len(paths) != 1:
            raise InputError("labelled films are one folder or one NPZ", got=f"{len(paths)}")
        films = read_films(paths[0], shape=self.model.config.shape)
        return score_tracks(self.follow(films), films)

    def follow(self, films: Films) -> Float[Tensor, "frame 2"]:
        """Positions in all frames; long films go through the model in pieces, which changes nothing."""
        device = next(self.model.parameters()).device
        found = list[Tensor]()
        with torch.no_grad():
            for frames in tracked(list(_alike(films)), "Following"):
                states, pieces = None, list[Tensor]()
                for piece in frames.split(max(1, FRAMES_AT_ONCE // len(frames)), dim=1):
                    positions, states = self.model.follow(piece.to(device), states)
                    pieces.append(positions.cpu())
                found.append(rearrange(torch.cat(pieces, 1), "film time side -> (film time) side"))
        return torch.cat(found)

    def _as_films(self, inputs: Any) -> Films:
        tensor = inputs if isinstance(inputs, Tensor) else torch.from_numpy(np.ascontiguousarray(inputs))
        channels, height, width = self.model.config.shape
        if channels == 1 and tensor.shape[-2:] == (height, width) and tensor.shape[-3:-2] != (1,):
            tensor = tensor.unsqueeze(-3)
        tensor = tensor.unsqueeze(0) if tensor.ndim == 4 else tensor
        if tensor.ndim != 5 or tensor.shape[2:] != (channels, height, width) or tensor.dtype != torch.uint8:
            expected = f"film, time, {channels}, {height}, {width}"
            raise InputError(
                f"frames must be bytes of the shape ({expected})", got=f"{tuple(tensor.shape)} of {tensor.dtype}"
            )
        lengths = torch.full((len(tensor),), tensor.shape[1])
        return unlabelled(
            tensor.flatten(0, 1), lengths, [f"film {index}" for index in range(len(tensor))], self.size, "frames"
        )


def _alike(films: Films) -> Iterator[Tensor]:
    """Films in their order, neighbours of one length together as [film time channel height width]."""
    lengths, begins = films.lengths.tolist(), films.begins.tolist()
    first = 0
    while first < len(lengths):
        length, last = lengths[first], first + 1
        while last < len(lengths) and lengths[last] == length and (last - first + 1) * length <= FRAMES_AT_ONCE:
            last += 1
        frames = films.frames[begins[first] : begins[first] + (last - first) * length]
        yield rearrange(frames, "(film time) channel height width -> film time channel height width", time=length)
        first = last


class FollowingFilms:
    """The experiment: a tracker, its films, and how it is trained; beside it, if it is given, one without a memory that learns from the
    same batches."""

    def __init__(
        self,
        model: Tracker,
        splits: Splits[Films],
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        window: int,
        rival: tuple[str, Tracker] | None,
    ):
        self.device = pick_device(training.device)
        self.model, self.model_config, self.splits, self.training = (
            model.to(self.device),
            model.config,
            splits,
            training,
        )
        self.seed, self.name, self.window = seed, name, window
        self.learner = Tracking(self.model)
        self.rival = None if rival is None else (rival[0], Tracking(rival[1].to(self.device)))
        self.taught, self.watched = splits.train.pieces(window), splits.validation.pieces(window)
        one = FilmBatches(self.taught.take(torch.zeros(1, dtype=torch.int64)), 1, 0, shuffle=False, device=self.device)
        require_monitor(training, evaluate(self.learner, one))  # before a run folder is made

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "source": self.splits.train.source,
            "size": list(self.splits.train.size),
            "notes": list(self.splits.notes),
            "fingerprint": fingerprint(
                tensor
                for part in (self.splits.train, self.splits.validation, self.splits.test)
                for tensor in (part.frames, part.lengths, part.positions, part.hidden)
            ),
        }

    def train(self, folder: Path, *, show_progress: bool) -> None:
        self._fit(self.learner, folder, self.name, show_progress)
        if self.rival is not None:
            self._fit(self.rival[1], folder / "rival", self.rival[0], show_progress)

    @property
    def training_batches(self) -> FilmBatches:
        return FilmBatches(self.taught, self.training.batch_size, self.seed, shuffle=True, device=self.device)

    @property
    def validation_batches(self) -> FilmBatches:
        return self._held_out(self.watched if len(self.watched) else self.splits.test.pieces(self.window))

    def own_result(self) -> Result:
        return Result(
            self.name,
            score_tracks(FilmTracker(self.model, self.splits.test.size).follow(self.splits.test), self.splits.test),
        )

    def evaluate(self) -> list[Result]:
        return [Result(name, score_tracks(told, self.splits.test)) for name, told in self.told.items()]

    @cached_property
    def told(self) -> dict[str, Float[Tensor, "frame 2"]]:
        """Positions in the test part: the tracker's, those of what it is compared with, and always the mean."""
        test, train = self.splits.test, self.splits.train
        told = {self.name: FilmTracker(self.model, test.size).follow(test)}
        if self.rival is not None:
            name, learner = self.rival
            told[name] = FilmTracker(learner.model, test.size).follow(test)
            if bool(test.hidden.any()):
                told[f"{name}, then straight on"] = carried_on(told[name], test)
        told["always the mean position"] = train.positions[train.known].mean(0).expand(len(test.frames), 2)
        return told

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return tracking_report.sections(self, history)

    def _fit(self, learner: Tracking, folder: Path, title: str, show_progress: bool) -> None:
        fit(
            learner,
            self.training_batches,
            self._held_out(self.watched) if len(self.watched) else None,
            self.training,
            seed=self.seed,
            folder=folder,
            title=title,
            show_progress=show_progress,
        )

    def _held_out(self, films: Films) -> FilmBatches:
        return FilmBatches(films, self.training.batch_size, seed=0, shuffle=False, device=self.device)
