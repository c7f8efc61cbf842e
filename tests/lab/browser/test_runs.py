from typing import Any

from lab.small_runs import SMALL


def test_a_run_is_deleted_and_comes_back(lab: Any, page: Any, trained_run: Any):
    trained_run("mlp", **SMALL["mlp"])
    page.goto(lab.link("/runs"))
    page.get_by_role("button", name="Delete mlp", exact=True).click()
    page.get_by_text("mlp is deleted.").first.wait_for()
    assert not (lab.runs / "mlp").exists()
    page.get_by_role("button", name="Undo").click()
    page.locator("tr[data-run=mlp]").wait_for()
    assert (lab.runs / "mlp" / "model.safetensors").exists()


def test_the_table_of_runs_scrolls_within_a_phone(lab: Any, page: Any, trained_run: Any):
    trained_run("mlp", **SMALL["mlp"])
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(lab.link("/runs"))
    page.locator("tr[data-run=mlp]").wait_for()
    assert page.locator("[aria-label=Runs]").evaluate("table => table.scrollWidth > table.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_two_runs_stand_side_by_side(lab: Any, page: Any, trained_run: Any):
    first = trained_run("mlp", **SMALL["mlp"])
    second = trained_run("cnn", **SMALL["cnn"])
    page.goto(lab.link("/runs"))
    for name in ("mlp", "cnn"):
        page.get_by_label(f"Choose {name}", exact=True).check()
    page.get_by_role("button", name="Compare 2 runs").click()
    page.get_by_role("heading", name="Runs side by side").wait_for()
    rows = page.locator("tbody tr").evaluate_all("all => all.map(row => [...row.cells].map(cell => cell.textContent))")
    accuracy = next(row for row in rows if row[0] == "accuracy")
    assert sorted(accuracy[1:]) == sorted(f"{100 * run.metrics['accuracy']:.2f} %" for run in (first, second))


def test_a_run_is_downloaded_and_opens_elsewhere(lab: Any, page: Any, trained_run: Any, tmp_path: Any):
    from neuropil.runs.run import load

    run = trained_run("mlp", **SMALL["mlp"])
    page.goto(lab.link("/run/mlp"))
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as .zip").click()
    download.value.save_as(tmp_path / "mlp.zip")
    assert load(tmp_path / "mlp.zip").metrics == run.metrics


def test_a_view_is_saved_as_a_page_and_as_a_picture(lab: Any, page: Any, tmp_path: Any):
    page.goto(lab.link("/view/lif", state='{"current":1.5}'))
    page.locator(".view[data-ready]").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save HTML").click()
    download.value.save_as(tmp_path / "view.html")
    written = (tmp_path / "view.html").read_text(encoding="utf-8")
    assert "<script" not in written
    assert "http://127" not in written
    page.goto((tmp_path / "view.html").as_uri())
    assert page.locator("img, svg.chart").count() >= 3
    assert "Spiking neurons" in page.locator("h1").inner_text()


def test_a_view_is_saved_as_a_picture(lab: Any, page: Any, tmp_path: Any):
    from PIL import Image

    page.goto(lab.link("/view/lif"))
    page.locator(".view[data-ready]").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save PNG").click()
    download.value.save_as(tmp_path / "view.png")
    with Image.open(tmp_path / "view.png") as image:
        assert image.width > 800
        assert len(image.convert("RGB").getcolors(2**24) or []) > 50
