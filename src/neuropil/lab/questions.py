"""What a page asks, as a JSON object; and what it is answered where it cannot be: one sentence, as on the command
line."""

import json
from typing import Annotated, Any, cast

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from neuropil.errors import InputError, NeuropilError
from neuropil.lab.security import PROTECTION


async def _question(request: Request) -> dict[str, Any]:
    """An empty body asks with nothing given. Halves of signs, which JSON can name, are no text that could be answered
    with or written to a file."""
    try:
        values = json.loads(await request.body() or "{}")
        json.dumps(values, ensure_ascii=False).encode()
    except ClientDisconnect:  # by its own will, or because it sent too much
        raise InputError("a question must come whole") from None
    except (ValueError, RecursionError):
        raise InputError("a question must be JSON, and its texts Unicode", got="something else") from None
    if not isinstance(values, dict):
        raise InputError("a question must be a JSON object", got=type(values).__name__)
    return values


Question = Annotated[dict[str, Any], Depends(_question)]


def add_refusals(app: FastAPI) -> None:
    app.add_exception_handler(NeuropilError, _refused)
    app.add_exception_handler(RequestValidationError, _incomplete)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(OSError, _without_file)
    app.add_exception_handler(Exception, _failed)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 400)


async def _incomplete(_: Request, error: Exception) -> JSONResponse:
    """Of a query, which our own pages never ask."""
    found = cast(RequestValidationError, error).errors()
    wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)
    return JSONResponse({"error": f"This cannot be asked: {wrong}."}, 400)


async def _unknown(_: Request, error: Exception) -> JSONResponse:
    found = cast(HTTPException, error)
    return JSONResponse({"error": f"The lab has nothing there: {found.detail}."}, found.status_code, found.headers)


async def _without_file(_: Request, error: Exception) -> JSONResponse:
    """A full disk, a folder that may not be written to, a run that went while it was read."""
    return JSONResponse({"error": f"The files of the runs must be there to read and write, but got {error}."}, 400)


async def _failed(_: Request, error: Exception) -> JSONResponse:
    """A fault of the lab's own. Nothing stands around this answer that would protect it."""
    said = f"The lab failed ({type(error).__name__}): the terminal that it was started in says where."
    return JSONResponse({"error": said}, 500, headers=PROTECTION)
