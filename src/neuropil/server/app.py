"""The server's requests."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

import neuropil
from neuropil.http.access import Access
from neuropil.server.completions import Choice, Completion, CompletionFields, read_prompts, text_requests
from neuropil.server.config import ServerConfig
from neuropil.server.decoding import TextCall
from neuropil.server.endpoints import ENDPOINTS, Asked, Endpoint
from neuropil.server.fields import read_body, read_fields
from neuropil.server.guard import HEALTH, Draining, ServerGuard
from neuropil.server.models import PATHS, ServedModels
from neuropil.server.prometheus import CONTENT_TYPE, Figures
from neuropil.server.refusals import Refusal, add_refusals
from neuropil.tasks.language_modelling.predictor import LanguageModel
from neuropil.tasks.predictor import Generates

T = TypeVar("T")
MODELS = "/v1/models"
ASKED_BY_BALANCERS = ["GET", "HEAD"]
SECONDS_OF_SILENCE = 15
"""After which a stream says that it is still there, to whatever stands between it and the client."""


def create_app(
    models: ServedModels, access: Access, config: ServerConfig, figures: Figures, draining: Draining
) -> FastAPI:
    app = FastAPI(
        title="neuropil serve",
        version=neuropil.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry={"auto_configure": False},
    )
    paths = [*PATHS.values(), MODELS, *HEALTH, "/metrics"]
    app.add_middleware(
        ServerGuard, access=access, config=config, figures=figures, draining=draining, paths=frozenset(paths)
    )
    add_refusals(app, ", ".join(paths))
    add_state(app, models, figures, draining)
    add_completions(app, models, config, figures)
    for endpoint in ENDPOINTS:
        add_endpoint(app, endpoint, models, config, figures)
    return app


def add_state(app: FastAPI, models: ServedModels, figures: Figures, draining: Draining) -> None:
    @app.api_route("/healthz", methods=ASKED_BY_BALANCERS)
    async def health() -> JSONResponse:
        state = {"alive": models.alive, "ready": models.alive and not draining}
        return JSONResponse(state, 200 if state["alive"] else 503)

    @app.api_route("/healthz/ready", methods=ASKED_BY_BALANCERS)
    async def ready() -> JSONResponse:
        state = {"alive": models.alive, "ready": models.alive and not draining}
        return JSONResponse(state, 200 if state["ready"] else 503)

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(figures.text(), media_type=CONTENT_TYPE)

    @app.get(MODELS)
    async def listed() -> JSONResponse:
        return JSONResponse({"object": "list", "data": [model.to_dict() for model in models.named.values()]})

    @app.get(f"{MODELS}/{{name:path}}")
    async def one(name: str) -> JSONResponse:
        return JSONResponse(models.find(name).to_dict())


def add_endpoint(
    app: FastAPI, endpoint: Endpoint, models: ServedModels, config: ServerConfig, figures: Figures
) -> None:
    @app.post(PATHS[endpoint.protocol])
    async def answer(request: Request) -> Response:
        body = await read_body(request, config.max_body)
        served = named_model(models, body)
        served.able(endpoint.protocol)
        require_given(endpoint.required, body)
        asked = Asked(served, read_fields(endpoint.fields, body), config, figures)
        found = await unless_gone(request, endpoint.answer(asked))
        return await run_in_threadpool(JSONResponse, found)  # a thousand embeddings take long to write


def add_completions(app: FastAPI, models: ServedModels, config: ServerConfig, figures: Figures) -> None:
    @app.post(PATHS[Generates])
    async def complete(request: Request) -> Response:
        body = await read_body(request, config.max_body)
        served = named_model(models, body)
        model, writer = served.able(Generates), served.writer
        require_given(("prompt",), body)
        fields = read_fields(CompletionFields, body)
        if writer is None or not isinstance(model, LanguageModel):
            raise Refusal(404, f"{served.name} cannot be asked for completions.", param="model")
        prompts = await run_in_threadpool(read_prompts, model, fields.prompt, fields.n, writer.most_texts)
        completion = Completion(served, model, fields, prompts)
        requests = text_requests(fields, prompts, writer.longest_prompt, model.context, config)
        choices, call = completion.choices(requests), writer.submit(requests)
        figures.prompt_tokens.add(sum(len(prompt.tokens) for prompt in prompts), model=served.name)
        if fields.stream:
            return EventStream(completion, choices, call)
        try:
            await unless_gone(request, _finish(call, choices))
        finally:
            call.cancel()
        whole = [choice.to_dict(choice.text) for choice in choices]
        return JSONResponse(completion.to_dict(whole, usage=completion.usage(choices)))


async def _finish(call: TextCall, choices: list[Choice]) -> None:
    async for index, update in call:
        choices[index].add(update)


class EventStream(StreamingResponse):
    """Server-sent events; however it ends, its texts do too."""

    def __init__(self, completion: Completion, choices: list[Choice], call: TextCall):
        self.call = call
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(_events(completion, choices, call), media_type="text/event-stream", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.call.cancel()


async def _events(completion: Completion, choices: list[Choice], call: TextCall) -> AsyncIterator[str]:
    with_usage = completion.fields.include_usage
    nothing = {"usage": None} if with_usage else {}
    try:
        for choice in choices:
            if choice.text:  # the prompt
                yield _event(completion.to_dict([choice.to_dict(choice.text)], **nothing))
        async for found in call.patiently(SECONDS_OF_SILENCE):
            if found is None:
                yield ": still there\n\n"
                continue
            choice, update = choices[found[0]], found[1]
            text = choice.add(update)
            if text or choice.finished or choice.scores:
                yield _event(completion.to_dict([choice.to_dict(text)], **nothing))
        if with_usage:
            yield _event(completion.to_dict([], usage=completion.usage(choices)))
    except Refusal as refusal:
        yield _event(refusal.body())
    yield "data: [DONE]\n\n"


def _event(values: Any) -> str:
    return f"data: {json.dumps(values, ensure_ascii=False, separators=(',', ':'))}\n\n"


def named_model(models: ServedModels, body: dict[str, Any]) -> Any:
    name = body.get("model")
    if name is not None and not isinstance(name, str):
        raise Refusal(400, "model must be a text, but got something else.", param="model")
    return models.find(name or "")


def require_given(names: tuple[str, ...], body: dict[str, Any]) -> None:
    for name in names:
        if body.get(name) is None:
            raise Refusal(400, f"{name} must be given.", param=name, code="missing_field")


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work finds; where the client leaves before, the work is cancelled."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Refusal(499, "The client has closed the request.", code="client_closed")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
