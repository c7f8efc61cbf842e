from pathlib import Path

from neuropil.training.history import History, read_history


def row(step: int) -> dict:
    return {"kind": "train", "step": step, "loss": 1 / step}


def test_half_a_line_is_no_row(tmp_path: Path):
    history = History(tmp_path, step=0, tensorboard=False)
    history.add(row(1))
    with history.path.open("a") as file:
        file.write('{"kind": "tra')
    assert read_history(history.path) == [row(1)]


def test_what_was_written_after_the_checkpoint_is_forgotten(tmp_path: Path):
    history = History(tmp_path, step=0, tensorboard=False)
    for step in (1, 2, 3):
        history.add(row(step))
    assert History(tmp_path, step=2, tensorboard=False).rows == [row(1), row(2)]
    assert read_history(history.path) == [row(1), row(2)]
