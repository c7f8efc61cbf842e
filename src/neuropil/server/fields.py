"""From the bytes of a request to its checked fields."""

import asyncio
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, NoReturn, TypeVar

from fastapi import Request

from neuropil.config import Config
from neuropil.errors import InputError, nearest
from neuropil.server.refusals import Refusal

F = TypeVar("F", bound=Config)
SECONDS_TO_SEND = 30
"""That a client has for a request."""
MOST_TEXTS = 2048
"""Of one request, as OpenAI has it."""


async def read_body(request: Request, most: int) -> dict[str, Any]:
    body = bytearray()
    try:
        async with asyncio.timeout(SECONDS_TO_SEND):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise too_large(most)
    except TimeoutError:
        raise Refusal(408, f"A request must come within {SECONDS_TO_SEND} seconds.") from None
    return parse_body(bytes(body))


def too_large(most: int) -> Refusal:
    return Refusal(413, f"A request may have at most {most:,} bytes.", code="request_too_large")


def parse_body(body: bytes) -> dict[str, Any]:
    """JSON can name NaN, halves of characters, and numbers of any size: none of them is a value to compute with."""
    try:
        values = json.loads(body, parse_constant=_no_number)
        json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Refusal(400, "A request must be JSON, its texts Unicode and its numbers finite.") from None
    if not isinstance(values, dict):
        raise Refusal(400, f"A request must be a JSON object, but got {json_type(values)}.")
    return values


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def read_fields(form: type[F], body: Mapping[str, Any]) -> F:
    """Null stands for what is left out. A field that is not known is refused: whoever sent it meant something."""
    known = {each.name: each for each in form().options()}
    for name in body:
        if name not in known:
            said = f"{name[:100]!r} is no field of this request: {nearest(name[:100], sorted(known))}"
            raise Refusal(400, said if said.endswith("?") else f"{said}.", param=name[:100], code="unknown_field")
    given = {name: _tuple(value, known[name].type) for name, value in body.items() if value is not None}
    try:
        for name, value in given.items():
            if not known[name].fits(value):
                got = json.dumps(body[name], ensure_ascii=False)
                raise InputError(f"{name} must be {json_words(known[name].type)}", got=got)
            known[name].require(value)
        return form(**given)
    except InputError as error:
        name = error.rule.partition(" ")[0]
        raise Refusal(400, str(error), param=name if name in known else None) from None


def _tuple(value: Any, kind: Any) -> Any:
    """A list as options hold it; a single text for a list of one."""
    if typing.get_origin(kind) is not tuple or not isinstance(value, list | str):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def require_texts(name: str, value: object) -> list[str]:
    """One text, or several in a list."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        got = json_type(value) if not isinstance(value, list | tuple) else "a list of other things"
        raise InputError(f"{name} must be a text or a list of texts", got=got)
    if not 1 <= len(texts) <= MOST_TEXTS:
        raise InputError(f"{name} must hold 1 to {MOST_TEXTS:,} texts", got=f"{len(texts):,}")
    return list(texts)


def json_words(kind: Any) -> str:
    """A type as someone who writes JSON would say it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin is types.UnionType:
        return " or ".join(map(json_words, arguments))
    if origin is tuple:
        return f"{json_words(arguments[0])} or a list of {json_words(arguments[0]).removeprefix('a ')}s"
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "null"}[kind]


def json_type(value: object) -> str:
    names = {dict: "an object", list: "a list", tuple: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
