"""Tracking: a model that follows an object through the frames of a film."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.data.films.batches import FilmBatches
from neuropil.data.films.dataset import Films
from neuropil.data.splits import PartName, Splits
from neuropil.inspection.report.page import Section
from neuropil.models.tracker import Tracker, Tracking
from neuropil.protocols import Learner
from neuropil.tasks import preview
from neuropil.tasks.experiment import Ablation, Result, TrainableExperiment
from neuropil.tasks.tracking import report
from neuropil.tasks.tracking.predictor import FilmTracker
from neuropil.tasks.tracking.scores import extrapolated, score_tracks
from neuropil.training.config import TrainingConfig
from neuropil.training.previews import Preview

FILMS_SHOWN = 2
"""In previews."""


class TrackingExperiment(TrainableExperiment[Float[Tensor, "frame 2"]]):
    """`predictions` are positions in every frame of the test part."""

    def __init__(
        self,
        model: Tracker,
        splits: Splits[Films],
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        window: int,
        ablation: tuple[str, Tracker] | None,
    ):
        """Films are cut into windows for training and validation."""
        self.splits = splits
        self.films = splits.parts
        self.windows = {part: films.pieces(window) for part, films in self.films.items()}
        learner = Tracking(model)
        super().__init__(
            learner,
            self.windows,
            training,
            seed,
            name,
            splits.train.source,
            splits.notes,
            ablation=ablation and Ablation(ablation[0], Tracking(ablation[1])),
        )

    def own_facts(self) -> dict[str, Any]:
        return {"size": list(self.splits.train.size)}

    def training_keys(self) -> list[bytes]:
        return self.splits.train.keys

    def fingerprinted(self) -> Iterable[Tensor]:
        films = self.films.values()
        return (tensor for each in films for tensor in (each.frames, each.lengths, each.positions, each.hidden))

    def batches(self, part: PartName) -> FilmBatches:
        size, seed, shuffle = self.training.batch_size, self.seed, part == "train"
        return FilmBatches(self.windows[part], size, seed if shuffle else 0, shuffle=shuffle, device=self.device)

    def predict_test(self, learner: Learner) -> Float[Tensor, "frame 2"]:
        test = self.splits.test
        return FilmTracker(cast(Tracker, learner.model), test.size).track(test)

    def preview(self) -> Preview:
        """Positions in the frames of a few films."""
        part = self.films[self.watched_part]
        films = part.take(torch.arange(min(FILMS_SHOWN, len(part))))
        found = FilmTracker(cast(Tracker, self.model), films.size).track(films)
        lengths = films.lengths.tolist()
        tracks = zip(films.names, found.split(lengths), films.positions.split(lengths), strict=True)
        return preview.curves(
            {
                "name": f"{name}: {'xy'[side]}",
                "history": [],
                "forecast": preview.numbers(track[: preview.MOST_POINTS, side]),
                "truth": preview.numbers(truth[: preview.MOST_POINTS, side]),
            }
            for name, track, truth in tracks
            for side in (0, 1)
        )

    def score(self, learner: Learner, predictions: Float[Tensor, "frame 2"]) -> dict[str, float]:
        return score_tracks(predictions, self.splits.test)

    @cached_property
    def compared(self) -> dict[str, Float[Tensor, "frame 2"]]:
        """Positions by the ablation, by it carried on in a straight line, and always the mean."""
        test, train = self.splits.test, self.splits.train
        found: dict[str, Tensor] = {}
        if self.ablation is not None:
            name = self.ablation.name
            found[name] = self.predict_test(self.ablation.learner)
            if bool(test.hidden.any()):
                found[f"{name}, constant velocity"] = extrapolated(found[name], test)
        found["always the mean position"] = train.positions[train.known].mean(0).expand(len(test.frames), 2)
        return found

    def ablation_results(self) -> list[Result]:
        return []  # with the baselines, which are made from the ablation

    def baselines(self) -> list[Result]:
        return [Result(name, score_tracks(each, self.splits.test)) for name, each in self.compared.items()]

    def own_sections(self) -> list[Section]:
        test, predictions = self.splits.test, self.predictions
        sections = [report.tracks_section(test, predictions)]
        if bool(test.hidden.any()):
            sections.append(report.occlusion_section(test, {self.name: predictions, **self.compared}))
        return sections

    def data_section(self) -> Section:
        return report.data_section(self.films, self.notes)
