"""Takes up the sessions of gateways that have ended without a word: they run out, and their wills are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.leaving import take_over
from streamd.clients.mqtt.gateway.share_ends import end_members_of
from streamd.clients.mqtt.store.link import Words
from streamd.clients.mqtt.store.records import (
    INDEX,
    WILLS,
    Found,
    Pointer,
    Record,
    data_key,
    indexing,
    leaving_index,
    parse_record,
    pointer_key,
    resting,
)

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway

_AT_ONCE: Final = 500


async def take_up(gateway: Gateway) -> None:
    """Take up all sessions of the gateways that are dead. Raises: StoreFault."""
    ownership = gateway.ownership
    dead = set(ownership.dead)
    if not dead:
        return
    (names,) = await gateway.link.demand(("ZRANGEBYSCORE", INDEX, "+inf", "+inf"))
    for at in range(0, len(names), _AT_ONCE):
        await _take_some(gateway, [one.decode() for one in names[at : at + _AT_ONCE]], dead)
    await end_members_of(gateway.shares, dead)
    for run in sorted(dead):
        await ownership.forget(run)
    ownership.dead = []


async def _take_some(gateway: Gateway, names: list[str], dead: set[str]) -> None:
    texts = await gateway.link.ask(*[("GET", pointer_key(one)) for one in names])
    pointers: list[tuple[str, Pointer]] = []
    for client_id, text in zip(names, texts, strict=True):
        if text is None:
            await _forget_if_gone(gateway, client_id)
            continue
        # (An error is a session of the first version, which is converted when it is looked for.)
        is_first = isinstance(text, Exception)
        pointer = (await gateway.finding.find(client_id)).pointer if is_first else Pointer.from_text(text)
        if pointer is None or pointer.run is None:
            continue
        if pointer.run in dead or (is_first and not await gateway.ownership.is_alive(pointer.run)):
            pointers.append((client_id, pointer))
    taken = await take_over(gateway, pointers) if pointers else []
    if not taken:
        return
    replies = await gateway.link.ask(*[("HGETALL", data_key(one, pointer.epoch)) for one, pointer in taken])
    commands: list[Words] = []
    for (client_id, pointer), reply in zip(taken, replies, strict=True):
        if isinstance(reply, Exception):
            continue
        record = parse_record(client_id, Found(pointer, reply))
        if record is not None:
            await gateway.shares.finish(record)
            commands += _ending(record, gateway.now_ms())
        commands += resting(client_id, pointer, [])
    if commands:
        await gateway.link.demand(*commands)


async def _forget_if_gone(gateway: Gateway, client_id: str) -> None:
    """Remove a client from the index whose session was never written; another gateway may be writing it."""
    if gateway.ownership.peers:
        return
    if (await gateway.finding.find(client_id)).pointer is None and client_id not in gateway.clients:
        gateway.tell_store(leaving_index(client_id))


def _ending(record: Record, now_ms: int) -> list[Words]:
    """Return the commands that let a session run out, as when its client's connection ends."""
    ends_ms = now_ms + record.expiry_s * 1_000
    words: list[bytes | str | int] = ["HSET", record.key, "ends_ms", ends_ms, "lost_ms", now_ms]
    commands: list[Words] = []
    if record.will is not None:
        delay_s = record.will.properties.get(Property.WILL_DELAY_INTERVAL, 0)
        assert isinstance(delay_s, int)
        will_ms = now_ms + min(delay_s, record.expiry_s) * 1_000
        words += ["will_ms", will_ms]
        commands.append(("ZADD", WILLS, will_ms, record.client_id))
    return [*commands, words, *indexing(record.client_id, ends_ms, is_application=record.is_application)]
