"""MEMORY: the memory of keys and of the process, and advice."""

from streamd.base.errors import SyntaxError_
from streamd.base.heap import give_back
from streamd.catalog import Context, answer, command, container
from streamd.catalog.arguments import Arguments
from streamd.data.sizes import ROW_BYTES, word_bytes
from streamd.data.types import ROW_OVERHEAD, type_of
from streamd.resp.types import Reply, Verbatim

_SPECIAL = "nondeterministic_output request_policy:all_shards response_policy:special"
# Below this there is nothing to be said, as in Redis.
_LITTLE_BYTES = 5 * 1024 * 1024
# So many elements are looked at, as in Redis, unless somebody says how many.
_SAMPLES = 5

container(
    "MEMORY",
    since="4.0.0",
    group="server",
    help_lines=[
        "DOCTOR",
        "    Show what memory is used for that could be less.",
        "MALLOC-STATS",
        "    Show statistics of the allocator: there are none.",
        "PURGE",
        "    Give back what nothing uses; an idle server does so by itself.",
        "STATS",
        "    Show the process's memory in Redis's fields.",
        "USAGE <key> [SAMPLES <count>]",
        "    Show about how many bytes a key and its value take.",
    ],
)


@command(
    "MEMORY USAGE", arity=-3, flags="readonly", keys=(2, 2, 1), since="4.0.0",
    complexity="O(N), N the samples", group="server", acl="",
    syntax="key [SAMPLES count]", access="RO",
)  # fmt: skip
def memory_usage(context: Context, args: list[bytes]) -> Reply:
    """Return the estimated bytes of a key and its value, or nil, from a sample of elements, with 0 from all."""
    words, samples = Arguments(args, 3), _SAMPLES
    while words.left():
        if not words.flag(b"SAMPLES", followed_by=1):
            raise SyntaxError_()
        samples = words.integer()
        if samples < 0:
            raise SyntaxError_()
    value = context.db.peek(args[2])
    if value is None:
        return None
    return type_of(value).memory_bytes(value, samples) + word_bytes(len(args[2])) + ROW_BYTES


@command(
    "MEMORY PURGE", arity=2, since="4.0.0", complexity="O(1)", group="server",
    tips="request_policy:all_shards response_policy:all_succeeded",
)  # fmt: skip
def memory_purge(context: Context, args: list[bytes]) -> Reply:
    """Return unused memory to the system. (A millisecond for 6 MB; an idle server does it by itself.)"""
    for _ in context.state.packing():
        pass
    give_back()
    return "OK"


answer(
    "MEMORY MALLOC-STATS", Verbatim(b"Stats not supported for the current allocator"),
    "Return statistics of the allocator: there are none.", arity=2, since="4.0.0", group="server", tips=_SPECIAL,
)  # fmt: skip


@command("MEMORY STATS", arity=2, since="4.0.0", complexity="O(1)", group="server", tips=_SPECIAL)
def memory_stats(context: Context, args: list[bytes]) -> Reply:
    """Return the process's memory in bytes. Where Python's allocator tells nothing, it is 0 or the process's figure.

    Reply: map.
    """
    process, state = context.services.process_facts(), context.state
    scripts, libraries = context.services.scripts.scripts, state.libraries
    used, peak = process.memory_bytes, max(process.memory_peak_bytes, 1)
    keys = sum(len(db) for db in state.keyspace)
    clients = sum(len(piece) for client in state.clients.values() for piece in client.out)
    stats: dict[Reply, Reply] = {
        b"peak.allocated": peak,
        b"total.allocated": used,
        b"startup.allocated": 0,
        b"replication.backlog": 0,
        b"clients.slaves": 0,
        b"clients.normal": clients,
        b"cluster.links": 0,
        b"aof.buffer": 0,
        b"lua.caches": scripts.text_bytes,
        b"functions.caches": libraries.text_bytes,
        b"script.VMs": scripts.memory_bytes + libraries.memory_bytes,
    }
    for db in state.keyspace:
        if len(db):
            stats[b"db.%d" % db.index] = {
                b"overhead.hashtable.main": len(db) * ROW_OVERHEAD,
                b"overhead.hashtable.expires": len(db.expires_ms) * ROW_OVERHEAD,
                b"overhead.hashtable.slot-to-keys": 0,
            }
    overhead = clients + sum((len(db) + len(db.expires_ms)) * ROW_OVERHEAD for db in state.keyspace)
    stats |= {
        b"overhead.total": overhead,
        b"keys.count": keys,
        b"keys.bytes-per-key": used // keys if keys else 0,
        b"dataset.bytes": max(0, used - overhead),
        b"dataset.percentage": 100 * max(0, used - overhead) / max(used, 1),
        b"peak.percentage": 100 * used / peak,
        b"allocator.allocated": used,
        b"allocator.active": used,
        b"allocator.resident": used,
        b"allocator-fragmentation.ratio": 1.0,
        b"allocator-fragmentation.bytes": 0,
        b"allocator-rss.ratio": 1.0,
        b"allocator-rss.bytes": 0,
        b"rss-overhead.ratio": 1.0,
        b"rss-overhead.bytes": 0,
        b"fragmentation": 1.0,
        b"fragmentation.bytes": 0,
    }
    return stats


@command("MEMORY DOCTOR", arity=2, since="4.0.0", complexity="O(N), N the clients", group="server", tips=_SPECIAL)
def memory_doctor(context: Context, args: list[bytes]) -> Reply:
    """Return advice on saving memory, for people."""
    process, state = context.services.process_facts(), context.state
    used, limit = process.memory_bytes, state.config.integer("maxmemory")
    if not any(len(db) for db in state.keyspace):
        return Verbatim(b"There are no keys: nothing to be said about memory.\n")
    advice = []
    if process.memory_peak_bytes > 1.5 * used and process.memory_peak_bytes - used > _LITTLE_BYTES:
        advice.append(
            f"* The most ever was {process.memory_peak_bytes >> 20} MB, now it is {used >> 20} MB. What is free is "
            "given back while the server is idle; MEMORY PURGE does it now."
        )
    if limit and used > 0.9 * limit:
        advice.append(
            f"* {used >> 20} MB are used, the limit maxmemory is {limit >> 20} MB: above it writes are refused. Trim "
            "streams (XADD ... MAXLEN), set expiries, or raise the limit."
        )
    waiting = max((sum(map(len, client.out)) for client in state.clients.values()), default=0)
    if waiting > _LITTLE_BYTES:
        advice.append(f"* {waiting >> 20} MB wait for a client that does not read; CLIENT LIST shows omem of each.")
    return Verbatim(("\n".join(advice) + "\n" if advice else "Nothing stands out.\n").encode())
