"""A run as a notebook shows it: its scores, how it learned, and where its report is."""

from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote
from zlib import crc32

from neuropil.errors import InputError
from neuropil.inspection.pictures.training import learning_curve
from neuropil.inspection.report.page import Block, Picture, Table, Text, html_of
from neuropil.metrics import find_metric
from neuropil.runs.overview import margin, metric_names, result_rows

if TYPE_CHECKING:
    from neuropil.runs.run import Run


def card(run: "Run") -> str:
    results = run.results
    if results:
        header = ["", *(find_metric(name).title for name in metric_names(results))]
        blocks: list[Block] = [Text(margin(results)), Table(header, result_rows(results))]
    else:
        blocks = [Text(f"Not finished: {run.progress}. Go on with `{run.resume_command}`.")]
    shown = "\n".join(html_of(block, "") for block in blocks)
    with suppress(InputError):  # what learns nothing has no curve
        curve = Picture.of(learning_curve(run.rows), alt="learning curve")
        drawing = html_of(curve, f"run-{crc32(bytes(run.folder.absolute())):x}-")  # ids of its own in the notebook
        shown += (
            f'\n<div style="background: white; max-width: 100%; overflow-x: auto">{drawing}</div>'  # in the dark too
        )
    where = escape(str(run.report if run.report.exists() else run.folder))
    link = f'<a href="{quote(str(run.report))}" target="_blank">{where}</a>' if run.report.exists() else where
    return f"<div><h4>{escape(run.name)}</h4>\n{shown}\n<p>{link}</p></div>"
