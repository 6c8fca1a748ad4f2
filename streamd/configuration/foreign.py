"""The table of Redis's options that streamd does not have, each with the reason why it is ignored or refused."""

from typing import Final

_REASONS: Final = {
    "data is saved by the journal alone": "dbfilename rdb-del-sync-files rdb-save-incremental-fsync rdbchecksum "
    "rdbcompression sanitize-dump-payload stop-writes-on-bgsave-error",
    "the journal does so by itself": "aof-disable-auto-gc aof-rewrite-incremental-fsync aof-timestamp-enabled "
    "no-appendfsync-on-rewrite",
    "replication does without it": "propagation-error-behavior repl-backlog-ttl repl-disable-tcp-nodelay "
    "repl-diskless-load repl-diskless-sync repl-diskless-sync-delay repl-diskless-sync-max-replicas "
    "repl-ping-replica-period repl-ping-slave-period replica-announced replica-ignore-disk-write-errors "
    "replica-ignore-maxmemory replica-lazy-flush slave-ignore-maxmemory slave-lazy-flush",
    "there is no cluster": "cluster-allow-pubsubshard-when-down cluster-allow-reads-when-down "
    "cluster-allow-replica-migration cluster-announce-bus-port cluster-announce-hostname "
    "cluster-announce-human-nodename "
    "cluster-announce-ip cluster-announce-port cluster-announce-tls-port cluster-config-file "
    "cluster-link-sendbuf-limit cluster-migration-barrier cluster-node-timeout cluster-port "
    "cluster-preferred-endpoint-type cluster-replica-no-failover cluster-replica-validity-factor "
    "cluster-require-full-coverage cluster-slave-no-failover cluster-slave-validity-factor tls-cluster",
    "memory is laid out by Python": "active-defrag-cycle-max active-defrag-cycle-min active-defrag-ignore-bytes "
    "active-defrag-max-scan-fields active-defrag-threshold-lower active-defrag-threshold-upper activedefrag "
    "activerehashing disable-thp hll-sparse-max-bytes jemalloc-bg-thread",
    "nothing is evicted": "lfu-decay-time lfu-log-factor maxmemory-clients maxmemory-eviction-tenacity "
    "maxmemory-samples",
    "whatever is large is freed in slices": "lazyfree-lazy-eviction lazyfree-lazy-expire lazyfree-lazy-server-del "
    "lazyfree-lazy-user-del lazyfree-lazy-user-flush",
    "one thread executes commands": "aof_rewrite_cpulist bgsave_cpulist bio_cpulist io-threads io-threads-do-reads "
    "server_cpulist",
    "it runs in the foreground; systemd or the shell watches over it": "crash-log-enabled crash-memcheck-enabled "
    "daemonize oom-score-adj oom-score-adj-values pidfile proc-title-template set-proc-title shutdown-on-sigint "
    "shutdown-on-sigterm supervised",
    "logs go to the standard error stream or to logfile": "syslog-enabled syslog-facility syslog-ident",
    "there are no modules": "loadmodule enable-module-command",
    "limits are fixed, see streamd/base/limits.py": "client-output-buffer-limit shutdown-timeout",
    "nothing here depends on it": "active-expire-effort always-show-logo bind-source-addr dynamic-hz "
    "enable-debug-command enable-protected-configs ignore-warnings latency-tracking-info-percentiles locale-collate "
    "socket-mark-id",
}

# Option -> why it is passed over.
PASSED_OVER: Final = {name: reason for reason, names in _REASONS.items() for name in names.split()}

# Option -> what would be wrong if it were passed over, with the values that mean nothing and so may stand.
_UNSAFE: Final = {
    "rename-command": "commands cannot be renamed, and whoever relies on it is not protected",
    "cluster-enabled": "there is no cluster",
}
_HARMLESS: Final = {"cluster-enabled": ["no"]}


def is_foreign(name: str) -> bool:
    """Return whether `name` is an option of Redis that streamd does not have."""
    return name in PASSED_OVER or name in _UNSAFE or name.startswith(("tls-", "unixsocket"))


def danger(name: str, words: list[str]) -> str | None:
    """Return the reason why a foreign option with these values must not be ignored; None if it may be."""
    return _UNSAFE.get(name) if words != _HARMLESS.get(name) else None


# Options that streamd has, but with only one value; others are passed over: name -> (the value, the reason).
KEPT: Final = {
    "aof-use-rdb-preamble": ("no", "the base is made of commands, too"),
    "aof-load-truncated": ("yes", "a torn end is cut off, damage before it refuses the start"),
    "save": ("", "data is saved by the journal alone: appendonly yes"),
}
