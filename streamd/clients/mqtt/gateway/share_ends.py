"""Ends what gateways that have ended without a word have left of memberships in shared subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamd.clients.mqtt.store import share_records
from streamd.clients.mqtt.store.records import parse_record

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.shares import Shares


async def end_members_of(shares: Shares, dead: set[str]) -> None:
    """End the memberships of clients without a session in the store, whose gateways are dead."""
    (names,) = await shares.link.demand(("SMEMBERS", share_records.INDEX))
    for one in names:
        (reply,) = await shares.link.demand(("HGETALL", share_records.share_key(one.decode())))
        fields = dict(zip(reply[::2], reply[1::2], strict=True))
        for field, run in fields.items():
            if field.startswith(b"g ") and run.decode() in dead and b"filter" in fields:
                await check_member(shares, fields, field[2:])


async def check_member(shares: Shares, fields: dict[bytes, bytes], uid: bytes) -> None:
    """End a membership that nobody has; finish what its gateway has begun. fields: of the share's hash."""
    client = fields.get(b"m " + uid)
    if client is None:
        return
    gateway, text, client_id = shares.gateway, fields[b"filter"].decode(), client.decode()
    record = parse_record(client_id, await gateway.finding.find(client_id))
    if record is not None and record.pointer.run in gateway.ownership.peers:
        return  # it is at work
    if record is None or record.uid != uid.decode() or text not in record.subscriptions:
        run = fields.get(b"g " + uid, b"").decode()
        # It may have no record, or none yet. (This run has begun nothing when it looks for those of others.)
        if not run or run == gateway.run or not await gateway.ownership.is_alive(run):
            await shares.end_member(text, uid.decode(), client_id)
        return
    await shares.finish(record)
