"""Training from a form, in a real browser: to its end, through a reload, through the death of the server, and what is
refused."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab_browser import opened_page
from neuropil.runs.run import load

LONG = 60_000
"""Milliseconds: a process of its own imports PyTorch before it trains."""


def begin(page: Any, address: str, **options: str) -> str:
    """Fill the form of the MLP and start it; the name of its run."""
    page.goto(f"{address}/#/train/mlp")
    page.get_by_role("button", name="Train mlp").wait_for()
    for name, value in options.items():
        field = page.locator(f"[data-option={name}]")
        if not field.is_visible():
            field.locator("xpath=ancestor::details").locator("summary").click()
        field.fill(value)
        field.press("Tab")
    page.get_by_role("button", name="Train mlp").click()
    page.locator("[data-job]").wait_for()
    return page.locator("h1").inner_text()


def test_a_form_becomes_a_finished_run_that_survives_a_reload(lab: Any, page: Any):
    name = begin(page, lab.address, epochs="2", hidden_sizes="8")
    page.locator("[data-state=running]").wait_for(timeout=LONG)
    page.reload()
    page.get_by_role("heading", name="Scores on held-out data").wait_for(timeout=LONG)
    run = load(lab.runs / name)
    assert run.options.to_dict()["training"]["epochs"] == 2
    assert run.options.to_dict()["model"]["hidden_sizes"] == [8]
    shown = page.locator("td [data-value]").evaluate_all("all => all.map(one => Number(one.dataset.value))")
    assert shown[: len(run.metrics)] == pytest.approx(list(run.metrics.values()))
    assert page.locator(".previews canvas").count() > 0


def test_an_option_out_of_bounds_is_refused_by_the_sentence_of_the_command_line(lab: Any, browser: Any):
    with opened_page(browser) as (page, faults):
        page.goto(f"{lab.address}/#/train/mlp")
        page.locator("[data-option=epochs]").fill("0")
        page.locator("[data-option=epochs]").press("Tab")
        page.get_by_role("button", name="Train mlp").click()
        page.get_by_role("alert").filter(has_text="epochs must be").wait_for()
        assert page.get_by_role("alert").inner_text() == "epochs must be at least 1, but got 0."
    assert all("status of 400" in fault for fault in faults)


def test_an_upload_is_read_and_a_wrong_one_is_refused(lab: Any, browser: Any, tmp_path: Path):
    table, wrong = tmp_path / "flowers.csv", tmp_path / "model.pkl"
    rows = "".join(f"{i % 7},{i * i % 11},{'red' if i % 2 else 'blue'}\n" for i in range(200))
    table.write_text(f"length,width,colour\n{rows}", encoding="utf-8")
    wrong.write_bytes(b"\x80\x04K\x01.")
    with opened_page(browser) as (page, faults):
        page.goto(f"{lab.address}/#/train/mlp")
        page.locator("input[type=file]").set_input_files(table)
        page.get_by_role("alert").filter(has_text="needs a target, the column to predict").wait_for(timeout=LONG)
        page.get_by_role("button", name="Train mlp").click()
        assert page.url.endswith("/#/train/mlp")  # what was refused is not begun
        page.locator("[data-option=target]").fill("colour")
        page.locator("[data-option=target]").press("Tab")
        page.locator(".data-preview").filter(has_text="colour").wait_for(timeout=LONG)
        understood = page.locator(".data-preview").inner_text()
        assert re.search(r"flowers\.csv", understood)
        assert "red" in understood
        page.locator("input[type=file]").set_input_files(wrong)
        page.get_by_role("alert").filter(has_text="model.pkl").wait_for(timeout=LONG)
    assert all("status of 400" in fault for fault in faults)


@contextmanager
def own_lab(runs: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    words = [sys.executable, "-m", "neuropil", "lab", "--runs", str(runs), "--port", "0", "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[4].rstrip("/"), process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_run_outlives_the_server_and_the_next_one_goes_on_with_it(browser: Any, tmp_path: Path):
    with opened_page(browser) as (page, _):
        with own_lab(tmp_path) as (address, server):
            name = begin(page, address, epochs="100000", hidden_sizes="8")
            page.locator("[data-state=running]").wait_for(timeout=LONG)
            page.wait_for_function(
                "() => document.querySelector('.numeric-line')?.textContent.includes('loss')", timeout=LONG
            )
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
        with own_lab(tmp_path) as (address, _):
            page.goto(f"{address}/#/run/{name}")
            page.locator("[data-state=running]").wait_for(timeout=LONG)
            before = len((tmp_path / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
            page.get_by_role("button", name="Pause").click()
            page.locator("[data-state=paused]").wait_for(timeout=LONG)
            assert len((tmp_path / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) >= before > 0
            page.get_by_role("button", name="Stop").click()
            page.locator("[data-state=stopped]").wait_for(timeout=LONG)
            assert (tmp_path / name / "checkpoint.safetensors").exists()
