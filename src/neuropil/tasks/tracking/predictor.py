"""A trained tracker: from films to the position of an object in each frame."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from neuropil.data.films.dataset import Films
from neuropil.data.films.files import read_films, read_frames, unlabelled
from neuropil.data.formats.arrays import as_array, as_writable
from neuropil.errors import InputError
from neuropil.models.tracker import Tracker
from neuropil.progress import tracked
from neuropil.tasks.predictor import Source, as_paths, device_of, only_path
from neuropil.tasks.tracking.scores import score_tracks

FRAMES_AT_ONCE = 2_048


@dataclass(frozen=True)
class TrackedFilms:
    """x and y of every frame, film after film."""

    positions: Float[Tensor, "frame 2"]
    lengths: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.positions)

    def lines(self) -> list[list[str]]:
        return [[f"{x:.2f}", f"{y:.2f}"] for x, y in self.positions.tolist()]

    def records(self) -> list[dict[str, Any]]:
        return [{"x": x, "y": y} for x, y in self.positions.tolist()]

    @property
    def films(self) -> list[Float[Tensor, "time 2"]]:
        return list(self.positions.split(list(self.lengths)))


@dataclass(frozen=True)
class FilmTracker:
    model: Tracker
    size: tuple[int, int]
    """Height and width of the frames that positions are in the pixels of."""

    @classmethod
    def restore(cls, model: Tracker, facts: Mapping[str, Any], folder: Path) -> Self:
        height, width = facts["size"]
        return cls(model, (height, width))

    def predict(self, inputs: Any) -> TrackedFilms:
        """`inputs` are frames as bytes, [film time channel height width] or of one film, with or without channels; or
        paths of films."""
        paths = as_paths(inputs)
        inputs = inputs if paths is None else self.read(paths)[0]
        films = inputs if isinstance(inputs, Films) else self._as_films(inputs)
        return TrackedFilms(self.track(films), tuple(films.lengths.tolist()))

    def read(self, paths: Sequence[Path]) -> tuple[Films, list[str]]:
        return read_frames(paths, self.model.config.shape, self.size)

    def read_labelled(self, source: Source) -> Films:
        return read_films(only_path(source, "labelled films are"), shape=self.model.config.shape)

    def evaluate(self, films: Films) -> dict[str, float]:
        return score_tracks(self.track(films), films)

    def track(self, films: Films) -> Float[Tensor, "frame 2"]:
        """Positions in all frames; long films go through the model in pieces, which changes nothing."""
        device, found = device_of(self.model), list[Tensor]()
        with torch.no_grad():
            for frames in tracked(list(_of_one_length(films)), "Tracking"):
                states, pieces = None, list[Tensor]()
                for piece in frames.split(max(1, FRAMES_AT_ONCE // len(frames)), dim=1):
                    positions, states = self.model.follow(piece.to(device), states)
                    pieces.append(positions.cpu())
                found.append(rearrange(torch.cat(pieces, 1), "film time side -> (film time) side"))
        return torch.cat(found)

    def _as_films(self, inputs: Any) -> Films:
        tensor = inputs if isinstance(inputs, Tensor) else torch.from_numpy(as_writable(as_array(inputs)))
        channels, height, width = self.model.config.shape
        if channels == 1 and tensor.shape[-2:] == (height, width) and tensor.shape[-3:-2] != (1,):
            tensor = tensor.unsqueeze(-3)
        tensor = tensor.unsqueeze(0) if tensor.ndim == 4 else tensor
        if tensor.ndim != 5 or tensor.shape[2:] != (channels, height, width) or tensor.dtype != torch.uint8:
            expected = f"film, time, {channels}, {height}, {width}"
            got = f"{tuple(tensor.shape)} of {tensor.dtype}"
            raise InputError(f"frames must be bytes of the shape ({expected})", got=got)
        lengths = torch.full((len(tensor),), tensor.shape[1])
        names = [f"film {index}" for index in range(len(tensor))]
        return unlabelled(tensor.flatten(0, 1), lengths, names, self.size, "frames")


def _of_one_length(films: Films) -> Iterator[Tensor]:
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
