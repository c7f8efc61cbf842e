import io
import json
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from neuropil import progress
from neuropil.progress import Display, Stages, counted, duration, fitting, stage, tracked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its only number is the time; tests set it."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_line_says_how_much_is_done_the_figures_and_the_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
):
    with Display("gpt2") as display:
        clock[0] += 30
        display.update(0.25, "loss 2.1000", "epoch 1/4")
    assert capsys.readouterr().err == "gpt2: 25 %  loss 2.1000  epoch 1/4  1:30 left\n"


def test_the_time_left_of_a_resumed_run_is_that_of_its_own_speed(
    clock: list[float], capsys: pytest.CaptureFixture[str]
):
    with Display("gpt2") as display:
        display.begin(0.5)
        clock[0] += 10
        display.update(0.6)
    assert capsys.readouterr().err == "gpt2: 60 %  0:40 left\n"


def test_the_time_left_is_never_negative(clock: list[float], capsys: pytest.CaptureFixture[str]):
    with Display("gpt2") as display:
        clock[0] += 10
        display.update(1.02)
    assert capsys.readouterr().err == "gpt2: 100 %  0:00 left\n"


def test_before_anything_is_done_the_time_left_is_not_known(clock: list[float], capsys: pytest.CaptureFixture[str]):
    with Display("gpt2") as display:
        display.update(0.0)
    assert capsys.readouterr().err == "gpt2: 0 %  ? left\n"


def test_share_loss_and_time_stay_where_there_is_no_room_for_more():
    known, figures = ["12 %", "1:02 left"], ("loss 2.1000", "val loss 2.3000", "epoch 1/4", "12,345 examples/s")
    assert fitting(known, figures, 80) == ["12 %", *figures, "1:02 left"]
    assert fitting(known, figures, 45) == ["12 %", "loss 2.1000", "val loss 2.3000", "1:02 left"]
    assert fitting(known, figures, 30) == ["12 %", "loss 2.1000", "1:02 left"]
    assert fitting(known, figures, 10) == known


@pytest.mark.parametrize("title", ["mlp", "spiking_classifier"])
def test_a_terminal_of_80_columns_shows_one_whole_line(title: str, monkeypatch: pytest.MonkeyPatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80, color_system=None, legacy_windows=False)
    monkeypatch.setattr(progress, "console", lambda: terminal)
    with Display(title) as display:
        display.update(0.5, "loss 2.1000", "val loss 2.3000", "val accuracy 0.9000", "epoch 12/40", "9,999 examples/s")
    line = re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9?]*[A-Za-z]", "", screen.getvalue()).rstrip())[-1]
    assert len(line) <= 80
    assert "…" not in line
    assert all(words in line for words in (title, "50 %", "loss 2.1000", "left"))


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.2, "0:00"), (7, "0:07"), (59.7, "1:00"), (750, "12:30"), (3723, "1:02:03")]
)
def test_durations_are_written_as_a_clock_does(seconds: float, shown: str):
    assert duration(seconds) == shown


def test_work_without_a_known_end_says_how_long_it_has_been_under_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.02)
    with stage("gpt2: evaluation"):
        time.sleep(0.2)
    shown = capsys.readouterr().err.splitlines()
    assert shown
    assert set(shown) == {"gpt2: evaluation: 0:00"}


def test_short_or_quiet_work_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    with stage("gpt2: evaluation"):
        pass
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.01)
    with stage("gpt2: evaluation", show=False):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("patience", [-1.0, 1000.0])
def test_tracking_changes_nothing(monkeypatch: pytest.MonkeyPatch, patience: float):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    assert list(tracked(range(10), "Counting")) == list(range(10))
    assert list(counted(iter(range(10)), "Counting")) == list(range(10))


def test_what_takes_long_says_how_far_it_is(clock: list[float], capsys: pytest.CaptureFixture[str]):
    for _ in tracked(range(4), "Counting"):
        clock[0] += 6
    assert capsys.readouterr().err == "Counting: 50 %  0:12 left\nCounting: 75 %  0:06 left\n"


def test_of_what_has_no_known_end_the_count_is_shown(clock: list[float], capsys: pytest.CaptureFixture[str]):
    for _ in counted(iter(range(4)), "Counting"):
        clock[0] += 6
    assert capsys.readouterr().err == "Counting: 0:12  3\nCounting: 0:18  4\n"


def test_each_stage_of_long_work_is_numbered_and_named(clock: list[float], capsys: pytest.CaptureFixture[str]):
    with Stages("attack") as stages:
        for name in ("fgsm", "pgd over ε"):
            update = stages.begin(name)
            clock[0] += 30
            update(0.25)
            clock[0] += 30
            update(0.5)
    assert capsys.readouterr().err.splitlines() == [
        "attack, stage 1 (fgsm): 25 %  1:30 left",
        "attack, stage 1 (fgsm): 50 %  1:00 left",
        "attack, stage 2 (pgd over ε): 25 %  1:30 left",
        "attack, stage 2 (pgd over ε): 50 %  1:00 left",
    ]


def test_the_bar_of_a_terminal_gets_the_name_of_the_stage(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    screen = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(progress, "console", lambda: screen)
    with Stages("attack") as stages:
        stages.begin("fgsm")(0.5)
        stages.begin("pgd")(0.5)
        assert [task.description for task in stages.display.bar.tasks] == ["attack, stage 2 (pgd)"]


# --- for a program that follows ---------------------------------------------------------------------------------------


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(progress.PROGRESS, str(tmp_path / "progress.json"))
    return tmp_path / "progress.json"


def test_a_program_reads_share_time_left_and_numbers_in_a_file(clock: list[float], followed: Path):
    with Display("gpt2") as display:
        assert json.loads(followed.read_text()) == {
            "title": "gpt2",
            "share": None,
            "seconds_left": None,
            "numbers": {},
        }
        clock[0] += 30
        display.update(0.25, "loss 2.1000", numbers={"loss": 2.1, "step": 3, "other": float("nan")})
    assert json.loads(followed.read_text()) == {
        "title": "gpt2",
        "share": 0.25,
        "seconds_left": 90.0,
        "numbers": {"loss": 2.1, "step": 3},
    }
    assert [path.name for path in followed.parent.iterdir()] == [followed.name]


def test_the_file_is_written_often_and_lines_as_seldom_as_without_it(
    clock: list[float], followed: Path, capsys: pytest.CaptureFixture[str]
):
    with Display("gpt2") as display:
        for step in range(1, 21):
            clock[0] += 0.5
            assert display.due()
            display.update(step / 40, numbers={"step": step})
            assert json.loads(followed.read_text())["numbers"] == {"step": step}
    assert capsys.readouterr().err == "gpt2: 25 %  0:15 left\ngpt2: 50 %  0:10 left\n"


def test_nothing_is_written_where_nothing_is_shown_or_the_folder_is_gone(
    tmp_path: Path, followed: Path, monkeypatch: pytest.MonkeyPatch
):
    with Display("gpt2", show=False) as display:
        display.update(0.5)
    assert not followed.exists()
    monkeypatch.setenv(progress.PROGRESS, str(tmp_path / "gone" / "progress.json"))
    with Display("gpt2") as display:
        display.update(0.5)
    assert list(tmp_path.iterdir()) == []


def test_parts_under_way_are_figures_on_a_line_and_bars_on_a_terminal(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    with Display("tune") as display:
        clock[0] += 10
        display.update(0.5, "1 of 4 trials", parts={"trial 2": 0.25, "trial 3": 0.75})
    assert capsys.readouterr().err == "tune: 50 %  1 of 4 trials  trial 2 25 %  trial 3 75 %  0:10 left\n"
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(progress, "console", lambda: terminal)
    with Display("tune") as display:
        display.update(0.5, parts={"trial 2": 0.25, "trial 3": 0.75})
        display.update(0.6, parts={"trial 3": 0.9})
        assert [(task.description, task.completed) for task in display.bar.tasks] == [("tune", 0.6), ("  trial 3", 0.9)]
