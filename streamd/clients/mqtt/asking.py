"""Asks running gateways, and reads sessions, by way of the store."""

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import redis

from streamd.clients.mqtt.gateway.ownership import GATEWAYS, Peer, lease_key
from streamd.clients.mqtt.store.control import Request, answer_key
from streamd.clients.mqtt.store.described import RELEASED, describe
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.records import Found, Pointer, data_key, parse_record, pointer_key
from streamd.clients.topics import administration
from streamd.clients.topics.drivers import run as run_steps
from streamd.clients.topics.entry_ids import BEGIN, END, Id, format_id, parse_id
from streamd.clients.topics.filters import names_for

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


def gateways(store: redis.Redis) -> list[Peer]:
    """Return the gateways that run on a store, in the order of their names."""
    found = []
    for name, text in store.hgetall(GATEWAYS).items():
        peer = Peer.from_text(_bytes(text))
        if store.exists(lease_key(_bytes(name).decode())) and not peer.is_known_dead:
            found.append(peer)
    return sorted(found, key=lambda one: (one.name, one.run))


def ask(store: redis.Redis, do: str, enough: str = "", **said: Any) -> list[dict[str, Any]]:
    """Return the answers of all running gateways. enough: an answer that says yes to this makes the others needless.

    Raises: NoGateway; NoAnswer.
    """
    request = Request(secrets.token_hex(16), do, said)
    running = {one.run: one for one in gateways(store)}
    if not running:
        raise NoGateway
    store.execute_command(*request.to_words())
    answers: dict[str, dict[str, Any]] = {}
    until_s = time.monotonic() + _ANSWER_S
    while len(answers) < len(running):
        left_s = until_s - time.monotonic()
        found = store.blpop([answer_key(request.id)], timeout=max(left_s, 0.01)) if left_s > 0 else None
        if found is not None:
            answered = json.loads(found[1])
            answers[answered["gateway"]] = answered
            if answered.get(enough):
                break
            continue
        # One that has ended meanwhile owes nothing.
        running = {one.run: one for one in gateways(store)}
        silent = [one for run, one in running.items() if run not in answers]
        if not running:
            raise NoGateway
        if silent:
            raise NoAnswer(
                f"the gateway {_place(silent[0])} has not answered within {_ANSWER_S} seconds; look at its log"
            )
    return list(answers.values())


def _place(one: Peer) -> str:
    return f"{one.name or one.run} (process {one.process} on {one.host.partition(' ')[0]})"


def _names(store: redis.Redis) -> dict[str, str]:
    """Return the names of the gateways by their runs, also of some that have ended."""
    peers = [Peer.from_text(_bytes(text)) for text in store.hvals(GATEWAYS)]
    return {one.run: one.name or one.run for one in peers}


def clients(store: redis.Redis, count: int, after: str, match: str, *, applications: bool = False) -> Iterator[Page]:
    """Yield pages of the clients that are connected. count: at most so many clients; 0 for all.

    applications: only those that are applications.

    Raises: NoGateway; NoAnswer.
    """
    left = count
    while True:
        size = min(left, _PAGE) if count else _PAGE
        answers = ask(store, "clients", count=size, after=after, match=match, applications=applications)
        names = _names(store)
        every = ({**one, "gateway": names.get(said["gateway"])} for said in answers for one in said["clients"])
        found = sorted(
            (one for one in every if not applications or "application" in one), key=lambda one: one["client"]
        )
        has_more = len(found) > size or any(said["more_after"] is not None for said in answers)
        found = found[:size]
        more_after = found[-1]["client"] if found and has_more else None
        yield Page(found, sum(said["number"] for said in answers), more_after)
        left -= size
        if more_after is None or (count and left <= 0):
            return
        after = more_after


def session(store: redis.Redis, client_id: str) -> dict[str, Any] | None:
    """Return a session: of its gateway if the client is connected, else of the store; None without one.

    lag: of each log, in messages and seconds; None for a log that does not exist any more. gateway: the name of the
    one that owns the session. An application has retention_left_s, too.

    Raises: NoAnswer; NewerRecord.
    """
    said: dict[str, Any] | None = None
    run: str | None = None
    try:
        for one in ask(store, "session", "is_connected", client=client_id):
            if one["is_connected"]:
                said, run = one["session"], one["gateway"]
    except NoGateway:
        pass
    found = said
    if found is None:
        place = _find(store, client_id)
        record = parse_record(client_id, place)
        if record is None:
            return None
        found = describe(record)
        run = None if place.pointer is None else place.pointer.run
    live = found.get("lag", {})
    lags: dict[str, Any] = {}
    for name, text in found["positions"].items():
        if said is not None and live.get(name, _NO_LAG)["messages"] is not None:
            lags[name] = {**live.get(name, _NO_LAG), "is_exact": True}
        else:
            lags[name] = _lag(store, name, Position.from_text(text))
    if found.get("application") is not None:
        found["application"]["retention_left_s"] = _left_s(store, found, lags)
    gateway = None if run is None else _names(store).get(run, run)
    return {"client": client_id, "is_connected": said is not None, "gateway": gateway, **found, "lag": lags}


def _left_s(store: redis.Redis, found: dict[str, Any], lags: dict[str, Any]) -> float | None:
    """Return how long the logs keep all that an application has to get or to acknowledge; None if it reads no log."""
    metas = {
        name: run_steps(store, administration.open_log(name)).meta for name, lag in lags.items() if lag is not None
    }
    filters = {name: meta.current.filters for name, meta in metas.items()}
    own = [one["filter"] for one in found["subscriptions"] if not one["filter"].startswith("$share/")]
    ages_s = {name: lags[name]["seconds"] for one in own for name in names_for(one, filters)}
    now_s = store.time()[0]
    for one in found["in_flight"]:
        if one["log"] in metas and one["state"] != RELEASED:
            age_s = now_s - parse_id(one["entry"])[0] / 1_000
            ages_s[one["log"]] = max(ages_s.get(one["log"], 0.0), age_s)
    left = [max(0.0, metas[name].retention_s - age_s) for name, age_s in ages_s.items()]
    return round(min(left), 1) if left else None


def _find(store: redis.Redis, client_id: str) -> Found:
    text = store.get(pointer_key(client_id))
    if text is None:
        return Found(None, [])
    pointer = Pointer.from_text(_bytes(text))
    return Found(pointer, _flat(store.hgetall(data_key(client_id, pointer.epoch))))


def _bytes(value: bytes | str) -> bytes:
    assert isinstance(value, bytes)  # the connection decodes nothing
    return value


def _flat(fields: Any) -> list[bytes]:
    return [word for pair in fields.items() for word in pair]


def _lag(store: redis.Redis, name: str, position: Position) -> dict[str, Any] | None:
    """Return how far a position is behind the end of a log: in messages and seconds; None without such a log.

    The messages are exact where is_exact says so, else they are estimated by the times of the entries around.
    """
    if name not in run_steps(store, administration.names()):
        return None
    meta = run_steps(store, administration.open_log(name)).meta
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
