"""Films and positions in three parts: the embedded moving digits, or the user's own. A film is in one part with all of its frames."""

from pathlib import Path

import torch

from neuropil.config import Config, option
from neuropil.data.films.dataset import FilmSplits
from neuropil.data.films.embedded import make_films
from neuropil.data.films.files import read_films
from neuropil.data.pairs.sources import TEST, TRAIN, VALIDATION, assign_parts, held_out_of
from neuropil.errors import InputError


class FilmDataConfig(Config):
    data: Path | None = option(
        None,
        "your own films: a folder with a folder of frames each and a table of positions, or NPZ; without it, moving digits",
    )
    films: int = option(2_500, "films of moving digits to make where no data is given", low=20)
    positions: Path | None = option(
        None, "the table with the columns sequence, frame, x and y; without it, the one beside the films"
    )
    validation: float = option(0.05, "share of the films held out for early stopping", low=0, high=0.5)
    test: float = option(0.15, "share of the films held out for the final score", low=0.01, high=0.9)


def prepare_films(config: FilmDataConfig, seed: int) -> FilmSplits:
    """The same for the same seed; each part is in the order of the data."""
    if config.data is None:
        if config.positions is not None:
            raise InputError(
                "--positions belongs to films of your own", got="the embedded ones", fix="leave it out or give --data"
            )
        num_validation, num_test = held_out_of(config.films, config.validation), held_out_of(config.films, config.test)
        return make_films(config.films - num_validation - num_test, num_validation, num_test, seed)
    films = read_films(config.data, positions=config.positions)
    taught = torch.tensor([bool(known.any()) for known in films.known.split(films.lengths.tolist())])
    if int(taught.sum()) < 2:
        raise InputError(
            f"{config.data.name} must hold at least 2 films with positions, one to learn from and one to score",
            got=f"{int(taught.sum())}",
            fix="cut a long film into several",
        )
    notes = (
        []
        if bool(taught.all())
        else [f"{int((~taught).sum()):,} of {len(films):,} films have no position at all and are left out."]
    )
    films = films.take(taught.nonzero().flatten())
    known = int(films.known.sum())
    if known < len(films.known):
        notes.append(
            f"The position is known in {known:,} of {len(films.known):,} frames; the others are seen, but neither taught nor scored."
        )
    part = assign_parts(torch.ones(len(films), dtype=torch.int64), config.validation, config.test, seed)
    train, validation, test = (films.take((part == name).nonzero().flatten()) for name in (TRAIN, VALIDATION, TEST))
    return FilmSplits(train, validation, test, notes)
