"""Checks a server's URL before a client is made of it."""

import re
from urllib.parse import parse_qs, unquote, urlsplit


def checked(url: str) -> str:
    """Return a URL after checks that redis-py lacks. Its database, if any, must be a number, since redis-py takes any
    other name for 0. A Unix socket's path must follow three slashes, since redis-py drops a host behind two.

    Raises: ValueError.
    """
    parts = urlsplit(url)
    if parts.scheme == "unix" and (parts.hostname or not parts.path):
        raise ValueError("unix:// takes the whole path of the socket: unix:///run/streamd/streamd.sock")
    name = unquote(parts.path).strip("/")
    if parts.scheme in ("redis", "rediss") and "db" not in parse_qs(parts.query) and not re.fullmatch(r"[0-9]*", name):
        raise ValueError(f"database {name!r} is no number; give one behind the slash, 0 say, or none")
    return url


def without_password(url: str) -> str:
    """Return a URL without user and password, in any place."""
    url = re.sub(r"//[^/]*@", "//", url)
    return re.sub(r"([?&](?:sentinel_)?(?:password|username)=)[^&]*", r"\1...", url)
