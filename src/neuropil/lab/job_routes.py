"""Requests about training: forms, data of one's own, the queue, and news of it as they come."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import contextmanager_in_threadpool, run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.requests import ClientDisconnect

from neuropil.errors import InputError
from neuropil.lab.forms import blamed, filled, form
from neuropil.lab.plan import Planner
from neuropil.lab.questions import Question
from neuropil.lab.queue.jobs import Jobs
from neuropil.lab.security import UPLOADS
from neuropil.lab.uploads import Uploads

Json = Mapping[str, Any]


def add_jobs(app: FastAPI, jobs: Jobs, uploads: Uploads) -> None:
    planner = Planner()

    @app.post("/api/forms/{system}")
    def ask_form(system: str, values: Question) -> Json:
        return form(system, values)

    @app.post("/api/plans/{system}")
    def plan(system: str, values: Question) -> Json:
        return planner.ask(filled(system, values), with_data=form(system)["own_data"])

    @app.post("/api/jobs/{system}")
    def start(system: str, values: Question) -> JSONResponse:
        name = str(values.pop("run_name", ""))
        try:
            if any(each["name"] == "previews" for each in form(system)["options"]):
                values = {"previews": True, **values}  # which a page shows as they come
            job = jobs.start(filled(system, values), name)
        except InputError as error:
            return JSONResponse({"error": str(error), "option": blamed(error, system)}, 400)
        return JSONResponse(job.to_dict())

    @app.post("/api/queue/{id}/{action}")
    def change(id: str, action: str) -> Json:
        actions = {"pause": jobs.pause, "resume": jobs.resume, "stop": jobs.stop, "remove": jobs.remove}
        if action not in actions:
            raise InputError("a job is paused, resumed, stopped or removed", got=f"{action!r}")
        done = actions[action](id)
        return {} if done is None else done.to_dict()

    @app.post("/api/runs/{name}/resume")
    def resume(name: str) -> Json:
        return jobs.resume_run(name).to_dict()

    @app.get("/api/queue/{id}/curves")
    def curves(id: str) -> Json:
        return jobs.curves(id)

    @app.get("/api/queue/{id}/previews")
    def previews(id: str) -> Json:
        return {"previews": jobs.previews(id)}

    @app.get("/api/queue/{id}/log")
    def log(id: str) -> Json:
        return {"log": jobs.log(id)}

    @app.get("/api/events")
    async def events() -> StreamingResponse:
        return StreamingResponse(jobs.feed.follow(jobs.snapshot), media_type="text/event-stream")

    @app.post(UPLOADS)
    def begin_upload() -> Json:
        return {"id": uploads.begin()}

    @app.put(f"{UPLOADS}/{{id}}")
    async def upload(request: Request, id: str, name: str) -> Json:
        """The body is the file, in pieces as they come."""
        length = request.headers.get("content-length")
        writing = uploads.writing(id, name, int(length) if length and length.isdecimal() else None)
        try:
            async with contextmanager_in_threadpool(writing) as file:  # unpacking takes long, and nobody waits for it
                async for piece in request.stream():
                    await run_in_threadpool(file.write, piece)
        except ClientDisconnect:
            raise InputError("an upload must come whole") from None
        return {"paths": [str(path) for path in await run_in_threadpool(uploads.data, id)]}

    @app.get(UPLOADS)
    def list_uploads() -> Json:
        return {"uploads": uploads.list()}
