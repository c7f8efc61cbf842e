from typing import Any

from neuropil.autodiff.formula import Formula


def test_a_typed_formula_has_its_gradients(lab: Any, page: Any):
    page.goto(lab.link("/view/autodiff"))
    page.get_by_label("formula", exact=True).fill("u * exp(v)")
    page.get_by_label("u", exact=True).fill("2")
    page.get_by_label("v", exact=True).fill("0.5")
    root = Formula("u * exp(v)")(u=2.0, v=0.5)
    page.wait_for_function(
        "expected => Math.abs(document.querySelector('[data-gradient=v]')?.dataset.value - expected) < 1e-9",
        arg=float(root),
    )


def test_it_is_stepped_backward(lab: Any, page: Any):
    page.goto(lab.link("/view/autodiff"))
    page.get_by_role("button", name="Backward").click()
    page.get_by_role("button", name="Step", exact=True).click()
    assert page.get_by_role("heading", name="Backward, operation 1 of 4: power").count() == 1
    assert page.locator("svg.graph .changed").count() == 1
