"""Who may ask: this machine; others only with the token.

A page of another site can make a browser send requests here: its origin is refused, and so is a host name that is not
ours, which a site may point at this machine (DNS rebinding)."""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Access:
    """`token` is demanded of everyone where it is given; else hosts that are not this machine are refused, unless it is
    `unguarded`."""

    host: str
    token: str | None = None
    unguarded: bool = False

    def allows_host(self, host: str) -> bool:
        return _hostname(host) in (*LOOPBACK, self.host) or self.token is not None or self.unguarded

    def knows(self, given: Iterable[str]) -> bool:
        """Whether one of these is the token, where one is demanded."""
        if self.token is None:
            return True
        return any(hmac.compare_digest(each.encode(), self.token.encode()) for each in given)


def from_another_site(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page which is not ours asks."""
    origin = headers.get("origin")
    foreign = origin is not None and origin.partition("://")[2] != headers.get("host", "")
    unsafe = method not in ("GET", "HEAD")
    return foreign or (unsafe and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"))


def bearer(headers: Mapping[str, str]) -> str:
    """The token, whatever the case in which its scheme is written."""
    given = headers.get("authorization", "")
    scheme, _, token = given.partition(" ")
    return token if scheme.lower() == "bearer" else given


def _hostname(host: str) -> str:
    """Without its port; what is no address has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
