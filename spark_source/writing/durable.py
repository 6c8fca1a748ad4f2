"""Waits until a connection's writes are as durable as the user asks for: on disk, or on replicas."""

from dataclasses import dataclass

from spark_source.connecting.connection import Server, Session, Word
from spark_source.connecting.stream_info import as_dict
from spark_source.errors import NotDurable, OptionError
from spark_source.noting.markers import marker_key
from spark_source.settings.connection_options import ConnectionOptions
from spark_source.settings.options import WriteOptions

WAIT_MS = 5_000  # of one WAIT; behind a failover another node has to be asked, and what it lacks to be sent again


@dataclass(frozen=True)
class Durability:
    """How to ask whether a connection's writes are durable. command: WAIT, WAITAOF, or empty for not at all."""

    text: str = "none"
    command: str = ""
    replicas: int = 0

    def wait(self, session: Session, stream: str, options: ConnectionOptions) -> None:
        """Return once everything that this connection has written or read is durable.

        WAIT and WAITAOF cover the connection's last write, so this makes one. Then replies about other connections'
        writes (a committed batch, a known name) are covered, too. A new connection does not cover the writes of an
        earlier one: send these again first.

        Raises: NotDurable after the timeout, redis.RedisError.
        """
        if not self.command:
            return
        limit_ms = max(1, min(WAIT_MS, round(options.timeout_s * 800)))
        wait: list[Word] = ["WAIT", self.replicas, limit_ms]
        if self.command == "WAITAOF":
            wait = ["WAITAOF", 1, 0, limit_ms]
        wrote, reply = session.pipeline([["HSET", marker_key(stream), "waited", "1"], wait])
        for one in (wrote, reply):
            if isinstance(one, Exception):
                raise one
        count, wanted = (reply[0], 1) if isinstance(reply, list) else (reply, self.replicas)
        if not isinstance(count, int) or count < wanted:
            raise NotDurable(
                f"durability={self.text} was not reached for stream {stream} within {options.timeout_s:.0f} s: "
                "check the server's disk and replicas, or raise timeout"
            )


def choose_durability(server: Server, options: WriteOptions) -> Durability:
    """Return how to ask for durability. Raises: OptionError when the server cannot promise it."""
    text = options.durability
    if text == "none":
        return Durability()
    if text.startswith("replicas:"):
        wanted = int(text.partition(":")[2])
        _check_replicas(server, wanted)
        return Durability(text, "WAIT", wanted)
    if server.has_command("WAITAOF"):
        server.on_every_node(lambda session: _check_journal(session, server.options))
        return Durability(text, "WAITAOF")

    def settings(session: Session) -> dict[str, object]:
        found: dict[str, object] = {}
        for name in ("appendonly", "appendfsync"):
            found.update(as_dict(session.call("CONFIG", "GET", name)))
        return found

    if all(one == {"appendonly": b"yes", "appendfsync": b"always"} for one in server.on_every_node(settings)):
        return Durability(text)  # its replies leave after the fsync
    raise OptionError(
        f"durability=fsync needs appendonly yes and appendfsync always on {server.options.endpoint}: change its "
        "configuration, or set durability=none"
    )


def _check_journal(session: Session, options: ConnectionOptions) -> None:
    import redis

    try:
        session.call("WAITAOF", 1, 0, 1)
    except redis.ResponseError as error:
        if "appendonly is disabled" not in str(error):
            raise
        raise OptionError(
            f"durability=fsync needs a journal, and {options.endpoint} has none: set appendonly yes there, or "
            "durability=none here"
        ) from None


def _check_replicas(server: Server, wanted: int) -> None:
    """Check that each node has enough replicas; where INFO is refused, WAIT will tell.

    After a failover replicas come back: they are waited for until `timeout`. A node that has run for longer and never
    had one is refused at once. Raises: OptionError, NotDurable.
    """
    import redis

    def check(session: Session) -> None:
        try:
            replies = [session.call("INFO", section) for section in ("replication", "server")]
        except redis.exceptions.NoPermissionError:
            return
        lines = [line for reply in replies if isinstance(reply, bytes) for line in reply.splitlines()]
        found = dict(line.partition(b":")[::2] for line in lines)
        connected = int(found.get(b"connected_slaves", b"0"))
        if connected < wanted:
            is_new = int(found.get(b"uptime_in_seconds", b"0")) <= server.options.timeout_s
            may_come = is_new or found.get(b"repl_backlog_active") == b"1"
            raise (NotDurable if may_come else OptionError)(
                f"durability=replicas:{wanted} needs {wanted} connected replicas, {server.options.endpoint} has "
                f"{connected}: connect replicas, or ask for fewer"
            )

    server.on_every_node(check)
