"""CLUSTER, READONLY, READWRITE and ASKING: tell clients that this server is no node of a cluster."""

from typing import Final

from streamd.base.errors import CommandError
from streamd.catalog import answer, container

_DISABLED: Final = CommandError("ERR This instance has cluster support disabled")

# What only reads, also while the server loads; what reads its slots; what changes the cluster.
_ASKS: Final = "loading stale"
_LOOKS: Final = "stale"
_STEERS: Final = "admin stale no_async_loading"
_ASKS_AS_ADMIN: Final = "admin loading stale"
_RANDOM: Final = "nondeterministic_output"

# The name, the arity, flags, version, syntax and tips of each subcommand.
_SUBCOMMANDS: Final = [
    ("ADDSLOTS", -3, _STEERS, "3.0.0", "slot [slot ...]", ""),
    ("ADDSLOTSRANGE", -4, _STEERS, "7.0.0", "start-slot end-slot [start-slot end-slot ...]", ""),
    ("BUMPEPOCH", 2, _STEERS, "3.0.0", "", _RANDOM),
    ("COUNT-FAILURE-REPORTS", 3, _ASKS_AS_ADMIN, "3.0.0", "node-id", _RANDOM),
    ("COUNTKEYSINSLOT", 3, _LOOKS, "3.0.0", "slot", ""),
    ("DELSLOTS", -3, _STEERS, "3.0.0", "slot [slot ...]", ""),
    ("DELSLOTSRANGE", -4, _STEERS, "7.0.0", "start-slot end-slot [start-slot end-slot ...]", ""),
    ("FAILOVER", -2, _STEERS, "3.0.0", "[FORCE | TAKEOVER]", ""),
    ("FLUSHSLOTS", 2, _STEERS, "3.0.0", "", ""),
    ("FORGET", 3, _STEERS, "3.0.0", "node-id", ""),
    ("GETKEYSINSLOT", 4, _LOOKS, "3.0.0", "slot count", _RANDOM),
    ("HELP", 2, _ASKS, "5.0.0", "", ""),
    ("INFO", 2, _ASKS, "3.0.0", "", _RANDOM),
    ("KEYSLOT", 3, _ASKS, "3.0.0", "key", ""),
    ("LINKS", 2, _ASKS, "7.0.0", "", _RANDOM),
    ("MEET", -4, _STEERS, "3.0.0", "ip port [cluster-bus-port]", ""),
    ("MIGRATION", -4, _STEERS, "8.4.0", "word word [word ...]", ""),
    ("MYID", 2, _ASKS, "3.0.0", "", ""),
    ("MYSHARDID", 2, _ASKS, "7.2.0", "", _RANDOM),
    ("NODES", 2, _ASKS, "3.0.0", "", _RANDOM),
    ("REPLICAS", 3, _ASKS_AS_ADMIN, "5.0.0", "node-id", _RANDOM),
    ("REPLICATE", 3, _STEERS, "3.0.0", "node-id", ""),
    ("RESET", -2, "admin noscript stale", "3.0.0", "[HARD | SOFT]", ""),
    ("SAVECONFIG", 2, _STEERS, "3.0.0", "", ""),
    ("SET-CONFIG-EPOCH", 3, _STEERS, "3.0.0", "config-epoch", ""),
    ("SETSLOT", -4, _STEERS, "3.0.0", "slot word [node-id]", ""),
    ("SHARDS", 2, _ASKS, "7.0.0", "", _RANDOM),
    ("SLAVES", 3, _ASKS_AS_ADMIN, "3.0.0", "node-id", _RANDOM),
    ("SLOT-STATS", -4, _ASKS, "8.2.0", "word word [word ...]", f"{_RANDOM} request_policy:all_shards"),
    ("SLOTS", 2, _ASKS, "3.0.0", "", _RANDOM),
    ("SYNCSLOTS", -3, _STEERS, "8.4.0", "word [word ...]", _RANDOM),
]

container("CLUSTER", since="3.0.0", group="cluster", help_lines=[])
for _name, _arity, _flags, _since, _syntax, _tips in _SUBCOMMANDS:
    # HELP, too: Redis gives help on CLUSTER in a cluster alone.
    answer(
        f"CLUSTER {_name}", _DISABLED, "Tell that there is no cluster.", arity=_arity, flags=_flags, since=_since,
        syntax=_syntax, group="cluster", tips=_tips,
    )  # fmt: skip

for _name, _flags in (("READONLY", "loading stale fast"), ("READWRITE", "loading stale fast"), ("ASKING", "fast")):
    answer(
        _name, _DISABLED, "Tell that there is no cluster.", arity=1, flags=_flags, since="3.0.0", group="cluster",
        acl="connection",
    )  # fmt: skip
