"""The options for the server's address and the user's login."""

import difflib
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import unquote

from spark_source.errors import OptionError
from spark_source.settings.option_values import Values, not_empty, refuse, shown

CONNECTION_NAMES = (
    "url", "host", "port", "username", "password", "passwordEnv", "passwordFile", "db", "ssl", "sslCa", "sslCert",
    "sslKey", "sslKeyPassword", "sslCheckHostname", "sentinelUsername", "sentinelPassword", "sentinelPasswordEnv",
    "sentinelPasswordFile", "cluster", "clientName", "timeout", "retries",
)  # fmt: skip

log = logging.getLogger("spark_source")

URL_VARIABLE = "STREAMD_URL"
"""The environment variable of the driver that gives the url where a query gives none."""

LOCAL = "127.0.0.1"
PORT = 6379
SENTINEL_PORT = 26379
SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel")
URL_FORM = (
    "redis://[user:password@]host[:port][,host[:port]][/db], rediss:// for TLS, "
    "or redis+sentinel://host[:port][,host[:port]]/name[/db]"
)

Setting = str | int | float | bool
Node = tuple[str, int]

CLIENT_PREFIX = "redis."
OURS = {
    "host": "host", "port": "port", "db": "db", "username": "username", "password": "password", "ssl": "ssl",
    "ssl_ca_certs": "sslCa", "ssl_certfile": "sslCert", "ssl_keyfile": "sslKey", "ssl_password": "sslKeyPassword",
    "ssl_check_hostname": "sslCheckHostname", "client_name": "clientName", "retry": "timeout",
    "retry_on_timeout": "timeout", "retry_on_error": "timeout", "max_connections": None, "protocol": None,
    "decode_responses": None, "encoding": None, "encoding_errors": None, "unix_socket_path": None,
}  # fmt: skip
"""Arguments of the client that an option of ours sets (or that the source itself decides on, None)."""


@dataclass(frozen=True)
class ConnectionOptions:
    """Address and login; hashable, so that it can be the key of a pool. A secret is never shown."""

    nodes: tuple[Node, ...]
    """Nodes of one cluster, or ways to one server, tried in turn; with `master` these are Sentinels."""
    master: str | None
    username: str | None = field(repr=False)
    is_user_shown: bool
    """Whether messages may name the user: not one from a URL, where a password may stand in its place."""
    password: str | None = field(repr=False)
    sentinel_username: str | None
    sentinel_password: str | None = field(repr=False)
    db: int
    ssl: bool
    ssl_ca: str | None
    ssl_cert: str | None
    ssl_key: str | None
    ssl_key_password: str | None = field(repr=False)
    ssl_check_hostname: bool
    cluster: bool | None
    client_name: str | None
    settings: tuple[tuple[str, Setting], ...] = field(repr=False)
    """Further arguments of the client, from `redis.*`."""
    timeout_s: float

    @property
    def host(self) -> str:
        """The host of the first node."""
        return self.nodes[0][0]

    @property
    def port(self) -> int:
        return self.nodes[0][1]

    @property
    def shown_user(self) -> str:
        """The user, for messages."""
        if self.username is None:
            return "the default user"
        return f"user {self.username}" if self.is_user_shown else "the user in url"

    @property
    def endpoint(self) -> str:
        """`host:port`, for messages."""
        places = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.nodes)
        return places if self.master is None else f"master {self.master} of Sentinel {places}"


@dataclass(frozen=True)
class _Address:
    """The parts of a URL; None for a missing one."""

    sentinel: bool = False
    tls: bool = False
    nodes: tuple[Node, ...] = ()
    master: str | None = None
    db: int | None = None
    username: str | None = None
    password: str | None = None


def read_connection(values: Values, settings: tuple[tuple[str, Setting], ...]) -> ConnectionOptions:
    """Return the options of the connection, checked. Raises: OptionError."""
    values.exclusive("url", "host")
    values.exclusive("url", "port")
    address = _address(values)
    ssl_ca = _file(values, "sslCa", "certificates")
    ssl_cert, ssl_key = _file(values, "sslCert", "a certificate"), _file(values, "sslKey", "a private key")
    if (ssl_cert is None) != (ssl_key is None):
        given, missing = ("sslCert", "sslKey") if ssl_cert else ("sslKey", "sslCert")
        raise OptionError(f"{given} needs {missing}: a certificate and its private key go together")
    tls = values.flag("ssl", address.tls or ssl_ca is not None or ssl_cert is not None)
    if values.has("sslKeyPassword") and ssl_key is None:
        raise OptionError("sslKeyPassword needs sslKey, the file that it opens")
    for name, _ in settings:
        if name.startswith("ssl_") and not tls:
            raise OptionError(f"{CLIENT_PREFIX}{name} is for TLS: use rediss:// or set ssl=true")
    cluster = values.choice("cluster", "auto", "true", "false")
    for name in ("sentinelUsername", "sentinelPassword", "sentinelPasswordEnv", "sentinelPasswordFile"):
        if values.has(name) and not address.sentinel:
            raise OptionError(f"{name} is for Sentinel: give url as redis+sentinel://host/name")
    if address.sentinel and cluster == "true":
        raise OptionError("cluster=true cannot be used with redis+sentinel://, which knows one server: leave one out")
    if values.count("retries", 0, 1000) is not None:
        _say_retries_do_nothing()
    return ConnectionOptions(
        nodes=address.nodes or _named_or_local(values),
        master=address.master,
        username=values.text("username") or address.username,
        is_user_shown=values.has("username"),
        password=_secret(values, "password") or address.password,
        sentinel_username=values.text("sentinelUsername"),
        sentinel_password=_secret(values, "sentinelPassword"),
        db=values.integer("db", 0, 2**31 - 1, address.db or 0),
        ssl=tls,
        ssl_ca=ssl_ca,
        ssl_cert=ssl_cert,
        ssl_key=ssl_key,
        ssl_key_password=values.text("sslKeyPassword"),
        ssl_check_hostname=values.flag("sslCheckHostname", True),
        cluster={"auto": None, "true": True, "false": False}[cluster],
        client_name=values.get("clientName", _client_name, "a name without blanks", None),
        settings=settings,
        timeout_s=values.seconds("timeout", 60.0),
    )


def _named_or_local(values: Values) -> tuple[Node]:
    """Return the server of host and port, this machine's own where neither is given."""
    host = values.get("host", _host, "a host name or an IP address, or option url for an address with more parts", None)
    port = values.integer("port", 1, 65_535, PORT)
    if not values.has("host") and not values.has("port"):
        _say_local()
    return ((host or LOCAL, port),)


def _host(text: str) -> str:
    return refuse() if not text or re.search(r"[@/\s]", text) else text


@cache
def _say_local() -> None:
    log.warning(
        "no server is named, so %s:%d is used: give url, or set %s before Spark starts", LOCAL, PORT, URL_VARIABLE
    )


@cache
def _say_retries_do_nothing() -> None:
    log.warning("option retries does nothing any more, a task tries again until timeout: leave it out")


def _address(values: Values) -> _Address:
    from_environment = os.environ.get(URL_VARIABLE, "").strip()
    if from_environment and not any(values.has(name) for name in ("url", "host", "port")):
        try:
            return _split_url(from_environment)
        except ValueError:
            raise OptionError(f"{URL_VARIABLE}={shown(from_environment)} is not allowed: give {URL_FORM}") from None
    return values.get("url", _split_url, URL_FORM, None) or _Address()


def _secret(values: Values, name: str) -> str | None:
    """Return a secret from its option, or from the variable or the file that another option names."""
    variable, file = f"{name}Env", f"{name}File"
    values.exclusive(name, variable, file)
    return (
        values.text(name)
        or values.get(
            variable,
            lambda wanted: not_empty(os.environ.get(wanted, "")),
            "a variable that is set before Spark starts",
            None,
        )
        or values.get(file, _first_line, "a file that can be read", None)
    )


def _file(values: Values, name: str, holds: str) -> str | None:
    def check(path: str) -> str:
        return path if os.path.isfile(path) else refuse()

    return values.get(name, check, f"a file of {holds} that can be read", None)


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return not_empty(file.read().rstrip("\r\n"))
    except OSError:
        raise ValueError from None


def _client_name(text: str) -> str:
    return text if re.fullmatch(r"[!-~]+", text) else refuse()


def _split_url(text: str) -> _Address:
    """Return the parts of a URL. Raises: ValueError."""
    # (`urlsplit` of Python 3.14 takes no IPv6 address in a list of hosts.)
    match = re.fullmatch(r"([^:/?#]+)://([^/?#]*)([^?#]*)", text)
    if match is None or match[1].lower() not in SCHEMES:
        raise ValueError
    scheme = match[1].lower()
    sentinel = scheme.endswith("+sentinel")
    user, _, places = match[2].rpartition("@")
    username, _, password = user.partition(":")
    path = [unquote(part) for part in match[3].strip("/").split("/") if part]
    master = None
    if sentinel:
        master = not_empty(path.pop(0)) if path else refuse()
    if len(path) > 1 or (path and not re.fullmatch(r"[0-9]+", path[0])):
        raise ValueError
    return _Address(
        sentinel=sentinel,
        tls=scheme.startswith("rediss"),
        nodes=tuple(_split_place(place, SENTINEL_PORT if sentinel else PORT) for place in places.split(",")),
        master=master,
        db=int(path[0]) if path else None,
        username=unquote(username) or None,
        password=unquote(password) or None,
    )


def _split_place(text: str, default: int) -> Node:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]@\s]+))(?::([0-9]{1,5}))?", text)
    if match is None:
        raise ValueError
    port = int(match[3]) if match[3] else default
    return (match[1] or match[2], port) if 1 <= port <= 65_535 else refuse()


def _flag(text: str) -> bool:
    return text.lower() == "true" if text.lower() in ("true", "false") else refuse()


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) and float(text) > 0 else refuse()


def _whole(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]+", text) else refuse()


def _one_of(*words: str) -> Callable[[str], str]:
    return lambda text: text if text in words else refuse()


CLIENT_SETTINGS: dict[str, tuple[Callable[[str], Setting], str]] = {
    "socket_timeout": (_seconds, "seconds, more than 0"),
    "socket_connect_timeout": (_seconds, "seconds, more than 0"),
    "socket_keepalive": (_flag, "true | false"),
    "socket_read_size": (_whole, "bytes"),
    "health_check_interval": (_whole, "seconds"),
    "ssl_cert_reqs": (_one_of("none", "optional", "required"), "none | optional | required"),
    "ssl_ca_path": (not_empty, "a directory"),
    "ssl_ca_data": (not_empty, "certificates in PEM form"),
    "ssl_ciphers": (not_empty, "a list of OpenSSL's names"),
    "ssl_min_version": (_one_of("TLSv1.2", "TLSv1.3"), "TLSv1.2 | TLSv1.3"),
    "ssl_validate_ocsp": (_flag, "true | false"),
    "require_full_coverage": (_flag, "true | false"),
    "dynamic_startup_nodes": (_flag, "true | false"),
}
"""Arguments of redis-py's client that `redis.*` hands on, with their values; the last two are for clusters."""

CLUSTER_SETTINGS = ("require_full_coverage", "dynamic_startup_nodes")


def client_setting(key: str, text: str) -> tuple[str, Setting]:
    """Return an option `redis.NAME` as an argument of the client. Raises: OptionError."""
    name = key[len(CLIENT_PREFIX) :].lower()
    if name in OURS:
        instead = OURS[name]
        what = f"use option {instead} instead" if instead else "it is the data source that decides it, leave it out"
        raise OptionError(f"{CLIENT_PREFIX}{name} cannot be given: {what}")
    if name not in CLIENT_SETTINGS:
        close = difflib.get_close_matches(name, [*CLIENT_SETTINGS, *OURS], 1)
        hint = f"did you mean {CLIENT_PREFIX}{close[0]}?" if close else f"known are {', '.join(CLIENT_SETTINGS)}"
        raise OptionError(f"unknown option {CLIENT_PREFIX}{name}: {hint}")
    parse, allowed = CLIENT_SETTINGS[name]
    try:
        return name, parse(text.strip())
    except ValueError:
        raise OptionError(f"{CLIENT_PREFIX}{name}={shown(text.strip())} is not allowed: give {allowed}") from None
