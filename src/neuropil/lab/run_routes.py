"""Requests about runs: the table, one run, several side by side, what was deleted, and a run as one file."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Query
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from neuropil.http.json_values import finite
from neuropil.lab.forms import given_by
from neuropil.lab.queue.jobs import Jobs
from neuropil.lab.view import views_of
from neuropil.metrics import find_metric
from neuropil.runs.listing import curves, find_run, list_run, list_runs
from neuropil.runs.settings import read_settings
from neuropil.runs.trash import delete_run, deleted_runs, restore_run
from neuropil.tasks.results import results_of
from neuropil.training.history import read_history

Json = Mapping[str, Any]
MOST_COMPARED = 8


def add_runs(app: FastAPI, runs: Path, jobs: Jobs) -> None:
    @app.get("/api/runs")
    def listed() -> Json:
        deleted = [{"id": each.id, "name": each.name, "deleted": each.deleted} for each in deleted_runs(runs)]
        return {"runs": [each.to_dict() for each in list_runs(runs)], "deleted": deleted}

    @app.get("/api/runs/{name}")
    def one(name: str) -> Json:
        folder = find_run(runs, name)
        found = list_run(folder)
        views = [view.name for view in views_of(found.system) if view.needs_run and found.usable]
        return finite({**found.to_dict(), "views": views, **_inside(folder, found.state)})

    @app.get("/api/runs/{name}/curves")
    def measured(name: str) -> Json:
        return curves(find_run(runs, name))

    @app.get("/api/runs/{name}/options")
    def options(name: str) -> Json:
        return given_by(read_settings(find_run(runs, name)))

    @app.delete("/api/runs/{name}")
    def delete(name: str) -> Json:
        jobs.require_idle(name)
        deleted = delete_run(runs, name)
        jobs.feed.publish({"event": "runs"})
        return {"id": deleted.id, "name": deleted.name}

    @app.post("/api/deleted/{id}/restore")
    def restore(id: str) -> Json:
        restored = restore_run(runs, id)
        jobs.feed.publish({"event": "runs"})
        return {"name": restored}

    @app.get("/api/compare")
    def side_by_side(run: list[str] = Query(max_length=MOST_COMPARED)) -> Json:  # noqa: B008  # FastAPI's way
        from neuropil.runs.comparison import compare

        folders = [find_run(runs, name) for name in run]
        _, rows = compare(folders)
        return {"rows": rows, "curves": {folder.name: curves(folder) for folder in folders}}

    @app.get("/api/runs/{name}/archive")
    def archive(name: str) -> FileResponse:
        """As `run.save` writes it, for `neuropil.load` elsewhere."""
        from neuropil.runs.run import load

        folder = find_run(runs, name)
        made = tempfile.TemporaryDirectory()
        path = load(folder).save(Path(made.name) / f"{name}.zip")
        return FileResponse(path, filename=f"{name}.zip", background=BackgroundTask(made.cleanup))


def _inside(folder: Path, state: str) -> dict[str, Any]:
    """What its settings and results say; of a search or of what is damaged, nothing more."""
    if state == "damaged" or not (folder / "config.json").is_file():
        return {"results": [], "notes": []}
    settings = read_settings(folder)
    results = [
        {
            "name": result.name,
            "limit": result.limit,
            "metrics": [
                {"name": name, "title": find_metric(name).title, "value": value, "text": find_metric(name).text(value)}
                for name, value in result.metrics.items()
            ],
        }
        for result in results_of(read_history(folder / "metrics.jsonl"))
    ]
    return {"results": results, "notes": settings["facts"].get("notes", [])}
