"""The options of the data source: names, values, defaults, and what is said about a wrong one."""

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NoReturn, TypeVar
from urllib.parse import unquote, urlsplit

from spark_source.errors import OptionError

T = TypeVar("T")
D = TypeVar("D")

NAMES = (
    # connection
    "url", "host", "port", "username", "password", "passwordEnv", "passwordFile", "db", "ssl", "sslCa", "cluster",
    "timeout", "retries",
    # read
    "stream", "streamPattern", "patternInterval", "startingOffsets", "startingTimestamp", "endingOffsets",
    "endingTimestamp", "maxEntriesPerTrigger", "minEntriesPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger",
    "entriesPerPartition", "minPartitions", "pageSize", "failOnDataLoss", "filterPushdown", "trimOnCommit", "text",
    "fields", "mode",
    # write
    "streamColumn", "allowSourceAsTarget", "exactlyOnce", "identity", "idempotencyKey", "idempotencyScope", "sinkId",
    "sinkBatch", "windowSeconds", "windowMaxSize", "windowSetup", "onWindowExpired", "onRowsChanged", "durability",
    "maxLen", "pipeline",
)  # fmt: skip
"""Every option, as it is spelled in the documentation; Spark hands them over in any case."""

TOLERATED = ("path", "checkpointlocation", "queryname", "outputmode", "schema", "header")
"""Spark's own options, lower case: they arrive among ours and mean nothing here."""

BY_LOWER = {name.lower(): name for name in NAMES}

LARGEST = 2**63 - 1
WINDOW_SECONDS_MAX = 86_400  # the server's own limit for a window's duration
WINDOW_SIZE_MAX = 10_000  # the server's own limit for the iids of one producer

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
_DURATION_S = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_BYTES = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?")
_BYTES_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_ENTRY_ID = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")


@dataclass(frozen=True)
class ConnectionOptions:
    """Where the server is; hashable, so that it can be the key of a pool. The password is never shown."""

    host: str
    port: int
    username: str | None
    password: str | None = field(repr=False)
    db: int
    ssl: bool
    ssl_ca: str | None
    cluster: bool | None
    timeout_s: float
    retries: int

    @property
    def endpoint(self) -> str:
        """`host:port`, for messages."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ReadOptions:
    """What to read. Offsets are `earliest`, `latest`, or a dict of stream to one of these or an entry ID."""

    streams: tuple[str, ...]
    pattern: str | None
    pattern_interval_s: float
    starting: str | dict[str, str] | None
    ending: str | dict[str, str] | None
    starting_ms: int | None
    ending_ms: int | None
    max_entries: int | None
    min_entries: int | None
    max_delay_s: float
    max_bytes: int | None
    entries_per_partition: int
    min_partitions: int
    page_size: int
    fail_on_data_loss: bool
    filter_pushdown: bool
    trim_on_commit: bool
    text: bool
    fields: str
    mode: str


@dataclass(frozen=True)
class WriteOptions:
    """How to write, and what makes a row the same row when it comes again."""

    stream: str | None
    stream_column: str | None
    source_as_target: bool
    checkpoint: str | None
    exactly_once: str
    identity: str
    key_columns: tuple[str, ...]
    scope: str
    sink_id: str | None
    sink_batch: str | None
    window_s: int
    window_size: int
    window_setup: str
    on_window_expired: str
    on_rows_changed: str
    durability: str
    max_len: int | None
    pipeline: int


@dataclass(frozen=True)
class Options:
    """All options of one `load` or `save`, checked."""

    connection: ConnectionOptions
    read: ReadOptions
    write: WriteOptions


def parse_options(raw: Mapping[str, str]) -> Options:
    """Return the options, checked.

    Raises: OptionError, one line that names the option, its value and what is allowed.
    """
    values = _known(raw)
    checkpoint = next((str(value) for key, value in raw.items() if key.lower() == "checkpointlocation"), None)
    return Options(_connection(values), _read(values), _write(values, checkpoint))


class _Values:
    """The given options by their documented names, with a reader for each kind of value."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = given

    def get(self, name: str, parse: Callable[[str], T], allowed: str, default: D) -> T | D:
        """Return an option's value as `parse` makes it; a ValueError of `parse` becomes the error of one line."""
        assert name in NAMES, name
        if name not in self.given:
            return default
        text = self.given[name].strip()
        try:
            return parse(text)
        except ValueError as error:
            detail = f" ({error})" if isinstance(error, OptionError) else ""
            raise OptionError(f"{name}={_shown(text)} is not allowed: give {allowed}{detail}") from None

    def has(self, name: str) -> bool:
        return name in self.given

    def text(self, name: str) -> str | None:
        return self.get(name, _not_empty, "a text that is not empty", None)

    def choice(self, name: str, *allowed: str) -> str:
        """Return one of `allowed`, the first by default."""

        def parse(text: str) -> str:
            for word in allowed:
                if word.lower() == text.lower():
                    return word
            raise ValueError

        return self.get(name, parse, " | ".join(allowed), allowed[0])

    def flag(self, name: str, default: bool) -> bool:
        def parse(text: str) -> bool:
            return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _refuse()

        return self.get(name, parse, "true | false", default)

    def integer(self, name: str, low: int, high: int, default: int) -> int:
        found = self.count(name, low, high)
        return default if found is None else found

    def count(self, name: str, low: int, high: int = LARGEST) -> int | None:
        def parse(text: str) -> int:
            value = int(text) if re.fullmatch(r"\d+", text) else _refuse()
            return value if low <= value <= high else _refuse()

        allowed = f"a whole number of at least {low}" if high == LARGEST else f"a whole number from {low} to {high}"
        return self.get(name, parse, allowed, None)

    def seconds(self, name: str, default: float) -> float:
        def parse(text: str) -> float:
            match = _DURATION.fullmatch(text.lower())
            return float(match[1]) * _DURATION_S[match[2]] if match else _refuse()

        return self.get(name, parse, "a duration such as 500ms, 30s, 15m or 2h (a bare number is seconds)", default)

    def exclusive(self, *names: str) -> None:
        given = [name for name in names if name in self.given]
        if len(given) > 1:
            raise OptionError(f"{given[0]} and {given[1]} cannot be given together: leave one of them out")


def _known(raw: Mapping[str, str]) -> _Values:
    given: dict[str, str] = {}
    for key, value in raw.items():
        lower = key.lower()
        if lower in BY_LOWER:
            given[BY_LOWER[lower]] = str(value)
        elif lower not in TOLERATED and not lower.startswith(("spark.", "__")):
            close = difflib.get_close_matches(lower, BY_LOWER, 1)
            hint = f"did you mean {BY_LOWER[close[0]]}?" if close else f"known are {', '.join(NAMES)}"
            raise OptionError(f"unknown option {key}: {hint}")
    return _Values(given)


def _connection(values: _Values) -> ConnectionOptions:
    values.exclusive("url", "host")
    values.exclusive("url", "port")
    values.exclusive("password", "passwordEnv", "passwordFile")
    url = values.get("url", _split_url, "redis://[user:password@]host[:port][/db], or rediss:// for TLS", None) or {}
    password = values.text("password") or values.get("passwordEnv", _from_environment, "a variable that is set", None)
    password = password or values.get("passwordFile", _from_file, "a file that can be read", None)
    cluster = values.choice("cluster", "auto", "true", "false")
    ssl_ca = values.get("sslCa", _existing_file, "a file of certificates that can be read", None)
    return ConnectionOptions(
        host=values.text("host") or str(url.get("host", "127.0.0.1")),
        port=values.integer("port", 1, 65_535, int(url.get("port", 6379))),
        username=values.text("username") or url.get("username"),
        password=password or url.get("password"),
        db=values.integer("db", 0, 2**31 - 1, int(url.get("db", 0))),
        ssl=values.flag("ssl", ssl_ca is not None or url.get("scheme") == "rediss"),
        ssl_ca=ssl_ca,
        cluster={"auto": None, "true": True, "false": False}[cluster],
        timeout_s=values.seconds("timeout", 60.0),
        retries=values.integer("retries", 0, 1000, 5),
    )


def _read(values: _Values) -> ReadOptions:
    values.exclusive("stream", "streamPattern")
    values.exclusive("startingOffsets", "startingTimestamp")
    values.exclusive("endingOffsets", "endingTimestamp")
    offsets = 'earliest | latest | JSON such as {"orders": "1700000000000-0"}'
    moment = "milliseconds since 1970 or an ISO 8601 time"
    if values.has("maxTriggerDelay") and not values.has("minEntriesPerTrigger"):
        raise OptionError("maxTriggerDelay needs minEntriesPerTrigger: it says how long a small backlog may wait")
    max_entries = values.count("maxEntriesPerTrigger", 1)
    min_entries = values.count("minEntriesPerTrigger", 1)
    if max_entries is not None and min_entries is not None and min_entries > max_entries:
        raise OptionError(
            f"minEntriesPerTrigger={min_entries} is more than maxEntriesPerTrigger={max_entries}: make it smaller"
        )
    values.exclusive("maxEntriesPerTrigger", "maxBytesPerTrigger")
    return ReadOptions(
        streams=values.get("stream", _split_names, "a stream, or several separated by commas", ()),
        pattern=values.text("streamPattern"),
        pattern_interval_s=values.seconds("patternInterval", 10.0),
        starting=values.get("startingOffsets", parse_offsets_option, offsets, None),
        ending=values.get("endingOffsets", parse_offsets_option, offsets, None),
        starting_ms=values.get("startingTimestamp", parse_moment_ms, moment, None),
        ending_ms=values.get("endingTimestamp", parse_moment_ms, moment, None),
        max_entries=max_entries,
        min_entries=min_entries,
        max_delay_s=values.seconds("maxTriggerDelay", 900.0),
        max_bytes=values.get("maxBytesPerTrigger", _parse_bytes, "a size such as 64m or 1g", None),
        entries_per_partition=values.integer("entriesPerPartition", 1, LARGEST, 25_000),
        min_partitions=values.integer("minPartitions", 1, 100_000, 1),
        page_size=values.integer("pageSize", 1, 1_000_000, 5_000),
        fail_on_data_loss=values.flag("failOnDataLoss", True),
        filter_pushdown=values.flag("filterPushdown", False),
        trim_on_commit=values.flag("trimOnCommit", False),
        text=values.flag("text", False),
        fields=values.choice("fields", "map", "array"),
        mode=values.choice("mode", "permissive", "failfast"),
    )


def _write(values: _Values, checkpoint: str | None) -> WriteOptions:
    identity = values.choice("identity", "content", "key", "position")
    key_columns = values.get("idempotencyKey", _split_names, "a column, or several separated by commas", ())
    if key_columns and not values.has("identity"):
        identity = "key"
    if identity == "key" and not key_columns:
        raise OptionError("identity=key needs idempotencyKey: name the columns whose values identify a row")
    if identity != "key" and key_columns:
        raise OptionError(f"idempotencyKey cannot be used with identity={identity}: set identity=key")
    scope = values.choice("idempotencyScope", "batch", "stream")
    if scope == "stream" and identity != "key":
        raise OptionError(f"idempotencyScope=stream cannot be used with identity={identity}: set identity=key")
    exactly_once = values.choice("exactlyOnce", "auto", "idmp", "marker", "none")
    if exactly_once == "marker" and identity == "key":
        raise OptionError("identity=key cannot be used with exactlyOnce=marker, which goes by position and digest")
    sink_id = values.text("sinkId")
    if values.has("sinkBatch") and sink_id is None:
        raise OptionError("sinkBatch needs sinkId: together they name one write")
    names = values.get("stream", _split_names, "a stream", ())
    return WriteOptions(
        stream=names[0] if len(names) == 1 else None,
        stream_column=values.text("streamColumn"),
        source_as_target=values.flag("allowSourceAsTarget", False),
        checkpoint=checkpoint,
        exactly_once=exactly_once,
        identity=identity,
        key_columns=key_columns,
        scope=scope,
        sink_id=sink_id,
        sink_batch=values.text("sinkBatch"),
        window_s=values.integer("windowSeconds", 1, WINDOW_SECONDS_MAX, WINDOW_SECONDS_MAX),
        window_size=values.integer("windowMaxSize", 1, WINDOW_SIZE_MAX, WINDOW_SIZE_MAX),
        window_setup=values.choice("windowSetup", "auto", "check", "force"),
        on_window_expired=values.choice("onWindowExpired", "fail", "continue"),
        on_rows_changed=values.choice("onRowsChanged", "fail", "continue"),
        durability=values.get("durability", _parse_durability, "none | fsync | replicas:N", "none"),
        max_len=values.count("maxLen", 0),
        pipeline=values.integer("pipeline", 1, 100_000, 500),
    )


def parse_offsets_option(text: str) -> str | dict[str, str]:
    """Return `earliest`, `latest`, or a dict of stream to `earliest`, `latest` or an entry ID `ms-seq`.

    Raises: ValueError.
    """
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    try:
        loaded = json.loads(text)
    except ValueError:
        raise ValueError from None
    if not isinstance(loaded, dict) or not loaded:
        raise ValueError
    return {stream: _one_offset(stream, value) for stream, value in loaded.items()}


def _one_offset(stream: str, value: object) -> str:
    if isinstance(value, str) and value.lower() in ("earliest", "latest"):
        return value.lower()
    match = _ENTRY_ID.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) >= 2**64 or int(match[2] or 0) >= 2**64:
        raise OptionError(f"{json.dumps(value)} for stream {stream} is neither earliest, latest nor an entry ID")
    return f"{int(match[1])}-{int(match[2] or 0)}"


def parse_moment_ms(text: str) -> int:
    """Return milliseconds since 1970 of a number of them, or of an ISO 8601 time (UTC where it names no zone).

    Raises: ValueError.
    """
    if re.fullmatch(r"\d+", text):
        return int(text) if int(text) < 2**63 else _refuse()
    moment = datetime.fromisoformat(text)
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return round(seconds * 1000) if seconds >= 0 else _refuse()


def _refuse() -> NoReturn:
    raise ValueError


def _shown(text: str) -> str:
    """Return a value as a message may show it: a password inside an address is left out."""
    if "@" in text:
        text = "***@" + text.rpartition("@")[2]
    return text if len(text) <= 80 else text[:77] + "..."


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _split_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError
    return names


def _split_url(text: str) -> dict[str, str]:
    parts = urlsplit(text)
    database = parts.path.strip("/")
    if parts.scheme not in ("redis", "rediss") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError
    if database and not re.fullmatch(r"\d+", database):
        raise ValueError
    found = {"scheme": parts.scheme, "host": parts.hostname, "port": parts.port, "db": database or None}
    found["username"] = unquote(parts.username) if parts.username else None
    found["password"] = unquote(parts.password) if parts.password else None
    return {name: str(value) for name, value in found.items() if value is not None}


def _from_environment(name: str) -> str:
    return _not_empty(os.environ.get(name, ""))


def _from_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return _not_empty(file.read().rstrip("\r\n"))
    except OSError:
        raise ValueError from None


def _existing_file(path: str) -> str:
    return path if os.path.isfile(path) else _refuse()


def _parse_bytes(text: str) -> int:
    match = _BYTES.fullmatch(text.lower())
    return int(match[1]) * _BYTES_UNIT[match[2]] if match and int(match[1]) > 0 else _refuse()


def _parse_durability(text: str) -> str:
    if re.fullmatch(r"none|fsync|replicas:[1-9]\d{0,3}", text.lower()):
        return text.lower()
    raise ValueError
