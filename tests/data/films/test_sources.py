from pathlib import Path

import numpy as np

from data.written_files import noise, refusal
from neuropil.data.films.sources import FilmDataConfig, prepare_films


def write_arrays(path: Path, count: int, unknown: int = 0) -> Path:
    positions = np.arange(count * 3 * 2, dtype=np.float64).reshape(count, 3, 2)
    positions[:unknown] = np.nan
    positions[-1, 1] = np.nan
    np.savez(path, frames=noise(count, 3, 4, 6), positions=positions)
    return path


def test_a_film_is_in_one_part_with_all_its_frames(tmp_path: Path):
    path = write_arrays(tmp_path / "f.npz", 12, unknown=2)
    splits = prepare_films(FilmDataConfig(data=path, validation=0.2, test=0.3), seed=0)
    names = [set(part.names) for part in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, names)) == len(set.union(*names)) == 10
    assert [len(each) for each in names] == [5, 2, 3]
    assert splits.notes == [
        "2 of 12 films have no position at all and are left out.",
        "The position is known in 29 of 30 frames; the others are seen, but neither taught nor scored.",
    ]


def test_the_embedded_films_are_as_many_as_are_asked_for():
    splits = prepare_films(FilmDataConfig(films=20, validation=0.0, test=0.1), seed=0)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [18, 0, 2]


def test_what_cannot_be_is_refused(tmp_path: Path):
    path = write_arrays(tmp_path / "f.npz", 2, unknown=1)
    assert refusal(prepare_films, FilmDataConfig(data=path), 0) == (
        "f.npz must hold at least 2 films with positions, one to learn from and one to score, but got 1: cut a long film into several."
    )
    assert refusal(prepare_films, FilmDataConfig(positions=path), 0) == (
        "--positions belongs to films of your own, but got the embedded ones: leave it out or give --data."
    )
