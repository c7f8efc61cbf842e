"""What a request is answered where it cannot be done: one sentence, in the shape that OpenAI's clients read.

{"error": {"message": …, "type": …, "param": the field that is wrong, "code": …}}
"""

import logging
from collections.abc import Mapping
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from neuropil.errors import NeuropilError

TYPES = {
    429: "rate_limit_error",
    500: "server_error",
    503: "unavailable_error",
    504: "timeout_error",
}
"""Every other one is the client's: `invalid_request_error`."""
LONGEST = 600
"""Characters of a message, which may show what was sent."""


class Refusal(Exception):  # noqa: N818 (it is named after what it says)
    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.param, self.code, self.headers = status, param, code, headers

    def body(self) -> dict[str, Any]:
        message = str(self)
        shown = message if len(message) <= LONGEST else f"{message[: LONGEST - 1]}…"
        kind = TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": shown, "type": kind, "param": self.param, "code": self.code}}

    def answer(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, headers=self.headers)


def shutting_down() -> Refusal:
    leave = {"retry-after": "5", "connection": "close"}
    return Refusal(503, "The server is shutting down.", code="shutting_down", headers=leave)


def refusal_of(error: BaseException) -> Refusal:
    """For what a model says of its input, the client's fault; for anything else, ours."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, NeuropilError):
        return Refusal(400, str(error))
    said = f"The server failed at this request ({type(error).__name__}); its log says where."
    return Refusal(500, said, code="internal_error")


def log_fault(error: BaseException) -> None:
    """What is no client's fault, in full, for who runs the server."""
    logging.getLogger("uvicorn.error").error("a request failed", exc_info=error)


def add_refusals(app: FastAPI, paths: str) -> None:
    """`paths` are those that there are, for a sentence."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        return refusal_of(error).answer()

    async def unknown(request: Request, error: Exception) -> JSONResponse:
        found = cast(HTTPException, error)
        asked = f"{request.method} {request.url.path}"[:200]
        if found.status_code == 405:
            said = (
                f"This cannot be asked by {asked}: the method must be {(found.headers or {}).get('Allow', 'another')}."
            )
            return Refusal(405, said, code="method_not_allowed", headers=found.headers).answer()
        return Refusal(found.status_code, f"There is no {asked}: there are {paths}.", code="unknown_url").answer()

    async def gone(_: Request, error: Exception) -> JSONResponse:
        return Refusal(400, "A request must come whole.").answer()  # which nobody reads

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(NeuropilError, refused)
    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, refused)
