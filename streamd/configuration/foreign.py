"""Redis's options that streamd does not have: their values, and why each is passed over or refused."""

from typing import Final, NamedTuple

from streamd.configuration.option import ConfigError, Option

# By the reason why they are passed over, those of Redis 8.10.2. A line: the name, the kind of its values (with `!` if
# CONFIG SET does not set it), the default (`-`: empty), and the choices or the least and the largest number.
_TABLE: Final = {
    "memory is laid out by Python": """
        active-defrag-cycle-max integer 25 1 99
        active-defrag-cycle-min integer 1 1 99
        active-defrag-ignore-bytes memory 104857600 1
        active-defrag-max-scan-fields integer 1000 1
        active-defrag-threshold-lower integer 10 0 1000
        active-defrag-threshold-upper integer 100 0 1000
        activedefrag boolean no
        activerehashing boolean yes
        disable-thp boolean! yes
        hll-sparse-max-bytes memory 3000
        jemalloc-bg-thread boolean yes
    """,
    "nothing here depends on it": """
        active-expire-effort integer 1 1 10
        always-show-logo boolean! no
        bind-source-addr text -
        dynamic-hz boolean yes
        enable-debug-command choice! no no|yes|local
        enable-protected-configs choice! no no|yes|local
        ignore-warnings text -
        latency-tracking-info-percentiles percentiles 50 99 99.9
        locale-collate text -
        socket-mark-id integer! 0 0 2^32
    """,
    "damage is judged by the journal's own marks": """
        aof-load-corrupt-tail-max-size integer 0 0
    """,
    "one thread executes commands": """
        aof-rewrite-cpulist text! -
        aof_rewrite_cpulist text! -
        bgsave-cpulist text! -
        bgsave_cpulist text! -
        bio-cpulist text! -
        bio_cpulist text! -
        io-threads integer! 1 1 128
        server-cpulist text! -
        server_cpulist text! -
    """,
    "the journal does so by itself": """
        aof-rewrite-incremental-fsync boolean yes
        aof-timestamp-enabled boolean no
        no-appendfsync-on-rewrite boolean no
    """,
    "there are no arrays and no vector sets": """
        array-slice-size integer 4096 256 65536
        array-sparse-kmax integer 10 0 256
        array-sparse-kmin integer 5 0 256
        vset-force-single-threaded-execution boolean no
    """,
    "backups are made by `streamd backup`": """
        backup-sealed-ttl integer 0 0
        backupdirname filename! backupdir
    """,
    "limits are fixed, see streamd/base/limits.py": """
        client-output-buffer-limit limits normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60
        shutdown-timeout integer 10 0 2^31
    """,
    "there is no cluster": """
        cluster-allow-pubsubshard-when-down boolean yes
        cluster-allow-reads-when-down boolean no
        cluster-allow-replica-migration boolean yes
        cluster-announce-bus-port integer 0 0 65535
        cluster-announce-hostname text -
        cluster-announce-human-nodename text -
        cluster-announce-ip text -
        cluster-announce-port integer 0 0 65535
        cluster-announce-tls-port integer 0 0 65535
        cluster-bus-port-protected-mode boolean no
        cluster-compatibility-sample-ratio integer 0 0 100
        cluster-config-file text! nodes.conf
        cluster-enabled boolean! no
        cluster-link-sendbuf-limit memory 0
        cluster-migration-barrier integer 1 0 2^31
        cluster-node-timeout integer 15000 0
        cluster-port integer! 0 0 65535
        cluster-preferred-endpoint-type choice ip ip|hostname|unknown-endpoint
        cluster-replica-no-failover boolean no
        cluster-replica-validity-factor integer 10 0 2^31
        cluster-require-full-coverage boolean yes
        cluster-slave-no-failover boolean no
        cluster-slave-validity-factor integer 10 0 2^31
        cluster-slot-migration-handoff-max-lag-bytes memory 1048576
        cluster-slot-migration-write-pause-timeout integer 10000 0
        cluster-slot-stats-enabled choice no no|yes|cpu|net|mem
        tls-cluster boolean no
    """,
    "it runs in the foreground; systemd or the shell watches over it": """
        crash-log-enabled boolean yes
        crash-memcheck-enabled boolean yes
        daemonize boolean! no
        oom-score-adj choice no no|yes|relative|absolute
        oom-score-adj-values scores 0 200 800
        pidfile text! -
        proc-title-template text {title} {listen-addr} {server-mode}
        set-proc-title boolean! yes
        shutdown-on-sigint choice default default|save|nosave|now|force
        shutdown-on-sigterm choice default default|save|nosave|now|force
        supervised choice! no upstart|systemd|auto|no
    """,
    "data is saved by the journal alone": """
        dbfilename filename! dump.rdb
        rdb-del-sync-files boolean no
        rdb-save-incremental-fsync boolean yes
        rdbchecksum boolean! yes
        rdbcompression boolean yes
        sanitize-dump-payload choice no no|yes|clients
        stop-writes-on-bgsave-error boolean yes
    """,
    "there are no modules": """
        enable-module-command choice! no no|yes|local
    """,
    "hashes are kept in one form": """
        hash-max-template-entries integer 0 0
        hash-min-template-entries integer 0 0
        hash-rdb-load-max-template-entries integer 0 0
        hash-rdb-load-min-template-entries integer 0 0
        hash-rdb-load-template-disassembly-threshold integer 0 0
    """,
    "memory is told by MEMORY USAGE and /metrics": """
        key-memory-histograms boolean no
    """,
    "whatever is large is freed in slices": """
        lazyfree-lazy-eviction boolean no
        lazyfree-lazy-expire boolean no
        lazyfree-lazy-server-del boolean no
        lazyfree-lazy-user-del boolean no
        lazyfree-lazy-user-flush boolean no
    """,
    "nothing is evicted": """
        lfu-decay-time integer 1 0 2^31
        lfu-log-factor integer 10 0 2^31
        maxmemory-clients share 0
        maxmemory-eviction-tenacity integer 10 0 100
        maxmemory-samples integer 5 1 64
    """,
    "the event loop decides": """
        lookahead integer 16 1 2^31
        max-new-connections-per-cycle integer 10 1 1000
        max-new-tls-connections-per-cycle integer 1 1 1000
    """,
    "replication does without it": """
        propagation-error-behavior choice ignore ignore|panic|panic-on-replicas
        repl-backlog-ttl integer 3600 0
        repl-disable-tcp-nodelay boolean no
        repl-diskless-load choice disabled disabled|on-empty-db|swapdb|flushdb
        repl-diskless-sync boolean yes
        repl-diskless-sync-delay integer 5 0 2^31
        repl-diskless-sync-max-replicas integer 0 0 2^31
        repl-ping-replica-period integer 10 1 2^31
        repl-ping-slave-period integer 10 1 2^31
        replica-announced boolean yes
        replica-ignore-disk-write-errors boolean no
        replica-ignore-maxmemory boolean yes
        replica-lazy-flush boolean no
        slave-ignore-maxmemory boolean yes
        slave-lazy-flush boolean no
    """,
    "a slow replica is cut at a fixed limit": """
        replica-full-sync-buffer-limit memory 0
    """,
    "logs go to the standard error stream or to logfile": """
        syslog-enabled boolean! no
        syslog-facility choice! local0 user|local0|local1|local2|local3|local4|local5|local6|local7
        syslog-ident text! redis
    """,
    "the log says what it says": """
        hide-user-data-from-log boolean no
    """,
    "data comes from the journal": """
        preload-file preload! -
    """,
    "TLS is that of Python: TLSv1.2 and TLSv1.3, with its ciphers": """
        tls-auth-clients-user choice off CN|off
        tls-ciphers text -
        tls-ciphersuites text -
        tls-client-cert-file text -
        tls-client-key-file text -
        tls-client-key-file-pass text -
        tls-dh-params-file text -
        tls-expected-peer-name text -
        tls-prefer-server-ciphers boolean no
        tls-session-cache-size integer 20480 0 2^31
        tls-session-cache-timeout integer 300 0 2^31
        tls-session-caching boolean yes
    """,
}

# Options of other versions, whose values nothing checks.
_OTHER_VERSIONS: Final = {
    "the journal does so by itself": "aof-disable-auto-gc",
    "one thread executes commands": "io-threads-do-reads",
    "there are no modules": "loadmodule",
    "commands have the names that Redis gives them": "rename-command",
}

# Option -> what would be wrong if another value than the default were passed over.
_UNSAFE: Final = {
    "cluster-enabled": "there is no cluster",
    "hide-user-data-from-log": "lines of the log name keys and users",
    "preload-file": "nothing is loaded but the journal",
    "rename-command": "commands cannot be renamed, and whoever relies on it is not protected",
    "tls-auth-clients-user": "certificates name no users, and clients would have the rights of the default user",
    "tls-expected-peer-name": "the name in a primary's certificate would not be checked",
}

_SEVERAL_WORDS: Final = frozenset(
    ("limits", "scores", "percentiles", "saves")
)  # kinds whose value may be written as several words


class Foreign(NamedTuple):
    """An option that streamd does not have.

    option: its values, and its default in Redis; None if nothing checks them. reason: why it is passed over. danger:
    why another value than the default must not be passed over; None if it may be.
    """

    option: Option | None
    reason: str
    danger: str | None

    def is_default(self, words: list[str]) -> bool:
        """Return whether a line says what is so anyway. Raises: ConfigError for values that Redis refuses."""
        if self.option is None:
            return False
        if self.option.kind in _SEVERAL_WORDS:
            words = [" ".join(words)]
        if len(words) != 1:
            raise ConfigError("wrong number of arguments")
        return self.option.parse(words[0]) == self.option.default


def _foreign(reason: str, line: str) -> tuple[str, Foreign]:
    name, kind, *rest = line.split()
    is_list = kind.rstrip("!") in {*_SEVERAL_WORDS, "text"}
    text, *bounds = [" ".join(rest)] if is_list else rest
    number = {"2^31": 2**31 - 1, "2^32": 2**32 - 1}
    option = Option(name, kind.rstrip("!"), "", "", mutable=not kind.endswith("!"))
    if option.kind == "choice":
        option = option._replace(choices=tuple(bounds[0].split("|")))
    elif bounds:
        least, *most = [number.get(word) or int(word) for word in bounds]
        option = option._replace(minimum=least, maximum=most[0] if most else 2**63 - 1)
    option = option._replace(default=option.parse("" if text == "-" else text))
    return name, Foreign(option, reason, _UNSAFE.get(name))


FOREIGN: Final = {
    **dict(_foreign(reason, line) for reason, lines in _TABLE.items() for line in lines.split("\n") if line.strip()),
    **{name: Foreign(None, reason, _UNSAFE.get(name)) for reason, name in _OTHER_VERSIONS.items()},
}

# Options that streamd has, but with only one value; others are passed over: name -> (the value, the reason).
KEPT: Final = {
    "aof-use-rdb-preamble": ("no", "the base is made of commands, too"),
    "aof-load-truncated": ("yes", "a torn end is cut off, damage before it refuses the start"),
    "save": ("", "data is saved by the journal alone: appendonly yes"),
}
