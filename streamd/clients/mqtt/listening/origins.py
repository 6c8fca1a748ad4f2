"""The web pages that may connect: the Origin header of browsers against the list of the options.

A browser lets every page open a WebSocket to every address that it reaches, and says in the header Origin which page
it was. Most programs send no such header and are let in: they could send any. With a list, an origin must be in it.
Without one, a page is let in if its host is the one that it connects to, by whatever port, and that host is an
address, `localhost`, or a name that only a local network can have. Another name is not enough: its owner can have it
resolve to this machine for a moment (DNS rebinding), and so make any page appear to be of the same host.

paho's Python client sends one, too, made from the host and port that it connects to. Where it connects by a name of
the public DNS, `https://name:port` (without TLS `http://name:port`) has to be in the list.
"""

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from streamd.clients.mqtt.listening.faults import ListenFault

ANY: Final = "*"
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
LOOPBACK: Final = "localhost"
# Names that nobody can register: RFC 6762, RFC 8375, RFC 6761, and the one that ICANN keeps for private use.
LOCAL_SUFFIXES: Final = (".local", ".home.arpa", ".localhost", ".internal")


class Origins:
    """The origins that are let in."""

    def __init__(self, listed: tuple[str, ...]) -> None:
        """listed: origins as given by the user. Raises: ListenFault."""
        self._listed = frozenset(_read(one) for one in listed)

    def lets_in(self, origins: list[str], hosts: list[str]) -> bool:
        """Return whether a request is let in. origins, hosts: the values of its headers Origin and Host."""
        if not origins:
            return True
        if len(origins) > 1 or len(hosts) > 1:
            return False
        if self._listed:
            return ANY in self._listed or _normal(origins[0]) in self._listed
        host = _fixed_host(f"//{hosts[0]}") if hosts else None
        return host is not None and host == _fixed_host(origins[0])


def _read(given: str) -> str:
    """Return an origin in the form in which browsers send it. Raises: ListenFault."""
    if given == ANY:
        return ANY
    if given == "null":
        raise ListenFault("--ws-origin null: every page can send that; give '*' to let in every page")
    origin = _normal(given)
    if origin is None:
        raise ListenFault(
            f"--ws-origin {given!r}: not an origin; give scheme, host and port if it has one, as https://app.example.com"
        )
    return origin


def _normal(text: str) -> str | None:
    """Return an origin without capitals and without the port that its scheme has anyway; None if it is no origin."""
    parts = _split(text)
    if parts is None or not re.fullmatch(r"[^/:]+://[^/?#@\\]+/?", text):
        return None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def _split(text: str) -> SplitResult | None:
    if not text.isascii() or not text.isprintable() or " " in text:
        return None
    try:
        parts = urlsplit(text)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def _fixed_host(text: str) -> str | None:
    """Return the host of a URL if no stranger decides which machine it means; `localhost` for all of loopback."""
    parts = _split(text)
    if parts is None or parts.hostname is None:
        return None
    try:
        address = ipaddress.ip_address(parts.hostname)
    except ValueError:
        local = "." not in parts.hostname or parts.hostname.endswith(LOCAL_SUFFIXES)
        return parts.hostname if local else None
    return LOOPBACK if address.is_loopback else str(address)
