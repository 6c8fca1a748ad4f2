"""Shared subscriptions in the store: their names, and who is a member.

mqtt:shares              set: the names of all shared subscriptions
mqtt:share:{<name>}      hash: the fields below
mqtt:share:{<name>}:lock string with a time to live: held while members or the whole share change

filter           the subscription's whole filter, $share/<group>/<filter>
mode             ordered or any: what its first member wanted
m <uid>          a session that is a member: its client identifier
g <uid>          the run of the gateway where it has become one, or has come back to; a session may have no record

Each has, in each log with topics for it, a shared replay of this name; each member is a consumer there.
"""

import hashlib
import re
from typing import Final

from streamd.clients.mqtt.store.link import Words

INDEX: Final = "mqtt:shares"
# The consumer of entries that were taken from members: they are for anybody.
ANYBODY: Final = "anybody"
_PLAIN_GROUP: Final = re.compile(r"[A-Za-z0-9_.-]{1,50}")
_PLAIN_CLIENT: Final = re.compile(r"[A-Za-z0-9_.:-]{1,60}")


def share_name(text: str) -> str:
    """Return the name of the shared replay of a filter: equal filters have equal names, all others another one."""
    group = text.split("/", 2)[1]
    digest = _digest(text)
    return f"mqtt.{group}.{digest}" if _PLAIN_GROUP.fullmatch(group) else f"mqtt.{digest}"


def consumer_name(client_id: str, uid: str) -> str:
    """Return the name of a session as a member; another session of the same client has another one."""
    return f"{client_id if _PLAIN_CLIENT.fullmatch(client_id) else _digest(client_id)}.{uid}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def share_key(name: str) -> str:
    """Return the key of a shared subscription's hash."""
    return f"mqtt:share:{{{name}}}"


def lock_key(name: str) -> str:
    """Return the key of a string that a gateway holds while it changes who is a member."""
    return f"mqtt:share:{{{name}}}:lock"


def entering(name: str, text: str, mode: str, uid: str, client_id: str, run: str) -> list[Words]:
    """Return the commands that note a member; the last two replies: the mode, and 1 for one that was none before."""
    key = share_key(name)
    return [
        ("SADD", INDEX, name),
        ("HSETNX", key, "mode", mode),
        ("HSET", key, "filter", text),
        ("HSET", key, f"g {uid}", run),
        ("HGET", key, "mode"),
        ("HSET", key, f"m {uid}", client_id),
    ]


def leaving(name: str, uid: str) -> list[Words]:
    """Return the commands that forget a member; the last reply has the fields that are left."""
    return [("HDEL", share_key(name), f"m {uid}", f"g {uid}"), ("HKEYS", share_key(name))]


def has_members(fields: list[bytes]) -> bool:
    """Return whether a reply to HKEYS names a member."""
    return any(one.startswith(b"m ") for one in fields)


def forgetting(name: str) -> list[Words]:
    """Return the commands that remove a shared subscription; the index comes last."""
    return [("UNLINK", share_key(name)), ("SREM", INDEX, name)]
