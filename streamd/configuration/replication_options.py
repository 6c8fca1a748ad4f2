"""The options of replication, and their earlier names."""

from typing import Final

# Each as (name, kind, default, help, least, greatest, whether it is a flag).
REPLICATION_OPTIONS: Final[tuple[tuple[str, str, int | str, str, int, int, bool], ...]] = (
    ("masteruser", "text", "", "user of a replica at its primary; empty: the default user", 0, 0, True),
    ("masterauth", "text", "", "password of a replica at its primary; better in a file than in a flag", 0, 0, False),
    ("tls-replication", "boolean", False, "encrypt the link to the primary, with the files of tls-port", 0, 0, True),
    ("replica-announce-ip", "text", "", "address that the primary shows for this replica", 0, 0, True),
    ("replica-announce-port", "integer", 0, "port that the primary shows for this replica; 0: its own", 0, 65535, True),
    ("replica-serve-stale-data", "boolean", True, "no: a replica without its link answers with errors", 0, 0, True),
    ("replica-priority", "integer", 100, "Sentinel prefers smaller ones, and never elects 0", 0, 2**31 - 1, True),
    ("repl-backlog-size", "memory", 2**20, "bytes for replicas that were away for a moment", 2**14, 2**40, True),
    ("min-replicas-to-write", "integer", 0, "writes are refused with fewer replicas; 0: never", 0, 2**31 - 1, True),
    ("min-replicas-max-lag", "integer", 10, "seconds after which a silent replica does not count", 0, 2**31 - 1, True),
    ("repl-timeout", "integer", 60, "seconds of silence after which a link is broken", 1, 2**31 - 1, True),
)

REPLICATION_ALIASES: Final = {
    "slaveof": "replicaof",
    "slave-read-only": "replica-read-only",
    "slave-serve-stale-data": "replica-serve-stale-data",
    "min-slaves-to-write": "min-replicas-to-write",
    "min-slaves-max-lag": "min-replicas-max-lag",
    "slave-announce-ip": "replica-announce-ip",
    "slave-announce-port": "replica-announce-port",
    "slave-priority": "replica-priority",
}
