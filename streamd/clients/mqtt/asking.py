"""Asks running gateways, and reads sessions, by way of the store."""

import json
import secrets
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import redis

from streamd.clients.mqtt.gateway.ownership import OWNER
from streamd.clients.mqtt.store.control import Request, answer_key
from streamd.clients.mqtt.store.described import describe
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.records import key_of, parse_record
from streamd.clients.topics import administration
from streamd.clients.topics.drivers import run
from streamd.clients.topics.entry_ids import BEGIN, END, Id, format_id, parse_id

_ANSWER_S: Final = 3
_PAGE: Final = 500
_NO_LAG: Final = {"messages": 0, "seconds": 0.0}


class Page(NamedTuple):
    """Some clients; the number of all that match; the client before the next page, None if there is no further one."""

    clients: list[dict[str, Any]]
    number: int
    more_after: str | None


class NoGateway(Exception):
    """No gateway runs on the store."""

    def __init__(self) -> None:
        super().__init__("no gateway runs on this store; `streamd mqtt` starts one")


class NoAnswer(Exception):
    """A gateway has not answered."""


def has_gateway(store: redis.Redis) -> bool:
    """Return whether a gateway runs on a store."""
    return bool(store.exists(OWNER))


def ask(store: redis.Redis, do: str, **said: Any) -> dict[str, Any]:
    """Return the answer of the running gateway. Raises: NoGateway; NoAnswer."""
    if not has_gateway(store):
        raise NoGateway
    request = Request(secrets.token_hex(16), do, said)
    store.execute_command(*request.to_words())
    found = store.blpop([answer_key(request.id)], timeout=_ANSWER_S)
    if found is None:
        if not has_gateway(store):
            raise NoGateway
        raise NoAnswer(f"the gateway has not answered within {_ANSWER_S} seconds; look at its log")
    answered = json.loads(found[1])
    assert isinstance(answered, dict)
    return answered


def clients(store: redis.Redis, count: int, after: str, match: str) -> Iterator[Page]:
    """Yield pages of the clients that are connected. count: at most so many clients; 0 for all.

    Raises: NoGateway; NoAnswer.
    """
    left = count
    while True:
        size = min(left, _PAGE) if count else _PAGE
        said = ask(store, "clients", count=size, after=after, match=match)
        yield Page(said["clients"], said["number"], said["more_after"])
        left -= size
        if said["more_after"] is None or (count and left <= 0):
            return
        after = said["more_after"]


def session(store: redis.Redis, client_id: str) -> dict[str, Any] | None:
    """Return a session: of its gateway if the client is connected, else of the store; None without one.

    lag: of each log, in messages and seconds; None for a log that does not exist any more.

    Raises: NoAnswer; NewerRecord.
    """
    said: dict[str, Any] | None = None
    try:
        said = ask(store, "session", client=client_id).get("session")
    except NoGateway:
        pass
    found = said
    if found is None:
        record = parse_record(client_id, _flat(store.hgetall(key_of(client_id))))
        if record is None:
            return None
        found = describe(record)
    live = found.get("lag", {})
    lags: dict[str, Any] = {}
    for name, text in found["positions"].items():
        if said is not None and live.get(name, _NO_LAG)["messages"] is not None:
            lags[name] = {**live.get(name, _NO_LAG), "is_exact": True}
        else:
            lags[name] = _lag(store, name, Position.from_text(text))
    return {"client": client_id, "is_connected": said is not None, **found, "lag": lags}


def _flat(fields: Any) -> list[bytes]:
    return [word for pair in fields.items() for word in pair]


def _lag(store: redis.Redis, name: str, position: Position) -> dict[str, Any] | None:
    """Return how far a position is behind the end of a log: in messages and seconds; None without such a log.

    The messages are exact where is_exact says so, else they are estimated by the times of the entries around.
    """
    if name not in run(store, administration.names()):
        return None
    meta = run(store, administration.open_log(name)).meta
    messages, is_exact, waiting_ms = 0, True, 0
    now_s, micro = store.time()
    now_ms = now_s * 1_000 + micro // 1_000
    for generation in meta.generations:
        if generation.number < position.generation:
            continue
        for shard in range(generation.shards):
            at = position.at[shard] if generation.number == position.generation else BEGIN
            key = f"{{{name}/{shard}}}:g{generation.number}"
            number, exact, next_ms = _unread(store, key, at)
            messages += number
            is_exact = is_exact and exact
            if next_ms is not None:
                waiting_ms = max(waiting_ms, now_ms - next_ms)
    return {"messages": messages, "is_exact": is_exact, "seconds": round(waiting_ms / 1_000, 1)}


def _unread(store: redis.Redis, key: str, at: Id) -> tuple[int, bool, int | None]:
    """Return how many messages follow an ID in a stream, whether that is exact, and the time of the next one."""
    pipeline = store.pipeline(transaction=False)
    for words in (
        ("XLEN", key),
        ("XRANGE", key, "-", "+", "COUNT", 1),
        ("XREVRANGE", key, f"({format_id(END)}", "-", "COUNT", 1),
        ("XRANGE", key, f"({format_id(at)}" if at != END else "+", "+", "COUNT", 1),
    ):
        pipeline.execute_command(*words)
    length, *ends = pipeline.execute()
    first, last, following = (parse_id(one[0][0]) if one else None for one in ends)
    if first is None or last is None or following is None or following == END:
        return 0, True, None
    length -= bool(store.xrange(key, format_id(END), format_id(END)))  # the end entry of a closed generation
    if following == first:
        return length, True, following[0]
    if following == last:
        return 1, True, following[0]
    share = (last[0] - following[0]) / max(last[0] - first[0], 1)
    return max(1, round(length * share)), False, following[0]
