"""How near a tracker is: mean distances in pixels, and what a straight line would say while the object is hidden."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuropil.data.films.dataset import Films

FITTED = 4
"""Frames that the straight line is laid through."""


def distances(predicted: Float[Tensor, "frame 2"], films: Films) -> Float[Tensor, " frame"]:
    """Pixels between what is predicted and what is true; NaN where nobody knows."""
    return (predicted - films.positions).norm(dim=-1)


def score_tracks(predicted: Float[Tensor, "frame 2"], films: Films) -> dict[str, float]:
    """Means over all frames whose position is known; where the data says when the object is hidden, apart for these and
    the others."""
    error = distances(predicted, films)
    known, hidden = films.known, films.hidden
    parts = {"hidden_error": known & hidden, "visible_error": known & ~hidden} if bool(hidden.any()) else {}
    return {name: error[where].mean().item() for name, where in {**parts, "error": known}.items() if bool(where.any())}


def frames_hidden(films: Films) -> Tensor:
    """For each frame since how many frames the object is hidden: 0 where it is seen, 1 in the first without it, and so
    on."""
    counts = torch.zeros(len(films.hidden), dtype=torch.int64)
    firsts = set(films.begins.tolist())
    for index, hidden in enumerate(films.hidden.tolist()):
        before = 0 if index in firsts else int(counts[index - 1])
        counts[index] = before + 1 if hidden else 0
    return counts


def extrapolated(predicted: Float[Tensor, "frame 2"], films: Films) -> Float[Tensor, "frame 2"]:
    """What is predicted while the object is seen, and from there a straight line at constant speed, within the frame,
    while it is not.

    When it is hidden is taken from the data: a tracker of this kind would have to find that out too.
    """
    pieces = [
        _extrapolated(each, hidden, films.size)
        for each, hidden in zip(
            predicted.split(films.lengths.tolist()), films.hidden.split(films.lengths.tolist()), strict=True
        )
    ]
    return torch.cat(pieces)


def _extrapolated(
    predicted: Float[Tensor, "time 2"], hidden: Bool[Tensor, " time"], size: tuple[int, int]
) -> Float[Tensor, "time 2"]:
    answers = predicted.clone()
    time = torch.arange(len(predicted), dtype=predicted.dtype)
    for now in hidden.nonzero().flatten().tolist():
        seen = (~hidden[:now]).nonzero().flatten()[-FITTED:]
        if len(seen) < 2:
            continue  # there is no speed to go on with
        # least squares: v = Σ (t − t̄)(p − p̄) / Σ (t − t̄)²
        middle, away = predicted[seen].mean(0), time[seen] - time[seen].mean()
        velocity = (away[:, None] * (predicted[seen] - middle)).sum(0) / away.square().sum()
        answers[now] = middle + velocity * (time[now] - time[seen].mean())
    highest = torch.tensor([size[1] - 1.0, size[0] - 1.0])
    return torch.where(hidden[:, None], answers.clamp(torch.zeros(2), highest), answers)
