from collections.abc import Callable
from typing import Any

import torch

from lab.small_runs import SMALL
from neuropil.randomness import seeded
from neuropil.runs.run import Run


def test_the_film_shows_the_step_of_the_slider(lab: Any, page: Any, trained_run: Callable[..., Run]):
    run = trained_run("diffusion", **SMALL["diffusion"])
    page.goto(lab.link("/view/diffusion", run="diffusion", state='{"steps":8,"label":"5","guidance":3,"seed":7}'))
    page.locator(".view[data-ready]").wait_for()
    way = list(run.predictor.way(4, seeded(7, "film"), torch.full((4,), 5), steps=8, guidance=3.0))
    assert page.locator("p.said [data-value]").nth(1).get_attribute("data-value") == "8"
    for step in (8, 3):
        page.get_by_label("Step", exact=True).fill(str(step))
        total = int(run.predictor.diffusion.pictures(way[step].x[:1]).round().sum())
        page.locator(f"canvas[aria-label='x_t of picture 1'][data-value='{total}']").wait_for()
        assert page.locator("p.said [data-value]").nth(2).get_attribute("data-value") == str(way[step].t)
