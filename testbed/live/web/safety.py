"""Who may ask the dashboard what. Pure: headers in, a refusal or none out.

Three doors: the Host header (a web page that has its own name point at this machine is refused: DNS rebinding), the
Origin of what changes something (a page of somebody else cannot make a browser do it: CSRF), and a token.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
TOKEN_BYTES = 18
SAFE_METHODS = frozenset({"GET", "HEAD"})

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Sent with every answer: nothing from outside is loaded, nobody frames the page, the token leaves by no referrer."""


class Refused(Exception):
    """A request that is not served; `status` is HTTP's."""

    def __init__(self, status: int, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.remedy = status, reason, remedy


@dataclass(frozen=True)
class Gate:
    """The rules of one listening address. `token` None asks for none: on loopback alone, and only if told so."""

    token: str | None
    loopback: bool
    cookie: str = "ringroad"
    hostname: str = ""

    def check(self, method: str, headers: Mapping[str, str], query_token: str | None = None) -> None:
        """Refused unless the request may be served. `headers` by lower-case name."""
        self._check_host(headers.get("host", ""))
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not _is_navigation(method, headers):
            raise Refused(403, "asked by a page from elsewhere")
        if method not in SAFE_METHODS:
            self._check_origin(headers)
        self._check_token(headers, query_token)

    def _check_host(self, host: str) -> None:
        name = _without_port(host).lower()
        if name in LOOPBACK_NAMES or _is_loopback(name):
            return
        if not self.loopback and (_is_address(name) or name == self.hostname.lower() != ""):
            return
        raise Refused(403, f"the Host header {host[:80]!r} is none of this dashboard", "open the address it printed")

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        origin, host = headers.get("origin"), headers.get("host", "")
        if origin is None or origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            raise Refused(403, "what changes something is taken from this dashboard's own page alone")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "a change is asked for in JSON")

    def _check_token(self, headers: Mapping[str, str], query_token: str | None) -> None:
        if self.token is None:
            return
        given = [
            query_token,
            _cookie(headers.get("cookie", ""), self.cookie),
            _bearer(headers.get("authorization", "")),
        ]
        if not any(secrets.compare_digest(self.token.encode(), each.encode()) for each in given if each):
            raise Refused(403, "no token, or a wrong one", "open the whole address that `ringroad` printed")


def new_token() -> str:
    """Not to be guessed, and fit for an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def _is_navigation(method: str, headers: Mapping[str, str]) -> bool:
    """A person who follows a link to the page, wherever the link is: it shows, and changes nothing."""
    return (
        method == "GET" and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    """A literal address: no name server has a say in what it means, so nothing can be rebound."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    """127.0.0.2 is this machine too; who listens there is reached by that name."""
    return _is_address(name) and ipaddress.ip_address(name.strip("[]")).is_loopback


def _cookie(header: str, name: str) -> str | None:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return morsel.value if morsel else None


def _bearer(header: str) -> str | None:
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() == "bearer" else None
