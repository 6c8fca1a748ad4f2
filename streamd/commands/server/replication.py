"""Replication: roles, the words of a replica to its primary, and waiting for replicas."""

import re
from typing import Final

from streamd.base.errors import CommandError, SyntaxError_
from streamd.base.version import VERSION
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_integer, parse_timeout_ms
from streamd.connected.blocking import BLOCKED
from streamd.connected.replication_ports import NO_JOURNAL
from streamd.resp.types import NO_REPLY, Reply

_ADMIN = "admin noscript stale"
_PORT_MAX = 65_535
# A name or address of a machine. It stands in lines of INFO and the log, which it must not break.
_HOST: Final = re.compile(rb"[\w.:%\[\]-]{0,255}")
# How a Sentinel names the connection on which it sends commands.
_SENTINEL: Final = re.compile(rb"sentinel-[0-9a-f]{8}-cmd")


@command("ROLE", arity=1, flags="noscript loading stale fast", since="2.8.12", complexity="O(1)", group="server",
    acl="admin dangerous",
)  # fmt: skip
def role(context: Context, args: list[bytes]) -> Reply:
    """Return the server's role in replication, and its replicas or the state of its link."""
    return context.state.replication.role()


def _follow(context: Context, args: list[bytes]) -> Reply:
    replication = context.state.replication
    if args[1].upper() == b"NO" and args[2].upper() == b"ONE":
        replication.lead()
        return "OK"
    port = parse_integer(args[2])
    if not 0 <= port <= _PORT_MAX:
        raise CommandError("ERR Invalid master port")
    if _HOST.fullmatch(args[1]) is None:
        raise CommandError("ERR Invalid master host")
    host = args[1].decode("utf-8", "surrogateescape")
    is_automatic = _SENTINEL.fullmatch(context.client.name) is not None
    return "OK" if replication.follow(host, port, is_automatic) else "OK Already connected to specified master"


@command(
    "REPLICAOF", arity=3, flags=f"{_ADMIN} no_async_loading", since="5.0.0", complexity="O(1)", group="server",
    acl="admin dangerous", syntax="<host port | NO ONE>",
)  # fmt: skip
def replicaof(context: Context, args: list[bytes]) -> Reply:
    """Make this server a replica of another one, or a primary."""
    return _follow(context, args)


@command(
    "SLAVEOF", arity=3, flags=f"{_ADMIN} no_async_loading", since="1.0.0", complexity="O(1)", group="server",
    acl="admin dangerous", syntax="<host port | NO ONE>",
)  # fmt: skip
def slaveof(context: Context, args: list[bytes]) -> Reply:
    """Make this server a replica of another one, or a primary: the earlier name of REPLICAOF."""
    return _follow(context, args)


@command(
    "REPLCONF", arity=-1, flags="admin noscript loading stale allow_busy", since="3.0.0", complexity="O(1)",
    group="server", acl="admin dangerous",
)  # fmt: skip
def replconf(context: Context, args: list[bytes]) -> Reply:
    """Say something of a replica to its primary."""
    if len(args) % 2 == 0:
        raise SyntaxError_()
    replication, client = context.state.replication, context.client
    pairs = {args[at].lower(): args[at + 1] for at in range(1, len(args), 2)}
    if b"ack" in pairs:
        fack = pairs.get(b"fack")
        synced = None if fack is None else parse_integer(fack)
        replication.acknowledge(client, parse_integer(pairs[b"ack"]), synced)
        return NO_REPLY
    for at in range(1, len(args), 2):
        name, value = args[at].lower(), args[at + 1]
        if name == b"listening-port":
            port = parse_integer(value)
            if not 0 <= port <= _PORT_MAX:
                raise CommandError("ERR value is out of range")
            replication.greet(client).port = port
        elif name == b"ip-address":
            if _HOST.fullmatch(value) is None:
                raise CommandError("ERR REPLCONF ip-address is no address")
            replication.greet(client).address = value.decode("utf-8", "surrogateescape")
        elif name == b"capa":
            replication.greet(client).can.add(value.lower())
        elif name == b"streamd-version":
            return f"streamd {VERSION}"
        elif name == b"streamd-last":
            try:
                replication.greet(client).last = int(value, 16)
            except ValueError:
                raise CommandError("ERR value is not an integer or out of range")
        elif name not in (b"rdb-only", b"rdb-filter-only", b"version"):
            raise CommandError(f"ERR Unrecognized REPLCONF option: {args[at].decode('utf-8', 'replace')}")
    return "OK"


@command(
    "PSYNC", arity=-3, flags="admin noscript no_multi no_async_loading", since="2.8.0", complexity="O(N), N the bytes "
    "that are sent", group="server", acl="admin dangerous", syntax="replicationid offset",
)  # fmt: skip
def psync(context: Context, args: list[bytes]) -> Reply:
    """Follow this server: get what a replica lacks, or the whole state, and then all that changes."""
    replication, client = context.state.replication, context.client
    if context.state.journal is None:
        raise CommandError(NO_JOURNAL)
    if b"streamd" not in replication.greet(client).can:
        raise CommandError("NOMASTERLINK this server sends its effects to replicas of streamd only")
    wanted = parse_integer(args[2])
    if len(args) == 4 and args[3].upper() == b"FAILOVER":
        replication.promote(args[1].decode("utf-8", "replace"))
    elif len(args) != 3:
        raise SyntaxError_()
    if args[1] != b"?" and replication.continues(client, args[1].decode("utf-8", "replace"), wanted - 1):
        return NO_REPLY

    def attempt() -> Reply:
        return NO_REPLY if replication.copy_whole(client) else BLOCKED

    if attempt() is not BLOCKED:
        return NO_REPLY
    parked = context.block((), 0, attempt, None)
    journal = context.state.journal
    assert journal is not None
    assert context.waiter is not None
    journal.serve_when_synced(context.waiter)
    return parked


@command(
    "FAILOVER", arity=-1, flags=_ADMIN, since="6.2.0", complexity="O(1)", group="server", acl="admin dangerous",
    syntax="[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
)  # fmt: skip
def failover(context: Context, args: list[bytes]) -> Reply:
    """Hand the role of the primary to a replica that has all, while writers wait for it."""
    replication = context.state.replication
    target: tuple[str, int] | None = None
    timeout_ms: int | None = None
    is_forced = False
    words = args[1:]
    if [word.upper() for word in words] == [b"ABORT"]:
        replication.abort_failover()
        return "OK"
    while words:
        name, *words = words
        if name.upper() == b"TO" and target is None and len(words) >= 2:
            port = parse_integer(words[1])
            target = words[0].decode("utf-8", "surrogateescape"), port
            words = words[2:]
        elif name.upper() == b"TIMEOUT" and timeout_ms is None and words:
            timeout_ms = parse_integer(words[0])
            if timeout_ms <= 0:
                raise CommandError("ERR FAILOVER timeout must be greater than 0")
            words = words[1:]
        elif name.upper() == b"FORCE" and not is_forced:
            is_forced = True
        else:
            raise SyntaxError_()
    replication.start_failover(target, is_forced, timeout_ms)
    return "OK"


@command(
    "WAIT", arity=3, flags="blocking", since="3.0.0", complexity="O(1)", group="generic", acl="connection",
    syntax="numreplicas timeout", tips="request_policy:all_shards response_policy:agg_min",
)  # fmt: skip
def wait(context: Context, args: list[bytes]) -> Reply:
    """Wait until so many replicas have this client's writes in their journals; return how many have."""
    replicas, timeout_ms = parse_integer(args[1]), parse_timeout_ms(args[2], context.now_ms)
    state, client = context.state, context.client
    if state.read_only is not None:
        raise CommandError(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is "
            "configured to be writable (which is not the default) writes to replicas are just local and are not "
            "propagated."
        )
    count = state.replication.count(client)
    if count >= replicas or context.in_unit:
        return count

    def attempt() -> Reply:
        found = state.replication.count(client)
        return found if found >= replicas else BLOCKED

    parked = context.block((), timeout_ms, attempt, None, late=lambda: state.replication.count(client))
    assert context.waiter is not None
    state.replication.ask(context.waiter)
    return parked
