from pathlib import Path

import pytest
import torch

from data.written_files import refusal, write_text
from neuropil.data.formats.traces import read_traces


def table(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "drive.csv"
    write_text(path, *lines)
    return path


def test_a_row_holds_from_its_time_until_the_next(tmp_path: Path):
    traces = read_traces(table(tmp_path, "a,Time,b", "1.5,0,0", "1.5,0.3,2", "-1,1,2"))
    assert traces.names == ("a", "b")
    steps = traces.at_steps(14, 0.1)
    assert steps[:, 0].tolist() == [1.5] * 10 + [-1.0] * 4
    assert steps[:, 1].tolist() == [0.0] * 3 + [2.0] * 11  # 3 · 0.1 is a little more than 0.3, and is 0.3 all the same


def test_without_times_there_is_a_row_for_every_step_and_the_last_holds(tmp_path: Path):
    traces = read_traces(table(tmp_path, "a;b", "1;2", "3;4"))
    assert torch.equal(traces.at_steps(4, 0.5), torch.tensor([[1, 2], [3, 4], [3, 4], [3, 4]], dtype=torch.double))


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["time", "0"], "drive.csv must have a column for each neuron, but got only 'time'."),
        (["time,a", "0,x"], "row 2, column 'a' of drive.csv must hold a finite number, but got 'x'."),
        (["time,a", "0,1", "5,inf"], "row 3, column 'a' of drive.csv must hold a finite number, but got 'inf'."),
        (
            ["time,a", "0,1", "5,"],
            "row 3, column 'a' of drive.csv must hold a value, but got an empty cell: fill it in or remove the row.",
        ),
        (["time,a", "1,1"], "the first row of drive.csv must be of time 0, but got 1 ms."),
        (
            ["time,a", "0,1", "5,2", "4,3"],
            "the times of drive.csv must grow from row to row, but got 4 after 5 ms: sort the rows.",
        ),
        (
            ["1,2", "3,4"],
            "drive.csv must name each of its columns in the first row, but got the numbers 1, 2: add a row of names.",
        ),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path: Path, lines: list[str], sentence: str):
    assert refusal(read_traces, table(tmp_path, *lines)) == sentence


def test_a_file_must_be_there_and_be_a_table(tmp_path: Path):
    assert (
        refusal(read_traces, tmp_path / "no.csv")
        == f"inputs over time must be in a file that exists, but got '{tmp_path / 'no.csv'}'."
    )
    (tmp_path / "drive.wav").write_bytes(b"RIFF")
    assert refusal(read_traces, tmp_path / "drive.wav") == (
        "inputs over time must be in a table of text, but got 'drive.wav': save it as CSV."
    )
