from collections.abc import Callable
from typing import Any

import pytest
import torch

from lab.small_runs import SMALL
from neuropil.errors import InputError
from neuropil.lab.pictures import held_out
from neuropil.lab.view import ask, find_view
from neuropil.randomness import seeded
from neuropil.runs.run import Run
from neuropil.sampling.diffusion import Estimate

VIEW = find_view("diffusion")


@pytest.fixture
def run(trained_run: Callable[..., Run]) -> Run:
    return trained_run("diffusion", **SMALL["diffusion"])


def frames(run: Run, **asked: Any) -> list[dict[str, Any]]:
    answer = ask(VIEW, "film", run, {"session": "film", **asked})
    found = list(answer["frames"])
    while not answer["done"]:
        answer = ask(VIEW, "more", run, {"session": "film"})
        found += answer["frames"]
    return found


def require_equal(run: Run, found: list[dict[str, Any]], expected: list[Estimate]) -> None:
    assert [frame["t"] for frame in found] == [each.t for each in expected]
    for frame, estimate in zip(found, expected, strict=True):
        for name in ("x", "x0"):
            pictures = run.predictor.diffusion.pictures(getattr(estimate, name)).round().int()
            assert frame[name] == pictures[:, 0].tolist()


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm_solver"])
def test_a_film_is_the_way_of_the_sampler(run: Run, sampler: str):
    found = frames(run, sampler=sampler, steps=7, label="4", guidance=2.5, seed=3)
    labels = torch.full((4,), 4)
    expected = run.predictor.way(4, seeded(3, "film"), labels, sampler=sampler, steps=7, guidance=2.5, eta=0.0)
    require_equal(run, found, list(expected))


def test_a_picture_gets_noise_and_loses_it_again(run: Run):
    found = frames(run, example=6, noised=250, steps=9)
    pictures = held_out(run).examples.inputs[6:7].repeat(4, 1, 1, 1)
    expected = run.predictor.way_back(pictures, 250, seeded(0, "film"), None, sampler="dpm_solver", steps=9, eta=0.0)
    require_equal(run, found, list(expected))
    assert found[0]["t"] == 250


def test_the_curve_is_that_of_the_schedule(run: Run):
    opened = ask(VIEW, "open", run, {})
    at = opened["schedule"]["t"].index(500)
    alpha_bar = run.predictor.diffusion.schedule.alpha_bar[500].item()
    assert opened["schedule"]["signal"][at] == pytest.approx(alpha_bar**0.5, abs=1e-5)
    assert opened["schedule"]["noise"][at] == pytest.approx((1 - alpha_bar) ** 0.5, abs=1e-5)


def test_a_film_that_was_not_begun_does_not_go_on(run: Run):
    with pytest.raises(InputError) as refused:
        ask(VIEW, "more", run, {"session": "nobody's"})
    assert str(refused.value) == ("a film goes on that was begun, but got one that is no longer kept: begin it again.")
