"""What an application of an MQTT gateway, a backend, has to get: its packs, and what the retention leaves to it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamd.clients.ui.mqtt_logs import Lag, Log, id_of

KIND = b"application"
_RELEASED = b"3"  # the state of a message in flight that is not sent again


@dataclass(frozen=True)
class Application:
    """The packs of a session's client, as its record says.

    in_flight: messages of its packs that are not acknowledged, at least so many unless is_whole. retries: how often the
    pack that was sent again most often was sent again. left_ms: for so long at least the logs keep all that it has to
    get; None if it reads no log by itself, or if that is not known.
    """

    in_flight: int
    is_whole: bool
    retries: int
    left_ms: int | None


def application_of(
    fields: Mapping[bytes, bytes], lags: Mapping[str, Lag | None], logs: Mapping[str, Log], is_whole: bool, now_ms: int
) -> Application:
    """Return what a record says of an application. lags: of its positions; is_whole: fields are all of the record."""
    flying = [value.split(b" ") for name, value in fields.items() if name.startswith(b"i ")]
    filters = [name[2:].decode("utf-8", "replace") for name in fields if name.startswith(b"s ")]
    ages_ms = {}
    for name in _read_by([one for one in filters if not one.startswith("$share/")], logs):
        lag = lags.get(name)
        if lag is not None:
            ages_ms[name] = 0 if lag.since_ms is None else max(0, now_ms - lag.since_ms)
    for _, state, log, _, _, place, *_ in (words for words in flying if len(words) >= 6):
        name, entry_id = log.decode("utf-8", "replace"), id_of(place)
        if entry_id is not None and state[:1] != _RELEASED:
            ages_ms[name] = max(ages_ms.get(name, 0), now_ms - entry_id[0])
    left = [
        max(0, retention_ms - age_ms)
        for name, age_ms in ages_ms.items()
        if name in logs and (retention_ms := logs[name].retention_ms) is not None
    ]
    return Application(len(flying), is_whole, _retries(fields.get(b"retries", b"{}")), min(left, default=None))


def _retries(text: bytes) -> int:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return 0
    return max((one for one in said.values() if isinstance(one, int)), default=0) if isinstance(said, dict) else 0


def _read_by(filters: Iterable[str], logs: Mapping[str, Log]) -> set[str]:
    """Return the logs that may have messages for some filters; one with the filter `#` takes what no other takes."""
    others = [one for log in logs.values() for one in log.filters if one != "#"]
    found = set()
    for filter in filters:
        is_apart = any(_is_within(filter, one) for one in others)
        for name, log in logs.items():
            if any(_overlap(filter.split("/"), one.split("/")) for one in log.filters if one != "#" or not is_apart):
                found.add(name)
    return found


def _is_within(filter: str, other: str) -> bool:
    return filter == other or (other.endswith("/#") and (filter == other[:-2] or filter.startswith(other[:-1])))


def _overlap(one: list[str], other: list[str]) -> bool:
    """Return whether a topic may match two filters, in levels."""
    for here, there in zip(one, other, strict=False):
        if "#" in (here, there):
            return True
        if here != there and "+" not in (here, there):
            return False
    shorter = min(len(one), len(other))
    return one[shorter:] in ([], ["#"]) and other[shorter:] in ([], ["#"])
