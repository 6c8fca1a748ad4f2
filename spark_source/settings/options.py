"""The options of the data source: names, values, defaults, and the errors for wrong ones."""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from spark_source.errors import OptionError
from spark_source.settings.connection_options import (
    CLIENT_PREFIX,
    CONNECTION_NAMES,
    ConnectionOptions,
    Setting,
    client_setting,
    read_connection,
)
from spark_source.settings.kafka_names import instead_of
from spark_source.settings.option_values import LARGEST, Values, not_empty, refuse, split_names
from spark_source.settings.topic_filters import parse_topic_filter

NAMES = (
    *CONNECTION_NAMES,
    # read
    "stream", "streamPattern", "streamRegex", "log", "topicFilter", "patternInterval",
    "startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp", "maxEntriesPerTrigger",
    "minEntriesPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger",
    "entriesPerPartition", "minPartitions", "pageSize", "failOnDataLoss", "filterPushdown",
    "trimOnCommit", "progressGroup", "text", "fields", "mode",
    # both
    "valueFormat", "fieldColumns",
    # write
    "streamColumn", "allowSourceAsTarget", "exactlyOnce", "identity", "idempotencyKey", "idempotencyScope", "sinkId",
    "sinkBatch", "windowSeconds", "windowMaxSize", "windowSetup", "onWindowExpired", "onRowsChanged", "durability",
    "durabilityRows", "maxLen", "pipeline",
)  # fmt: skip
"""Every option, as it is spelled in the documentation; Spark hands them over in any case."""

TOLERATED = ("path", "checkpointlocation", "queryname", "outputmode", "schema", "header")
"""Spark's own options, lower case: they arrive among ours and mean nothing here."""

BY_LOWER = {name.lower(): name for name in NAMES}

WINDOW_SECONDS_MAX = 86_400  # the server's own limit for a window's duration
WINDOW_SIZE_MAX = 10_000  # the server's own limit for the iids of one producer

BATCH_PARTITION_ENTRIES = 100_000  # a task costs a worker 50 ms of its own, as much as reading 40,000 entries

RESERVED_COLUMNS = ("_stream", "_id", "_ts", "_seq", "_corrupt")
"""Columns that a read does not fill from a field, unless fieldColumns names them."""

LOG_SECONDS = 3_600  # the window that the streams of a topic log are made with
LOG_NAME = "the name of a topic log: letters, digits and _.:-"

_LOG = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_BYTES = re.compile(r"([0-9]+)\s*([kmg]?)(?:i?b)?")
_BYTES_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_ENTRY_ID = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read. Offsets are `earliest`, `latest`, or a dict of stream to one of these or an entry ID;
    times are milliseconds, or a dict of stream to them."""

    streams: tuple[str, ...]
    log: str | None
    topic_filter: str
    pattern: str | None
    pattern_is_regex: bool
    pattern_interval_s: float
    starting: str | dict[str, str] | None
    ending: str | dict[str, str] | None
    starting_ms: int | dict[str, int] | None
    ending_ms: int | dict[str, int] | None
    max_entries: int | None
    min_entries: int | None
    max_delay_s: float
    max_bytes: int | None
    entries_per_partition: int
    entries_per_batch_partition: int
    min_partitions: int
    page_size: int
    fail_on_data_loss: bool
    filter_pushdown: bool
    trim_on_commit: bool
    progress_group: str | None
    text: bool
    fields: str
    mode: str
    value_format: str
    field_columns: tuple[str, ...]


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write, and of the recognition of rows that are written again."""

    stream: str | None
    log: str | None
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
    wait_rows: int
    max_len: int | None
    pipeline: int
    value_format: str
    field_columns: tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """All options of one `load` or `save`, checked."""

    connection: ConnectionOptions
    read: ReadOptions
    write: WriteOptions


def parse_options(raw: Mapping[str, str]) -> Options:
    """Return the options, checked.

    Raises: OptionError, one line that names the option, its value and the allowed ones.
    """
    values, settings = _known(raw)
    checkpoint = next((str(value) for key, value in raw.items() if key.lower() == "checkpointlocation"), None)
    return Options(read_connection(values, settings), _read(values), _write(values, checkpoint))


def _known(raw: Mapping[str, str]) -> tuple[Values, tuple[tuple[str, Setting], ...]]:
    given: dict[str, str] = {}
    settings: list[tuple[str, Setting]] = []
    for key, value in raw.items():
        lower = key.lower()
        if lower in BY_LOWER:
            given[BY_LOWER[lower]] = str(value)
        elif lower.startswith(CLIENT_PREFIX):
            settings.append(client_setting(key, str(value)))
        elif lower not in TOLERATED and not lower.startswith(("spark.", "__")):
            instead = instead_of(lower)
            if instead is not None:
                raise OptionError(f"option {key} is Kafka's: {instead}")
            close = difflib.get_close_matches(lower, BY_LOWER, 1)
            hint = f"did you mean {BY_LOWER[close[0]]}?" if close else f"known are {', '.join(NAMES)}"
            raise OptionError(f"unknown option {key}: {hint}")
    return Values(given, NAMES), tuple(sorted(settings))


def _read(values: Values) -> ReadOptions:
    values.exclusive("stream", "streamPattern", "streamRegex", "log")
    if values.has("topicFilter") and not values.has("log"):
        raise OptionError("topicFilter needs log: it says which of a log's topics are read")
    values.exclusive("startingOffsets", "startingTimestamp")
    values.exclusive("endingOffsets", "endingTimestamp")
    offsets = 'earliest | latest | JSON such as {"orders": "1700000000000-0"}'
    moment = 'milliseconds since 1970, an ISO 8601 time, or JSON such as {"orders": "2026-01-31T12:00:00Z"}'
    if values.has("maxTriggerDelay") and not values.has("minEntriesPerTrigger"):
        raise OptionError("maxTriggerDelay needs minEntriesPerTrigger: it says how long a small backlog may wait")
    max_entries = values.count("maxEntriesPerTrigger", 1)
    min_entries = values.count("minEntriesPerTrigger", 1)
    if max_entries is not None and min_entries is not None and min_entries > max_entries:
        raise OptionError(
            f"minEntriesPerTrigger={min_entries} is more than maxEntriesPerTrigger={max_entries}: make it smaller"
        )
    for name in ("text", "fields"):
        if values.has(name) and values.given.get("valueFormat", "").strip().lower() == "json":
            raise OptionError(f"{name} cannot be used with valueFormat=json, which has a column value: leave it out")
    regex = values.get("streamRegex", _parse_regex, "a regular expression of Python", None)
    return ReadOptions(
        streams=values.get("stream", split_names, "a stream, or several separated by commas", ()),
        log=values.get("log", parse_log_name, LOG_NAME, None),
        topic_filter=values.get("topicFilter", parse_topic_filter, "a topic filter such as devices/+/temperature", "#"),
        pattern=values.text("streamPattern") if regex is None else regex,
        pattern_is_regex=regex is not None,
        pattern_interval_s=values.seconds("patternInterval", 10.0),
        starting=values.get("startingOffsets", parse_offsets_option, offsets, None),
        ending=values.get("endingOffsets", parse_offsets_option, offsets, None),
        starting_ms=values.get("startingTimestamp", parse_moments_option, moment, None),
        ending_ms=values.get("endingTimestamp", parse_moments_option, moment, None),
        max_entries=max_entries,
        min_entries=min_entries,
        max_delay_s=values.seconds("maxTriggerDelay", 900.0),
        max_bytes=values.get("maxBytesPerTrigger", _parse_bytes, "a size such as 64m or 1g", None),
        entries_per_partition=values.integer("entriesPerPartition", 1, LARGEST, 25_000),
        entries_per_batch_partition=values.integer("entriesPerPartition", 1, LARGEST, BATCH_PARTITION_ENTRIES),
        min_partitions=values.integer("minPartitions", 1, 100_000, 1),
        page_size=values.integer("pageSize", 1, 1_000_000, 5_000),
        fail_on_data_loss=values.flag("failOnDataLoss", True),
        filter_pushdown=values.flag("filterPushdown", False),
        trim_on_commit=values.flag("trimOnCommit", False),
        progress_group=values.text("progressGroup"),
        text=values.flag("text", False),
        fields=values.choice("fields", "map", "array"),
        mode=values.choice("mode", "permissive", "failfast"),
        value_format=values.choice("valueFormat", "text", "json"),
        field_columns=_field_columns(values),
    )


def _write(values: Values, checkpoint: str | None) -> WriteOptions:
    identity = values.choice("identity", "content", "key", "position")
    key_columns = values.get("idempotencyKey", split_names, "a column, or several separated by commas", ())
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
    names = values.get("stream", split_names, "a stream", ())
    log = values.get("log", parse_log_name, LOG_NAME, None)
    if log is not None and values.has("streamColumn"):
        raise OptionError("streamColumn cannot be used with log: a message's publisher or topic says where it goes")
    return WriteOptions(
        stream=names[0] if len(names) == 1 else None,
        log=log,
        stream_column=values.text("streamColumn"),
        source_as_target=values.flag("allowSourceAsTarget", False),
        checkpoint=checkpoint,
        exactly_once=exactly_once,
        identity=identity,
        key_columns=key_columns,
        scope=scope,
        sink_id=sink_id,
        sink_batch=values.text("sinkBatch"),
        window_s=values.integer("windowSeconds", 1, WINDOW_SECONDS_MAX, LOG_SECONDS if log else WINDOW_SECONDS_MAX),
        window_size=values.integer("windowMaxSize", 1, WINDOW_SIZE_MAX, WINDOW_SIZE_MAX),
        window_setup=values.choice("windowSetup", "auto", "check", "force"),
        on_window_expired=values.choice("onWindowExpired", "fail", "continue"),
        on_rows_changed=values.choice("onRowsChanged", "fail", "continue"),
        durability=values.get("durability", _parse_durability, "none | fsync | replicas:N", "none"),
        wait_rows=values.integer("durabilityRows", 1, 1_000_000, 10_000),
        max_len=values.count("maxLen", 0),
        pipeline=values.integer("pipeline", 1, 100_000, 500),
        value_format=values.choice("valueFormat", "text", "json"),
        field_columns=_field_columns(values),
    )


def _field_columns(values: Values) -> tuple[str, ...]:
    if values.has("fieldColumns") and values.has("log"):
        raise OptionError("fieldColumns cannot be used with log, whose columns are fixed: leave it out")
    return values.get("fieldColumns", _reserved_names, f"some of {', '.join(RESERVED_COLUMNS)}", ())


def _reserved_names(text: str) -> tuple[str, ...]:
    names = split_names(text)
    return names if set(names) <= set(RESERVED_COLUMNS) else refuse()


def parse_offsets_option(text: str) -> str | dict[str, str]:
    """Return `earliest`, `latest`, or a dict of stream to `earliest`, `latest` or an entry ID `ms-seq`.

    Raises: ValueError.
    """
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
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


def parse_moments_option(text: str) -> int | dict[str, int]:
    """Return a time as `parse_moment_ms` does, or a dict of stream to one.

    Raises: ValueError.
    """
    if not text.startswith("{"):
        return parse_moment_ms(text)
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError from None
    if not loaded:
        raise ValueError
    found = {}
    for stream, value in loaded.items():
        try:
            found[stream] = parse_moment_ms(str(value) if isinstance(value, (str, int)) else "")
        except ValueError:
            raise OptionError(f"{json.dumps(value)} for stream {stream} is no time") from None
    return found


def parse_moment_ms(text: str) -> int:
    """Return milliseconds since 1970, given as a number or as an ISO 8601 time (UTC if it names no zone).

    Raises: ValueError.
    """
    if re.fullmatch(r"[0-9]+", text):
        return int(text) if int(text) < 2**63 else refuse()
    moment = datetime.fromisoformat(text)
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return round(seconds * 1000) if seconds >= 0 else refuse()


def parse_log_name(text: str) -> str:
    """Return the name of a topic log. Raises: ValueError."""
    return text if _LOG.fullmatch(text) else refuse()


def _parse_bytes(text: str) -> int:
    match = _BYTES.fullmatch(text.lower())
    return int(match[1]) * _BYTES_UNIT[match[2]] if match and int(match[1]) > 0 else refuse()


def _parse_regex(text: str) -> str:
    try:
        re.compile(not_empty(text))
    except re.error as error:
        raise OptionError(str(error)) from None
    return text


def _parse_durability(text: str) -> str:
    if re.fullmatch(r"none|fsync|replicas:[1-9][0-9]{0,3}", text.lower()):
        return text.lower()
    raise ValueError
