import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.written_files import noise, refusal, write_text
from neuropil.data.films.files import FilmDataConfig, prepare_films, read_films, read_frames

SHAPE, SIZE = (1, 4, 6), (4, 6)


def write_films(root: Path, lengths: dict[str, int], size: tuple[int, int] = SIZE) -> Path:
    for index, (name, length) in enumerate(lengths.items()):
        (root / name).mkdir(parents=True)
        for time in range(length):
            Image.fromarray(noise(*size, seed=10 * index + time)).save(root / name / f"frame_{time:03}.png")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_films(tmp_path / "films", {"a": 3, "b": 2})


def table(root: Path, *rows: str, header: str = "sequence,frame,x,y") -> Path:
    write_text(root / "positions.csv", header, *rows)
    return root


def test_frames_and_positions_of_folders(root: Path):
    table(root, "b,frame_001.png,3.5,1", "a,frame_000,0,2", "a,2,5,3", "b,0,,")
    films = read_films(root)
    assert (films.names, films.lengths.tolist(), films.size) == (["a", "b"], [3, 2], SIZE)
    np.testing.assert_array_equal(films.frames[4, 0], noise(4, 6, seed=11))
    assert films.known.tolist() == [True, False, True, False, True]
    assert films.positions[films.known].tolist() == [[0, 2], [5, 3], [3.5, 1]]
    assert not films.hidden.any()
    assert films.source == "2 films with 5 frames, grey images of 4×6 (films)"


def test_a_table_may_say_what_is_hidden_and_lie_elsewhere(root: Path, tmp_path: Path):
    content = "frame;hidden;sequence;x;y\n0;yes;a;1;1\n1;0;a;1;2\n2;;a;1;2\n"
    (tmp_path / "where.csv.gz").write_bytes(gzip.compress(content.encode()))
    films = read_films(root, positions=tmp_path / "where.csv.gz")
    assert films.hidden.tolist() == [True, False, False, False, False]


def test_large_frames_are_reduced_and_positions_stay_in_their_pixels(tmp_path: Path):
    root = table(write_films(tmp_path / "large", {"a": 2}, size=(300, 400)), "a,0,399,299")
    films = read_films(root)
    assert (films.shape, films.size) == ((1, 48, 64), (300, 400))
    assert films.positions[0].tolist() == [399, 299]


def test_what_is_wrong_with_a_table_is_said_with_its_row(root: Path):
    def refused(*rows: str, header: str = "sequence,frame,x,y") -> str:
        return refusal(read_films, table(root, *rows, header=header))

    assert (
        refused("c,0,1,1")
        == "row 2, column 'sequence' of positions.csv must name a folder of frames, but got 'c': it may be a, b."
    )
    assert refused("a,frame_0001.png,1,1") == (
        "row 2, column 'frame' of positions.csv must name a frame in a, "
        "but got 'frame_0001.png': did you mean 'frame_000.png'?"
    )
    assert refused("a,0,1,1", "a,1,left,1") == (
        "row 3, column 'x' of positions.csv must hold a number, or nothing where there is no value, but got 'left'."
    )
    assert refused("a,0,1,") == (
        "row 2, column 'y' of positions.csv must hold a number of pixels, but got an empty cell beside a full one: "
        "leave x and y empty where nobody knows them."
    )
    assert refused("a,0,1,1", "a,frame_000.png,1,1") == (
        "each frame must stand in positions.csv once, but got it in rows 2 and 3: remove one of the two."
    )
    assert refused("a,0,,") == "positions.csv must say where the object is in some frames, but got no position at all."
    assert (
        refused("a,0,1,1", header="sequence,frame,x,z")
        == "positions.csv must have the column 'y', but got sequence, frame, x, z."
    )
    assert refused("a,0,1,1,perhaps", header="sequence,frame,x,y,hidden") == (
        "row 2, column 'hidden' of positions.csv must hold 1 or 0, but got 'perhaps'."
    )


def test_what_is_wrong_with_a_folder_is_said(tmp_path: Path, root: Path):
    assert refusal(read_films, root) == (
        "the folder films must hold one table of positions, for instance positions.csv with the columns "
        "sequence, frame, x, y, "
        "but got none: name it with --positions."
    )
    (tmp_path / "empty").mkdir()
    assert refusal(read_films, tmp_path / "empty") == (
        "the folder empty must hold one folder of frames for each film, but got an empty folder: "
        "put the frames of each film into a folder of its own."
    )
    Image.fromarray(noise(5, 6)).save(root / "b" / "x.png")
    assert refusal(read_films, table(root, "a,0,1,1")) == (
        "all frames must have one size, since positions are in their pixels, "
        "but got 4×6 (frame_000.png) and 5×6 (b/x.png)."
    )


def test_arrays(tmp_path: Path):
    frames, positions = noise(3, 5, 4, 6), np.random.default_rng(0).random((3, 5, 2))
    positions[1, 2] = np.nan
    hidden = np.arange(15).reshape(3, 5) % 4 == 0
    np.savez(tmp_path / "films.npz", frames=frames, positions=positions, hidden=hidden)
    films = read_films(tmp_path / "films.npz")
    np.testing.assert_array_equal(films.frames[:, 0], frames.reshape(15, 4, 6))
    np.testing.assert_allclose(films.positions, positions.reshape(15, 2), rtol=1e-6)
    np.testing.assert_array_equal(films.hidden, hidden.ravel())
    assert films.source == "3 films with 15 frames, grey images of 4×6 (films.npz)"
    np.savez(tmp_path / "colour.npz", frames=noise(3, 5, 4, 6, 3), positions=positions)
    assert read_films(tmp_path / "colour.npz").shape == (3, 4, 6)


def test_what_is_wrong_with_arrays_is_said(tmp_path: Path):
    def refused(**arrays: np.ndarray) -> str:
        np.savez(tmp_path / "f.npz", **arrays)  # type: ignore[arg-type]  # named arrays
        return refusal(read_films, tmp_path / "f.npz")

    frames, positions = noise(2, 3, 4, 6), np.zeros((2, 3, 2))
    assert refused(x=frames) == "f.npz must hold frames with the axes film, time, height and width, but got x."
    assert refused(frames=frames) == "f.npz must hold positions beside frames, but got frames."
    assert refused(frames=frames[0], positions=positions) == (
        "frames of f.npz must be pictures with the axes film, time, height and width, and channels last if there "
        "are any, "
        "but got 3×4×6 values of type uint8."
    )
    assert refused(frames=frames, positions=positions[:1]) == (
        "positions of f.npz must be 2×3×2 numbers, as frames has it, but got 1×3×2 values of type float64."
    )
    assert refused(frames=frames, positions=positions, hidden=np.zeros(6)) == (
        "hidden of f.npz must be 2×3 numbers, as frames has it, but got 6 values of type float64."
    )
    assert refused(frames=frames, positions=positions * np.nan) == (
        "positions of f.npz must be finite numbers of pixels, or NaN where nobody knows them, "
        "but got infinite ones or NaN alone."
    )
    np.savez(tmp_path / "f.npz", frames=frames, positions=positions)
    assert refusal(lambda: read_films(tmp_path / "f.npz", positions=tmp_path / "p.csv")) == (
        "an NPZ holds its own positions, but got p.csv beside f.npz: leave --positions out."
    )


def test_frames_for_a_trained_model_are_named(root: Path, tmp_path: Path):
    films, names = read_frames([root], SHAPE, SIZE)
    assert names == ["a/frame_000.png", "a/frame_001.png", "a/frame_002.png", "b/frame_000.png", "b/frame_001.png"]
    assert films.lengths.tolist() == [3, 2]
    assert not films.known.any()
    one, names = read_frames([root / "b"], SHAPE, SIZE)
    assert torch.equal(one.frames, films.frames[3:])
    assert names == ["b/frame_000.png", "b/frame_001.png"]
    loose, names = read_frames([root / "a" / "frame_002.png", root / "a" / "frame_000.png"], SHAPE, SIZE)
    assert (names, loose.lengths.tolist()) == (["frame_002.png", "frame_000.png"], [2])
    np.savez(tmp_path / "f.npz", frames=noise(2, 2, 4, 6))
    both, names = read_frames([tmp_path / "f.npz", tmp_path / "f.npz"], SHAPE, SIZE)
    assert names[:4] == ["f.npz[0] frame 0", "f.npz[0] frame 1", "f.npz[1] frame 0", "f.npz[1] frame 1"]
    assert both.lengths.tolist() == [2, 2, 2, 2]


def test_frames_that_do_not_fit_a_trained_model_are_refused(root: Path, tmp_path: Path):
    assert refusal(read_frames, [root], SHAPE, (8, 6)) == (
        "this model was trained on frames of 8×6, whose pixels it answers in, but got frames of 4×6."
    )
    assert refusal(read_frames, [], SHAPE, SIZE) == "a prediction needs at least one file, but got none."
    write_text(tmp_path / "notes.txt", "x")
    assert refusal(read_frames, [tmp_path / "notes.txt"], SHAPE, SIZE) == (
        "frames are pictures, but got notes.txt: give folders of frames, pictures or NPZ arrays."
    )
    np.savez(tmp_path / "f.npz", frames=noise(2, 2, 5, 6))
    assert refusal(read_frames, [tmp_path / "f.npz"], SHAPE, SIZE) == (
        "f.npz must hold grey images of 4×6, as the training data did, but got grey images of 5×6."
    )
    assert refusal(read_frames, [tmp_path / "flims"], SHAPE, SIZE) == (
        f"films must be files or folders that exist, but got '{(tmp_path / 'flims').as_posix()}': "
        f"did you mean '{(tmp_path / 'films').as_posix()}'?"
    )


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
        "f.npz must hold at least 2 films with positions, one to learn from and one to score, "
        "but got 1: cut a long film into several."
    )
    assert refusal(prepare_films, FilmDataConfig(positions=path), 0) == (
        "--positions belongs to films of your own, but got the embedded ones: leave it out or give --data."
    )
