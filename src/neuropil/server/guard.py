"""Before any request is read: who may ask, whether the server still takes requests, how large they may be. After it:
what is counted."""

import sys
import time
from collections.abc import Collection
from datetime import UTC, datetime

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neuropil.http.access import Access, bearer, from_another_site
from neuropil.server.config import ServerConfig
from neuropil.server.fields import too_large
from neuropil.server.prometheus import Figures
from neuropil.server.refusals import Refusal, shutting_down

HEALTH = ("/healthz", "/healthz/ready")
"""What a load balancer asks, without a token; it says nothing of what is served."""
LONGEST_PATH = 100
PROTECTION = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Draining:
    """Whether the server is on its way out, and takes no new requests; and how many it has, which may not have been
    read yet."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.requests = 0

    def __bool__(self) -> bool:
        return self.since is not None

    @property
    def idle(self) -> bool:
        return self.requests == 0

    def begin(self) -> None:
        self.since = self.since or time.monotonic()


def line_of(scope: Scope, status: int, seconds: float) -> str:
    """When it was answered, whom, what it asked and how it ended; what a client makes up is cut and quoted."""
    now, path = datetime.now(UTC).isoformat(timespec="seconds"), scope["path"]
    shown = path if path.isascii() and path.isprintable() and len(path) <= LONGEST_PATH else ascii(path[:LONGEST_PATH])
    host = scope["client"][0] if scope.get("client") else "-"
    return f"{now} {host} {scope['method']} {shown} {status} {seconds:.3f} s\n"


class ServerGuard:
    """Middleware without buffering, so that texts stream."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        config: ServerConfig,
        figures: Figures,
        draining: Draining,
        paths: Collection[str],
    ):
        self.app, self.access, self.config = app, access, config
        self.figures, self.draining, self.paths = figures, draining, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        endpoint = scope["path"] if scope["path"] in self.paths else "other"  # of which there may be any number
        status, begun = 500, time.monotonic()

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTION.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self.refusal(scope)
        self.draining.requests += 1
        try:
            await (self.app if refusal is None else refusal.answer())(scope, receive, send_guarded)
        finally:
            self.draining.requests -= 1
            seconds = time.monotonic() - begun
            self.figures.requests.add(endpoint=endpoint, status=str(status))
            self.figures.request_seconds.observe(seconds, endpoint=endpoint)
            if self.config.log:
                sys.stderr.write(line_of(scope, status, seconds))

    def refusal(self, scope: Scope) -> Refusal | None:
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "")
        if not self.access.allows_host(host):
            return Refusal(403, f"The server is not at {host[:100]!r}: ask it at 127.0.0.1.", code="wrong_host")
        if from_another_site(scope["method"], headers):
            return Refusal(403, "Requests from pages of other sites are refused.", code="wrong_origin")
        if path in HEALTH:
            return None
        if not self.access.knows([bearer(headers)]):
            said = "A request must bring the server's token, as in `Authorization: Bearer TOKEN`."
            return Refusal(401, said, code="invalid_api_key", headers={"www-authenticate": "Bearer"})
        if self.draining and path != "/metrics":
            return shutting_down()
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > self.config.max_body:
            return too_large(self.config.max_body)
        return None
