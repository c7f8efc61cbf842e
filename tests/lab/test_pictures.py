from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lab.small_runs import SMALL
from neuropil.errors import InputError
from neuropil.lab.pictures import PAD, PictureRequest, chosen_picture, held_out, require_classifier, rows_of
from neuropil.runs.run import Run
from neuropil.runs.start import train


def test_examples_are_of_the_part_that_is_held_out(trained_run: Callable[..., Run]):
    run = trained_run("mlp", **SMALL["mlp"])
    test = run.experiment().splits.test  # type: ignore[attr-defined]
    known = {each.tobytes() for each in test.inputs.numpy()}
    held = held_out(run)
    assert len(held.examples) == 300
    assert {each.tobytes() for each in held.examples.inputs.numpy()} <= known
    assert held.names[:30] == sorted(held.names[:30])


def test_a_drawing_is_placed_as_the_examples_are(trained_run: Callable[..., Run]):
    run = trained_run("mlp", **SMALL["mlp"])
    ink = torch.zeros(PAD, PAD)
    ink[3:20, 5] = 1
    digits = "".join("f" if value else "0" for value in ink.flatten().tolist())
    found = chosen_picture(run, PictureRequest(drawing=digits))
    assert torch.equal(found, held_out(run).frame.place(ink))
    assert found.shape == (1, 1, 8, 8)


def test_colours_travel_as_red_green_and_blue():
    picture = torch.tensor([[[1, 2]], [[3, 4]], [[5, 6]]], dtype=torch.uint8)
    assert rows_of(picture) == [[[1, 3, 5], [2, 4, 6]]]


def test_a_drawing_of_another_length_is_refused():
    with pytest.raises(InputError) as refused:
        PictureRequest(drawing="0f")
    assert str(refused.value) == "a drawing must be 784 hexadecimal digits, but got 2 characters."


def test_a_run_on_a_table_is_refused(tmp_path: Path):
    table = tmp_path / "rows.csv"
    table.write_text("a,b,y\n" + "".join(f"{i % 7},{i % 5},{'up' if i % 2 else 'down'}\n" for i in range(60)))
    run = train("mlp", data=table, target="y", out=tmp_path / "rows", epochs=1, show_progress=False, report=False)
    with pytest.raises(InputError) as refused:
        require_classifier(run)
    assert str(refused.value) == (
        "this view opens a run on pictures of up to 128×128, but got rows, of a table: train it on the digits."
    )
