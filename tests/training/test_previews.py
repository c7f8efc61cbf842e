"""Previews: made in time, dropped where a run goes on from before them, and never the end of one."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from neuropil.errors import InputError
from neuropil.parts.objectives import Classification
from neuropil.training.config import TrainingConfig
from neuropil.training.history import read_history
from neuropil.training.loop import fit
from neuropil.training.previews import Previews


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def steps(folder: Path) -> list[int]:
    return [line["step"] for line in read_history(folder / "previews.jsonl")]


def test_previews_take_a_few_hundredths_of_the_time_and_the_last_is_made_anyway(clock: list[float], tmp_path: Path):
    def make() -> dict[str, Any]:
        clock[0] += 1.0
        return {"kind": "texts", "texts": []}

    previews = Previews(tmp_path, make, step=0)
    for step in range(101):
        if previews.due(step, elapsed=step, last=step == 100):
            previews.add(step, step / 10)
    assert steps(tmp_path) == [0, 34, 67, 100]
    assert read_history(tmp_path / "previews.jsonl")[1] == {"step": 34, "epoch": 3.4, "kind": "texts", "texts": []}


def test_a_run_that_goes_on_keeps_what_was_made_before_it_stopped(tmp_path: Path):
    lines = [{"step": step, "kind": "texts"} for step in (0, 5, 10)]
    (tmp_path / "previews.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"st')
    previews = Previews(tmp_path, dict, step=7)
    assert steps(tmp_path) == [0, 5]
    assert not previews.due(5, 1.0, last=True)
    assert previews.due(10, 1.0, last=False)
    Previews(tmp_path, dict, step=0)
    assert steps(tmp_path) == []


def test_a_model_without_an_answer_goes_on_learning(tmp_path: Path):
    def make() -> dict[str, Any]:
        raise InputError("every logit is masked or NaN")

    Previews(tmp_path, make, step=0).add(3, 1.0)
    (line,) = read_history(tmp_path / "previews.jsonl")
    assert line == {"step": 3, "epoch": 1.0, "kind": "none", "reason": "every logit is masked or NaN."}


class Rows:
    """Two batches of random rows."""

    def __len__(self) -> int:
        return 2

    def epoch(self, number: int, start: int = 0) -> Any:
        generator = torch.Generator().manual_seed(number)
        rows = torch.randn(2, 8, 4, generator=generator)
        return iter([{"input": each, "target": (each.sum(1) > 0).long()} for each in rows][start:])


def test_looking_leaves_the_mode_and_the_random_numbers_of_training_alone(tmp_path: Path):
    def trained(folder: Path, **options: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.BatchNorm1d(16), nn.Linear(16, 2))
        states: list[torch.Tensor] = []

        def look() -> dict[str, Any]:
            assert not model.training
            torch.manual_seed(7)
            model(torch.randn(5, 4))
            return {"kind": "texts", "texts": []}

        folder.mkdir()
        config = TrainingConfig(epochs=3, batch_size=8, average=0.5, **options)
        shown = {"seed": 1, "folder": folder, "show_progress": False}
        fit(
            Classification(model),
            Rows(),
            Rows(),
            config,
            **shown,
            preview=look,
            watch=lambda rows, share: states.append(torch.get_rng_state()),
        )
        return [*model.state_dict().values(), *states]

    watched, alone = trained(tmp_path / "watched", previews=True), trained(tmp_path / "alone")
    assert all(map(torch.equal, watched, alone))
    assert steps(tmp_path / "watched")[0] == 0
    assert steps(tmp_path / "watched")[-1] == 6
    assert not (tmp_path / "alone" / "previews.jsonl").exists()
