from pathlib import Path

import pytest

from neuropil.errors import RunError
from neuropil.training import history as history_module
from neuropil.training.history import History, read_history


def row(step: int) -> dict:
    return {"kind": "train", "step": step, "loss": 1 / step}


def test_half_a_line_is_no_row(tmp_path: Path):
    history = History(tmp_path, step=0, tensorboard=False)
    history.add(row(1))
    with history.path.open("a") as file:
        file.write('{"kind": "tra')
    assert read_history(history.path) == [row(1)]


RESULT = b'{"kind": "result", "step": 2, '


@pytest.mark.parametrize(
    "line",
    [
        *(b'{"kind": "tra', b"3", b'{"step": 2}', b'{"kind": "\xff"}', b"\0\0\0\0", b""),
        *(b'{"kind": ["train"], "step": 2}', b'{"kind": "train", "step": "2"}'),
        *(RESULT + b'"accuracy": 0.5}', RESULT + b'"name": "mlp", "accuracy": null}'),
    ],
)
def test_a_whole_line_that_is_damaged_is_named(tmp_path: Path, line: bytes):
    history = History(tmp_path, step=0, tensorboard=False)
    history.add(row(1))
    with history.path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(RunError) as error:
        read_history(history.path)
    assert str(error.value) == (
        f"{history.path} must hold the JSON that neuropil wrote on each line, but got line 2, which is damaged: "
        "restore the file or remove the line."
    )


def test_what_was_written_after_the_checkpoint_is_forgotten(tmp_path: Path):
    history = History(tmp_path, step=0, tensorboard=False)
    for step in (1, 2, 3):
        history.add(row(step))
    assert History(tmp_path, step=2, tensorboard=False).rows == [row(1), row(2)]
    assert read_history(history.path) == [row(1), row(2)]


def test_a_row_of_the_step_of_the_checkpoint_that_it_does_not_count_is_forgotten_too(tmp_path: Path):
    """The last row of a run is of the step of its last checkpoint, and was written after it."""
    history, result = History(tmp_path, step=0, tensorboard=False), row(2) | {"kind": "result", "name": "mlp"}
    for each in (row(1), row(2), row(2)):
        history.add(each)
    assert history.sync() == 3
    assert History(tmp_path, step=2, rows=2, tensorboard=False).rows == [row(1), row(2)]
    history.add(result)
    assert History(tmp_path, step=2, rows=2, tensorboard=False).rows == [row(1), row(2), result]  # a finished run
    with pytest.raises(RunError) as error:
        History(tmp_path, step=2, rows=3, tensorboard=False)
    assert str(error.value) == (
        f"{history.path} must hold the 3 rows that its checkpoint counts, but got 2: "
        "restore it, or remove the checkpoint to train anew."
    )


def test_each_figure_of_a_row_is_an_event_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events, begun = list[tuple[str, float, int]](), list[tuple[Path, int]]()

    class Writer:
        def __init__(self, folder: Path, step: int):
            begun.append((folder, step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            events.append((name, value, step))

        def close(self) -> None:
            begun.append((tmp_path, -1))

    monkeypatch.setattr(history_module, "_tensorboard_writer", Writer)
    for tensorboard in (False, True):
        history = History(tmp_path, step=3, tensorboard=tensorboard)
        history.add(row(4))
        history.close()
    assert events == [("train/loss", 0.25, 4)]
    assert begun == [(tmp_path / "tensorboard", 3), (tmp_path, -1)]
