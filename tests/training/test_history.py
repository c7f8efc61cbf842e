from pathlib import Path

import pytest

from neuropil.errors import RunError
from neuropil.training.history import History, read_history


def row(step: int) -> dict:
    return {"kind": "train", "step": step, "loss": 1 / step}


def test_half_a_line_is_no_row(tmp_path: Path):
    history = History(tmp_path, step=0, tensorboard=False)
    history.add(row(1))
    with history.path.open("a") as file:
        file.write('{"kind": "tra')
    assert read_history(history.path) == [row(1)]


@pytest.mark.parametrize("line", [b'{"kind": "tra', b"3", b'{"step": 2}', b'{"kind": "\xff"}', b"\0\0\0\0", b""])
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
