"""The check of a page's requests: right host, own origin, and a token where other machines could reach the page.

A page on this machine's loopback is open to every web site that its user visits: by a form that posts to it, or by a
name that is made to point to 127.0.0.1. So the host must be one of the page's, and a post must come from the page.
"""

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "streamd-ui"
OPEN_PATHS = ("/login", "/static/")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # not no-referrer: with that a browser hides the origin of the page's own forms
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Rules:
    """The conditions of a request. names: hosts besides localhost; any_address: whether any IP address is allowed as
    host.

    token: None when the page listens on loopback only.
    """

    names: frozenset[str] = frozenset()
    any_address: bool = False
    token: str | None = None
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def knows_host(self, host: str) -> bool:
        """Return whether a Host header is one of this page's."""
        name = _name_of(host)
        if name is None:
            return False
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or name in self.names
        return address.is_loopback or self.any_address or name in self.names

    def is_token(self, text: str) -> bool:
        """Return whether a text is the token, in constant time."""
        return self.token is not None and hmac.compare_digest(text.encode(), self.token.encode())

    def lets_in(self, headers: Headers) -> bool:
        """Return whether a request has the token, or the cookie for it."""
        if self.token is None:
            return True
        kind, _, shown = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(shown.strip()):
            return True
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return morsel is not None and hmac.compare_digest(morsel.value.encode(), self.session.encode())


class Guard:
    """An ASGI application that passes on requests within the rules, and adds security headers to each response."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self.app = app
        self.rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = self._refusal(scope)
        await (refused or self.app)(scope, receive, send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self.rules.knows_host(headers.get("host", "")):
            return _refuse("This page does not know the host name that it was asked by; see --allow-host.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("GET and POST are all there is.", 405)
        if scope["method"] == "POST" and not _is_own_origin(headers):
            return _refuse("What changes something must come from this page itself.")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode", "navigate") != "navigate":
            return _refuse("Other sites may not read this page.")
        if not self.rules.lets_in(headers) and not path.startswith(OPEN_PATHS):
            if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
                return RedirectResponse("/login", 303)
            return PlainTextResponse("Sign in at /login, or send the header Authorization: Bearer TOKEN.", 401)
        return None


def _refuse(text: str) -> Response:
    return PlainTextResponse(text, 403)


def _is_own_origin(headers: Headers) -> bool:
    """Return whether the browser reports a page of the same host as the origin."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin")
    if origin is None:
        return False
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""


def _name_of(host: str) -> str | None:
    """Return the name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
