"""A page in the browser of the tests, with what went wrong on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WAIT = 60_000
"""Milliseconds: far more than an answer takes, so that only a fault runs into it."""
OWN = ("http://127.0.0.1:", "data:", "blob:", "about:", "file:")


@contextmanager
def opened_page(browser: Any, **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """The page, and a list that gets the errors of its scripts and every request to another machine."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    context.set_default_timeout(WAIT)
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: None if request.url.startswith(OWN) else faults.append(request.url))
    try:
        yield page, faults
    finally:
        context.close()
