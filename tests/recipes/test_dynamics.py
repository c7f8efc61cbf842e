"""Spiking populations that follow equations."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.report.page import Table, Text
from neuropil.recipes.dynamics import DynamicsOptions, build
from neuropil.tasks.study import Study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("dynamics")
    options = DynamicsOptions(equations=("4*y", "-4*x"), start=(3.0, 0.0), neurons=300, duration=1500.0, hold=1500.0)
    study = build(options, seed=0)
    study.train(folder, show_progress=False)
    return study, folder


def words(study: Study, title: str) -> str:
    return " ".join(
        block.text
        for section in study.findings.sections
        if section.title == title
        for block in section.blocks
        if isinstance(block, Text)
    )


def test_a_larger_memory_drifts_less(study: tuple[Study, Path]):
    large, small, still, *_ = study[0].evaluate()
    assert large.name == "memory of 300 neurons"
    assert 0 < large.metrics["drift_percent_per_s"] < small.metrics["drift_percent_per_s"]
    assert set(still.metrics.values()) == {0.0}


def test_the_oscillator_keeps_its_time_and_size(study: tuple[Study, Path]):
    found = study[0].evaluate()[3].metrics
    assert found["frequency_hz"] == pytest.approx(1.0, abs=0.05)
    assert found["amplitude"] == pytest.approx(1.0, abs=0.05)


def test_typed_equations_are_followed_where_they_are_not_chaotic(study: tuple[Study, Path]):
    traces = np.load(study[1] / "traces.npz", allow_pickle=False)
    np.testing.assert_allclose(traces["solver"][:, 0], 3 * np.cos(4 * traces["times"] / 1000), atol=1e-5)
    late = traces["times"] > 100
    assert np.sqrt(np.square(traces["network"] - traces["solver"])[late].mean()) < 0.4
    assert "dx/dt = 4*y; dy/dt = -4*x" in words(study[0], "Equations")


def test_the_distance_from_both_limits_falls_with_the_ratio_of_the_time_constants(study: tuple[Study, Path]):
    (section,) = [section for section in study[0].findings.sections if section.title == "Two time constants"]
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    for column in (1, 2):
        apart = [float(row[column]) for row in table.rows]
        assert apart == sorted(apart, reverse=True)
        assert apart[-1] < 0.05 * apart[0]


def test_learned_decoders_come_near_to_solved_ones(study: tuple[Study, Path]):
    learned, solved = map(float, re.findall(r"by (\d\.\d+)", words(study[0], "A learned decoder")))
    assert solved < learned < 0.15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"equations": ("x +",), "start": (1.0,)}, "a value is missing before the end at character 4 of 'x +'."),
        ({"start": (1.0,)}, "start must have a value for each equation, but got 1 for 3."),
        ({"equations": (), "start": ()}, "equations must be one to 6 expressions, but got 0."),
        (
            {"equations": ("x^2",), "start": (1.0,)},
            "the equations must have a solution for the whole duration, but got one that ends after 1 s: change the "
            "start or the duration.",
        ),
        ({"dt": 3.0}, "dt must be a time above 0 ms, but got 3: the largest that works here is 2."),
    ],
)
def test_options_that_do_not_fit_get_their_sentence(options: dict[str, Any], message: str):
    with pytest.raises(InputError) as error:
        build(DynamicsOptions(**options), seed=0)
    assert str(error.value) == message
