"""What is true of every view in a browser: it opens on a run of its own, for every eye, and on a phone."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from lab.small_runs import SMALL
from lab_browser import opened_page
from neuropil.lab.view import VIEWS, LabView
from neuropil.runs.run import Run

OPENED = {
    "layers": "mlp",
    "products": "mlp",
    "classification": "mlp",
    "adversarial": "mlp",
    "embeddings": "word2vec",
    "gates": "lstm",
    "generation": "gpt2",
    "text_classification": "text_classifier",
    "forecast": "forecaster",
    "recall": "hopfield",
    "latent": "vae",
    "diffusion": "diffusion",
    "attention": "gpt2",
    "translation": "transformer",
    "patches": "vit",
    "captions": "captioner",
    "fill": "bert",
}
"""A system for each view that needs a run."""
PAIRS, TEXTS = ("transformer",), ("word2vec", "lstm", "gpt2", "text_classifier", "bert")


@pytest.fixture
def run_of(trained_run: Callable[..., Run], text_run: Any, pair_run: Any) -> Callable[[LabView], dict[str, str]]:
    """The part of a link that names a run."""

    def get(view: LabView) -> dict[str, str]:
        if not view.needs_run:
            return {}
        system = OPENED[view.name]
        if system in PAIRS:
            run = pair_run(system)
        elif system in TEXTS:
            run = text_run(system)
        else:
            run = trained_run(system, **SMALL[system])
        return {"run": run.folder.name}

    return get


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_is_accessible_and_fits_a_phone(view: LabView, lab: Any, browser: Any, run_of: Any):
    link = lab.link(f"/view/{view.name}", **run_of(view))
    with opened_page(browser) as (page, faults):
        page.goto(link)
        page.locator(".view[data-ready]").wait_for()
        assert page.get_by_role("alert").all_inner_texts() == []
        assert _violations(page) == []
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert _violations(page) == []
    assert faults == []


def _violations(page: Any) -> list[tuple[str, str]]:
    found = Axe().run(page).response["violations"]
    return [(each["id"], node["html"][:200]) for each in found for node in each["nodes"][:3]]
