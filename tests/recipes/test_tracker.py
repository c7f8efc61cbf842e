"""The tracker as a user meets it: films in, paths out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import neuropil
from neuropil.cli import main
from neuropil.data.films.dataset import Films
from neuropil.data.films.files import FilmDataConfig, prepare_films
from neuropil.errors import InputError
from neuropil.inspection.report.page import Picture, Table
from neuropil.recipes.tracker import TrackerOptions, build
from neuropil.runs.run import Run
from neuropil.tasks.tracking.experiment import TrackingExperiment
from neuropil.tasks.tracking.scores import score_tracks
from neuropil.training.history import read_history

SMALL: dict[str, Any] = {"width": 4, "features": 16, "hidden_size": 16, "epochs": 1, "batch_size": 8}


def write_folders(root: Path, films: Films) -> Path:
    """One folder for each film, and a table."""
    lines = ["sequence,frame,x,y,hidden"]
    frames = iter(zip(films.frames[:, 0].numpy(), films.positions.tolist(), films.hidden.tolist(), strict=True))
    for film, length in enumerate(films.lengths.tolist()):
        (root / f"film{film}").mkdir(parents=True)
        for time in range(length):
            pixels, (x, y), hidden = next(frames)
            Image.fromarray(pixels).save(root / f"film{film}" / f"{time:03}.png")
            lines.append(f"film{film},{time:03}.png,{x},{y},{int(hidden)}")
    (root / "positions.csv").write_text("\n".join(lines))
    return root


def some_films(count: int = 8) -> Films:
    return prepare_films(FilmDataConfig(films=20, validation=0.0, test=0.05), seed=0).train.take(torch.arange(count))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("tracker")
    return neuropil.train("tracker", out=folder / "run", films=40, report=False, show_progress=False, **SMALL)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("own")
    data = write_folders(folder / "films", some_films())
    return neuropil.train(
        "tracker", data=data, out=folder / "run", report=False, show_progress=False, window=10, **SMALL
    ), data


def test_the_folder_tracks_in_another_process_as_the_run_itself(run: Run):
    films = some_films(3)
    frames = films.frames.reshape(3, 24, 1, 28, 28)
    told = run.predict(frames)
    again = neuropil.load(run.folder).predict(frames[:, :, 0].numpy())
    assert torch.equal(told.positions, again.positions)
    assert [tuple(path.shape) for path in told.films] == [(24, 2)] * 3
    one = run.predict(frames[1])
    torch.testing.assert_close(one.positions, told.films[1], atol=1e-4, rtol=1e-4)
    assert len(told.lines()) == 72


def test_beside_it_stands_what_it_would_say_without_a_memory(run: Run):
    named = {result.name: result.metrics for result in run.results}
    alone, straight = named["each frame alone"], named["each frame alone, constant velocity"]
    assert set(named) == {
        "tracker",
        "each frame alone",
        "each frame alone, constant velocity",
        "always the mean position",
    }
    assert all(set(result.metrics) == {"hidden_error", "visible_error", "error"} for result in run.results)
    assert alone["visible_error"] == straight["visible_error"]


def test_without_a_memory_there_is_nothing_to_compare_with():
    experiment = build(TrackerOptions().override(films=20, cell="none", **SMALL), seed=0)
    assert list(experiment.compared) == ["always the mean position"]


def test_the_report_shows_films_and_how_long_it_remembers(tmp_path: Path):
    experiment = build(TrackerOptions().override(films=30, **SMALL), seed=0)
    experiment.train(tmp_path, show_progress=False)
    sections = {
        section.title: section.blocks for section in experiment.sections(read_history(tmp_path / "metrics.jsonl"))
    }
    assert list(sections) == ["Training", "Tracks", "Occlusion", "Parameters", "Data"]
    assert sum(isinstance(block, Picture) for block in sections["Tracks"]) == 2
    (table,) = [block for block in sections["Occlusion"] if isinstance(block, Table)]
    test = experiment.splits.test
    assert table.rows[0][:2] == ["seen", int((~test.hidden).sum())]
    assert sum(int(row[1]) for row in table.rows) == len(test.frames)
    seen = score_tracks(experiment.predictions, test)["visible_error"]
    assert float(str(table.rows[0][2])) == pytest.approx(seen, abs=0.006)


def test_long_films_go_through_in_pieces_without_a_change(run: Run, monkeypatch: pytest.MonkeyPatch):
    frames = some_films(2).frames.reshape(1, 48, 1, 28, 28)
    whole = run.predict(frames).positions
    monkeypatch.setattr("neuropil.tasks.tracking.predictor.FRAMES_AT_ONCE", 7)
    torch.testing.assert_close(run.predict(frames).positions, whole, atol=1e-4, rtol=1e-4)


# --- films of the user's ----------------------------------------------------------------------------------------------


def test_films_of_ones_own_are_cut_for_training_only(own: tuple[Run, Path]):
    experiment = own[0].experiment()
    assert isinstance(experiment, TrackingExperiment)
    assert int(experiment.windows["train"].lengths.max()) == 10
    assert set(experiment.splits.test.lengths.tolist()) == {24}
    assert [result.name for result in own[0].results] == ["tracker", "always the mean position"]


def test_predict_prints_a_position_for_each_frame(own: tuple[Run, Path], capsys: pytest.CaptureFixture[str]):
    run, data = own
    main(["predict", str(run.folder), str(data / "film0")])
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _, _ in lines] == [f"film0/{time:03}.png" for time in range(24)]
    told = run.predict(data / "film0").positions
    np.testing.assert_allclose([[float(x), float(y)] for _, x, y in lines], told, atol=0.006)


def test_scores_on_the_users_own_films(own: tuple[Run, Path], tmp_path: Path):
    run, _ = own
    films = some_films(4)
    more = write_folders(tmp_path / "more", films)
    expected = score_tracks(run.predict(films.frames.reshape(4, 24, 28, 28)).positions, films)
    with pytest.warns(UserWarning, match="^2 of 4 films were in the training part of this run.$"):
        assert run.evaluate(more) == pytest.approx(expected)
    np.savez(
        tmp_path / "more.npz",
        frames=films.frames.reshape(4, 24, 28, 28).numpy(),
        positions=films.positions.reshape(4, 24, 2).numpy(),
        hidden=films.hidden.reshape(4, 24).numpy(),
    )
    with pytest.warns(UserWarning, match="^2 of 4 films were in the training part of this run.$"):
        assert run.evaluate(tmp_path / "more.npz") == pytest.approx(expected)


def test_frames_of_another_shape_are_refused(run: Run):
    with pytest.raises(InputError) as error:
        run.predict(np.zeros((5, 8, 8), dtype=np.uint8))
    assert (
        str(error.value)
        == "frames must be bytes of the shape (film, time, 1, 28, 28), but got (5, 8, 8) of torch.uint8."
    )


@pytest.mark.slow
def test_while_a_digit_is_hidden_it_is_three_times_as_near_as_a_network_without_a_memory(tmp_path: Path):
    run = neuropil.train("tracker", out=tmp_path / "run", show_progress=False)
    own, alone = (result.metrics["hidden_error"] for result in run.results[:2])
    assert own <= alone / 3
