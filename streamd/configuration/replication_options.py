"""The options of replication, each as (name, kind, default, help, least, greatest, whether it is a flag)."""

from typing import Final

REPLICATION_OPTIONS: Final[tuple[tuple[str, str, int | str, str, int, int, bool], ...]] = (
    ("masteruser", "text", "", "user of a replica at its primary; empty: the default user", 0, 0, True),
    ("masterauth", "text", "", "password of a replica at its primary; better in a file than in a flag", 0, 0, False),
    ("replica-announce-ip", "text", "", "address that the primary shows for this replica", 0, 0, True),
    ("replica-announce-port", "integer", 0, "port that the primary shows for this replica; 0: its own", 0, 65535, True),
    ("replica-priority", "integer", 100, "Sentinel prefers smaller ones, and never elects 0", 0, 2**31 - 1, True),
    ("repl-backlog-size", "memory", 2**20, "bytes for replicas that were away for a moment", 2**14, 2**40, True),
    ("min-replicas-to-write", "integer", 0, "writes are refused with fewer replicas; 0: never", 0, 2**31 - 1, True),
    ("min-replicas-max-lag", "integer", 10, "seconds after which a silent replica does not count", 0, 2**31 - 1, True),
    ("repl-timeout", "integer", 60, "seconds of silence after which a link is broken", 1, 2**31 - 1, True),
)
