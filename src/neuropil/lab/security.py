"""Who may ask the lab: pages of its own, from this machine; from others only with the token. How its answers are
protected."""

from http.cookies import SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neuropil.http.access import Access, bearer, from_another_site

COOKIE = "neuropil-lab"
LARGEST_QUESTION = 2**20
"""Bytes of any request but an upload, which has limits of its own."""
UPLOADS = "/api/uploads"
NOTEBOOKS = "http://localhost:* http://127.0.0.1:* https://localhost:* vscode-webview:"
"""Pages on this machine that may frame a view."""

PAGE_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        f"frame-ancestors 'self' {NOTEBOOKS}",
    ]
)
PROTECTION = {
    "content-security-policy": PAGE_POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every answer, unless it brings its own."""
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)
"""Reports bring their scripts and styles along; they see nothing of the lab."""


class Guard:
    """Middleware without buffering, so that events stream."""

    def __init__(self, app: ASGIApp, access: Access):
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTION.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self.refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
        else:
            await self.app(scope, self.limited(scope, receive), send_guarded)

    def limited(self, scope: Scope, receive: Receive) -> Receive:
        """What a client sends beyond the limit is not read: the question ends there, and is none."""
        if scope["path"].startswith(UPLOADS):
            return receive
        taken = 0

        async def receive_limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return {"type": "http.disconnect"} if taken > LARGEST_QUESTION else message

        return receive_limited

    def refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self.access.allows_host(host):
            return PlainTextResponse(f"The lab is not at {host!r}: open it at 127.0.0.1.", 403)
        if from_another_site(scope["method"], headers):
            return PlainTextResponse("Requests from other sites are refused.", 403)
        length = headers.get("content-length", "0")
        if not scope["path"].startswith(UPLOADS) and (not length.isdecimal() or int(length) > LARGEST_QUESTION):
            return PlainTextResponse(f"A question may have {LARGEST_QUESTION:,} bytes.", 413)
        return self.without_token(scope, headers)

    def without_token(self, scope: Scope, headers: Headers) -> Response | None:
        token = self.access.token
        if token is None:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and self.access.knows([given]):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return answer
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        if self.access.knows([cookie.value if cookie else "", bearer(headers)]):
            return None
        return PlainTextResponse("The lab asks for its token: open the link that `neuropil lab` printed.", 401)
