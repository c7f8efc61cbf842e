"""The lab's requests, each a few lines over `runs`, `tasks` and `inspection`. Nothing heavy is imported until the first
page is there."""

import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles

import neuropil
from neuropil import recipes
from neuropil.errors import InputError
from neuropil.http.access import Access
from neuropil.lab import explain
from neuropil.lab.job_routes import add_jobs
from neuropil.lab.open_runs import OpenRuns
from neuropil.lab.questions import Question, add_refusals
from neuropil.lab.queue.jobs import Jobs
from neuropil.lab.run_routes import add_runs
from neuropil.lab.security import REPORT_POLICY, Guard
from neuropil.lab.uploads import Uploads
from neuropil.lab.view import VIEWS, ask, find_view, views_of

Json = Mapping[str, Any]


def create_app(runs: Path, access: Access, *, warm: Callable[[], None] | None = None) -> FastAPI:
    """The application for the runs in a folder, whose queue is worked off while it is served. `warm` is called in the
    background when the first page can be served."""

    jobs, opened = Jobs(runs), OpenRuns(runs)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if warm is not None:
            threading.Thread(target=warm, daemon=True).start()
        with jobs:
            yield

    app = FastAPI(
        title="neuropil lab",
        version=neuropil.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        telemetry={"auto_configure": False},
    )
    app.add_middleware(Guard, access=access)
    app.state.close_streams = jobs.feed.close
    add_refusals(app)
    add_pages(app, opened)
    add_views(app, opened)
    add_runs(app, runs, jobs)
    add_jobs(app, jobs, Uploads(runs))
    return app


def add_pages(app: FastAPI, opened: OpenRuns) -> None:
    page = explain.page_folder()
    app.mount("/page", StaticFiles(directory=page), name="page")

    @app.get("/")
    def index() -> FileResponse:
        return FileResponse(page / "index.html")

    @app.get("/source/{file:path}")
    def source(file: str) -> PlainTextResponse:
        return PlainTextResponse(explain.source_file(file))

    @app.get("/report/{name:path}")
    def report(name: str) -> FileResponse:
        path = opened.path(name) / "report.html"
        if not path.is_file():
            raise InputError("a report is there when its run is finished", got=f"{name!r}")
        return FileResponse(path, headers={"content-security-policy": REPORT_POLICY})

    @app.get("/api/systems")
    def systems() -> list[Json]:
        return [
            {
                "name": system.name,
                "family": system.family,
                "summary": system.summary,
                "verb": system.verb,
                "views": [view.name for view in views_of(system.name)],
            }
            for system in recipes.SYSTEMS
        ]


def add_views(app: FastAPI, opened: OpenRuns) -> None:
    playgrounds = {view.name: threading.Lock() for view in VIEWS}

    @app.get("/api/views")
    def views() -> list[Json]:
        return [
            {
                "name": view.name,
                "title": view.title,
                "idea": view.idea,
                "systems": view.systems,
                "needs_run": view.needs_run,
                "styled": (explain.page_folder() / "views" / f"{view.name}.css").is_file(),
            }
            for view in VIEWS
        ]

    @app.post("/api/views/{name}/{action}")
    def answer(name: str, action: str, values: Question, run: str = "") -> JSONResponse:
        view = find_view(name)
        if not view.needs_run:
            with playgrounds[name]:
                return JSONResponse(ask(view, action, None, values))
        with opened.borrowed(run) as borrowed:
            return JSONResponse(ask(view, action, borrowed, values))

    @app.get("/api/explain/{system}")
    def explained(system: str, view: str = "") -> Json:
        code = explain.code_of(find_view(view)) if view else []
        return {"equations": explain.equations_of(system), "code": code}
