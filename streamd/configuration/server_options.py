"""The configuration: every option once, for flags, CONFIG GET and CONFIG SET."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from streamd.base.errors import CommandError
from streamd.base.limits import DATABASES_MAX, STREAM_MEMORY_MIN
from streamd.base.log import log
from streamd.configuration.foreign import FOREIGN
from streamd.configuration.option import ConfigError, Option, Value
from streamd.configuration.replication_options import REPLICATION_ALIASES, REPLICATION_OPTIONS

# What clients and scripts for Redis set: up to where it keeps values in its compact forms.
_COMPACT_FORMS: Final = tuple(
    Option(name, kind, default, "what OBJECT ENCODING calls compact; values are kept in one form", minimum, maximum)
    for name, kind, default, minimum, maximum in (
        ("hash-max-listpack-entries", "integer", 512, 0, 2**63 - 1),
        ("hash-max-listpack-value", "memory", 64, 0, 2**63 - 1),
        ("set-max-intset-entries", "integer", 512, 0, 2**63 - 1),
        ("set-max-listpack-entries", "integer", 128, 0, 2**63 - 1),
        ("set-max-listpack-value", "memory", 64, 0, 2**63 - 1),
        ("zset-max-listpack-entries", "integer", 128, 0, 2**63 - 1),
        ("zset-max-listpack-value", "memory", 64, 0, 2**63 - 1),
        ("list-max-listpack-size", "integer", -2, -(2**31), 2**31 - 1),
        ("list-compress-depth", "integer", 0, 0, 2**31 - 1),
    )
)

OPTIONS: Final[dict[str, Option]] = {
    option.name: option
    for option in (
        Option(
            "port",
            "integer",
            6379,
            "TCP port; 0: any free port, which the server prints, but no port if tls-port or unixsocket is set",
            0,
            65535,
            mutable=False,
            flag=True,
        ),
        Option("tls-port", "integer", 0, "TCP port for TLS; 0: none", 0, 65535, mutable=False, flag=True),
        Option("tls-cert-file", "text", "", "server certificate, then intermediate certificates, as PEM", flag=True),
        Option("tls-key-file", "text", "", "private key of the server certificate, as PEM", flag=True),
        Option("tls-key-file-pass", "text", "", "password of an encrypted tls-key-file"),
        Option("tls-ca-cert-file", "text", "", "CA certificates for checking client certificates, as PEM", flag=True),
        Option("tls-ca-cert-dir", "text", "", "directory with CA certificates for checking client certificates"),
        Option(
            "tls-auth-clients",
            "choice",
            "yes",
            "yes: clients need a certificate; optional: they may show one; no: none is requested",
            choices=("yes", "no", "optional"),
            flag=True,
        ),
        Option("tls-protocols", "protocols", "", "accepted versions of TLS; none: 1.2 and 1.3", flag=True),
        Option("unixsocket", "text", "", "path of a Unix socket to listen on", mutable=False, flag=True),
        Option(
            "unixsocketperm",
            "octal",
            0o600,
            "permissions of the Unix socket",
            0,
            0o777,
            mutable=False,
            flag=True,
        ),
        Option(
            "bind",
            "text",
            "127.0.0.1 -::1",
            "addresses to listen on, separated by spaces; one with a leading - may be unavailable",
            mutable=False,
            flag=True,
        ),
        Option("dir", "path", "./streamd-data", "data directory", mutable=False, flag=True),
        Option("appendonly", "boolean", True, "keep a journal in the data directory, yes or no", flag=True),
        Option(
            "appendfsync",
            "choice",
            "everysec",
            "when the journal is synced; always: before replies; everysec: once a second; no: by the operating system",
            choices=("always", "everysec", "no"),
            flag=True,
        ),
        Option(
            "appenddirname",
            "name",
            "appendonlydir",
            "directory of the journal, in the data directory",
            mutable=False,
            flag=True,
        ),
        Option(
            "appendfilename",
            "name",
            "appendonly.aof",
            "beginning of the names of the journal's files",
            mutable=False,
            flag=True,
        ),
        Option(
            "auto-aof-rewrite-percentage",
            "integer",
            100,
            "percentage of growth after which the journal is rewritten; 0: no automatic rewrite",
            0,
            2**31 - 1,
            flag=True,
        ),
        Option(
            "auto-aof-rewrite-min-size",
            "memory",
            64 * 1024 * 1024,
            "bytes up to which the journal is not rewritten automatically",
            flag=True,
        ),
        Option("aof-use-rdb-preamble", "boolean", False, "only no: the base is made of commands, too"),
        Option("aof-load-truncated", "boolean", True, "only yes: a torn end is cut off"),
        Option("requirepass", "text", "", "password of the user default, for AUTH and HELLO", flag=True),
        Option(
            "aclfile", "text", "", "users; ACL LOAD reads this file and ACL SAVE writes it", mutable=False, flag=True
        ),
        Option(
            "acl-pubsub-default",
            "choice",
            "resetchannels",
            "channels of new users; allchannels: all; resetchannels: none",
            choices=("allchannels", "resetchannels"),
            flag=True,
        ),
        Option("acllog-max-len", "integer", 128, "entries the log of refusals keeps", 0),
        Option("protected-mode", "boolean", True, "accept only local clients until a password is set", flag=True),
        Option("maxclients", "integer", 10_000, "largest number of connected clients", 1, 2**32 - 1, flag=True),
        Option("databases", "integer", 16, "number of databases", 1, DATABASES_MAX, mutable=False, flag=True),
        Option(
            "loglevel",
            "choice",
            "notice",
            "least severe lines to log: debug, verbose, notice, warning or nothing",
            choices=("debug", "verbose", "notice", "warning", "nothing"),
            flag=True,
        ),
        Option(
            "timeout",
            "integer",
            0,
            "seconds after which an idle client is disconnected; 0: never",
            0,
            2**31 - 1,
            flag=True,
        ),
        Option("tcp-keepalive", "integer", 300, "seconds between keep-alive probes", 0, 2**31 - 1),
        Option("tcp-backlog", "integer", 511, "connections that may wait to be accepted", 0, 2**31 - 1, mutable=False),
        Option(
            "stream-node-max-entries", "integer", 100, "most entries in a segment; ~ trims whole segments", 0, flag=True
        ),
        Option("stream-node-max-bytes", "memory", 4096, "accepted, but without effect", flag=True),
        Option(
            "stream-idmp-duration",
            "integer",
            100,
            "seconds for which a new stream remembers an idempotent ID",
            1,
            86_400,
            flag=True,
        ),
        Option(
            "stream-idmp-maxsize",
            "integer",
            100,
            "idempotent IDs that a new stream remembers for each producer",
            1,
            10_000,
            flag=True,
        ),
        Option("notify-keyspace-events", "events", "", "classes of keyspace events that are published", flag=True),
        Option(
            "slowlog-log-slower-than",
            "integer",
            10_000,
            "microseconds above which a command is added to the slow log; negative: none is",
            -1,
            flag=True,
        ),
        Option("slowlog-max-len", "integer", 128, "entries that the slow log keeps", 0, flag=True),
        Option("slowlog-entry-max-argc", "integer", 32, "words that an entry of the slow log keeps", 2, 2**31 - 1),
        Option(
            "slowlog-entry-max-string-len", "integer", 128, "bytes of a word that an entry of the slow log keeps", 1
        ),
        Option("proto-max-bulk-len", "memory", 512 * 1024 * 1024, "largest string in a request", 1024 * 1024),
        Option(
            "client-query-buffer-limit", "memory", 1024 * 1024 * 1024, "most input buffered for one client", 1024 * 1024
        ),
        Option("hz", "integer", 10, "background runs a second", 1, 500),
        Option("maxmemory", "memory", 0, "bytes above which commands that add data fail; 0: no limit", flag=True),
        Option("maxmemory-policy", "choice", "noeviction", "only noeviction", choices=("noeviction",)),
        Option(
            "busy-reply-threshold",
            "integer",
            5_000,
            "milliseconds of a script after which other clients get BUSY errors; 0: never",
            flag=True,
        ),
        Option(
            "lua-memory-max", "memory", 128 * 1024 * 1024, "bytes of memory for a script", 2 * 1024 * 1024, flag=True
        ),
        Option("logfile", "path", "", "file for the log; none: standard error", mutable=False, flag=True),
        Option(
            "log-format",
            "choice",
            "text",
            "text: lines for people; json: a JSON object in each line",
            choices=("text", "json"),
            mutable=False,
            flag=True,
        ),
        Option(
            "admin-port",
            "integer",
            0,
            "port for /metrics, /healthz and /readyz; 0: none",
            0,
            65535,
            mutable=False,
            flag=True,
        ),
        Option("admin-bind", "text", "127.0.0.1", "addresses for the admin-port", mutable=False, flag=True),
        Option(
            "latency-monitor-threshold",
            "integer",
            0,
            "milliseconds from which LATENCY records a command; 0: none",
            flag=True,
        ),
        Option(
            "stream-memory",
            "memory",
            0,
            "bytes of memory for the entries of streams, older ones are on the disk alone; 0: all are in memory",
            STREAM_MEMORY_MIN,
            flag=True,
            or_zero=True,
        ),
        Option(
            "stream-segment-compression",
            "choice",
            "none",
            "zstd: compress further what stream-memory moves to the disk (needs zstandard); none: do not",
            choices=("none", "zstd"),
            flag=True,
        ),
        Option("latency-tracking", "boolean", False, "measure commands for LATENCY HISTOGRAM and INFO", flag=True),
        Option(
            "tracking-table-max-keys",
            "integer",
            1_000_000,
            "of so many keys it is noted which clients keep what they read of them (CLIENT TRACKING); 0: any number",
        ),
        Option("save", "saves", "", "accepted and empty: there are no RDB snapshots"),
        Option("replicaof", "text", "", "HOST PORT of the primary that this server copies", mutable=False, flag=True),
        Option("replica-read-only", "choice", "yes", "a replica takes no writes", choices=("yes",), flag=True),
        *(Option(*row[:6], flag=row[6]) for row in REPLICATION_OPTIONS),
        *_COMPACT_FORMS,
    )
}

# What nobody is shown but who asks for it by CONFIG GET.
SECRET_OPTIONS: Final = frozenset({"requirepass", "masterauth", "tls-key-file-pass"})

# Other names of options, as Redis has them.
ALIASES: Final = {
    "lua-time-limit": "busy-reply-threshold",
    **REPLICATION_ALIASES,
    **{
        option.name.replace("listpack", "ziplist"): option.name
        for option in _COMPACT_FORMS
        if "listpack" in option.name and not option.name.startswith("set-")
    },
}


# Names of files, which Redis does not let clients choose.
_PROTECTED: Final = frozenset(("dir", "dbfilename"))


def meant(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean 'port'?" for the most similar of some names, "" where none is similar."""
    import difflib  # not at a start: nobody has made a mistake yet

    near = difflib.get_close_matches(name.lower(), [*names], 1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _refusal(name: str, reason: str) -> CommandError:
    return CommandError(f"ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")


class Config:
    """The options' current values.

    `on_change(name, action)` registers an action for each change of an option by CONFIG SET. path: the file that was
    read at the start, "" for none. given: the options that were given at the start, whatever their values. changed: the
    options that CONFIG SET has set. on_rewrite(users): writes these options into the file, and changed users (name ->
    rules, None for a removed user).
    users: the name and the rules of each user in the file. flag_users: the same of each user from a flag.
    """

    def __init__(self, **values: Value) -> None:
        """Take initial values with underscores for dashes, `stream_idmp_duration=5`. Raises: ConfigError."""
        self.values: dict[str, Value] = {name: option.default for name, option in OPTIONS.items()}
        self.users: list[list[bytes]] = []
        self.flag_users: list[list[bytes]] = []
        self._actions: dict[str, list[Callable[[], None]]] = {}
        self.path = ""
        self.given: set[str] = set()
        self.changed: dict[str, None] = {}
        self.on_rewrite: Callable[[Mapping[bytes, bytes | None]], None] | None = None
        for name, value in values.items():
            option = OPTIONS.get(name.replace("_", "-"))
            if option is None:
                near = meant(name, [one.replace("-", "_") for one in OPTIONS])
                raise ConfigError(f"unknown option '{name}'{near}")
            try:
                self.values[option.name] = option.parse(option.format(value))
                self.given.add(option.name)
            except ConfigError as error:
                said = "(its value)" if option.name in SECRET_OPTIONS else repr(value)
                raise ConfigError(f"{name}={said}: {error}")

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def integer(self, name: str) -> int:
        """Return the value of an integer, memory or boolean option."""
        return int(self.values[name])

    def text(self, name: str) -> str:
        """Return the value of a text or choice option."""
        return str(self.values[name])

    def on_change(self, name: str, action: Callable[[], None]) -> None:
        """Call `action` after CONFIG SET changed option `name`; its ConfigError undoes that CONFIG SET."""
        self._actions.setdefault(name, []).append(action)

    def texts(self) -> dict[str, str]:
        """Return name -> text of all options, under their other names as well."""
        texts = {name: OPTIONS[name].shown(value) for name, value in self.values.items()}
        return {**texts, **{alias: texts[name] for alias, name in ALIASES.items()}}

    def set_all(self, pairs: list[tuple[str, str]]) -> None:
        """Set several options, all or none. Raises: CommandError with Redis's texts."""
        parsed: dict[str, Value] = {}
        passed_over: dict[str, str] = {}
        for given, text in pairs:
            option = OPTIONS.get(ALIASES.get(given.lower(), given.lower()))
            if option is None and given.lower() in FOREIGN:
                option = FOREIGN[given.lower()].option
            if option is None:
                raise CommandError(f"ERR Unknown option or number of arguments for CONFIG SET - '{given}'")
            reason = None
            if option.name in parsed or option.name in passed_over:
                reason = "duplicate parameter"
            elif not option.mutable:
                kind = "protected" if option.name in _PROTECTED else "immutable"
                reason = f"can't set {kind} config"
            else:
                try:
                    value = option.parse(text)
                    if option.name in OPTIONS:
                        parsed[option.name] = value
                    elif value != option.default and FOREIGN[option.name].danger is not None:
                        reason = f"it cannot be passed over: {FOREIGN[option.name].danger}"
                    else:
                        passed_over[option.name] = "" if value == option.default else FOREIGN[option.name].reason
                except ConfigError as error:
                    reason = str(error)
            if reason is not None:
                raise _refusal(given.lower(), reason)
        before = {name: self.values[name] for name, value in parsed.items() if self.values[name] != value}
        self.values.update(parsed)
        done: list[Callable[[], None]] = []
        for name in before:
            for action in self._actions.get(name, ()):
                try:
                    action()
                except ConfigError as error:
                    self.values.update(before)
                    for again in done:
                        again()
                    raise _refusal(name, str(error))
                done.append(action)
        self.changed.update(dict.fromkeys(parsed))
        for name, why in passed_over.items():
            if why:
                log.info("config-passed-over", "CONFIG SET passed over: %s: %s", name, why)

    def rewrite(self, users: Mapping[bytes, bytes | None]) -> None:
        """Write the options that CONFIG SET has changed, and users, into the file. Raises: CommandError with Redis's
        texts.

        users: see `on_rewrite`.
        """
        if self.on_rewrite is None:
            raise CommandError("ERR The server is running without a config file")
        self.on_rewrite(users)
        kept = [words for words in self.users if words[0] not in users]
        self.users = kept + [[name, *rules.split(b" ")] for name, rules in users.items() if rules is not None]
