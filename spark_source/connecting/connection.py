"""Connections to the server: a pool per process, never pickled, which waits for a server that is away for a while."""

import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from spark_source.connecting import tls
from spark_source.connecting.clients import cluster_client, single_client
from spark_source.connecting.failures import explained, first_line, given_up, is_broken, is_passing
from spark_source.connecting.learned import Learned, keep_nodes, kept_nodes, nodes_of
from spark_source.connecting.sentinels import master_address
from spark_source.errors import NotDurable, StreamdError
from spark_source.settings.connection_options import ConnectionOptions

if TYPE_CHECKING:
    import redis

T = TypeVar("T")

Reply: TypeAlias = "bytes | int | list[Reply] | None"
"""A reply as RESP2 has it; errors are raised, or stand in the list of `Session.pipeline`."""

Word: TypeAlias = "str | bytes | int"

log = logging.getLogger("spark_source")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
ASK_SENTINELS_S = 2.0  # for so long at most a server that is no master any more is read from
IDLE_S = 30.0  # a pooled connection older than this is tried before it is used: workers live long and sleep long

_pools: dict[tuple[int, ConnectionOptions], "_Pool"] = {}


class _Pool:
    """The clients of one process for one server or cluster."""

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options
        self.single: redis.Redis | None = None
        self.cluster: redis.RedisCluster | None = None
        self.commands: dict[str, bool] = {}
        self.used_at = time.monotonic()
        self.master: tuple[str, int] | None = None
        self.asked_at = 0.0
        self.worked = False
        self.learned: Learned = ()

    def leave_old_master(self) -> None:
        """Drop the connections when Sentinels name another master; asked every few seconds.

        A former master goes on answering with its old data until it is told to stop.
        """
        now = time.monotonic()
        if self.master is None or self.single is None or now - self.asked_at < ASK_SENTINELS_S:
            return
        self.asked_at = now
        try:
            named = master_address(self.options)
        except Exception as error:  # no Sentinel answers, or a failover goes on: the connection itself will tell
            log.debug("asking Sentinels: %s", error)
            return
        if named != self.master:
            log.warning("%s is now %s:%d", self.options.endpoint, *named)
            self.forget()

    def client_for(self, key: str | None, node: str | None = None) -> "redis.Redis":
        """Return the client of the node that holds `key`, or has the name `node`; connects when needed.

        Raises: redis.RedisError.
        """
        if self.single is None and self.cluster is None:
            self._connect()
        if self.cluster is None:
            assert self.single is not None
            return self.single
        if node is not None:
            chosen = self.cluster.get_node(node_name=node)
        else:
            chosen = self.cluster.get_node_from_key(key) if key is not None else self.cluster.get_default_node()
        return self.cluster.get_redis_connection(chosen)

    def nodes(self) -> list[str | None]:
        """Return the names of the nodes that hold keys; of a single server just None. Raises: redis.RedisError."""
        self.client_for(None)
        return [None] if self.cluster is None else [node.name for node in self.cluster.get_primaries()]

    def forget(self) -> None:
        """Drop every connection, and the map of a cluster's nodes."""
        for client in (self.single, self.cluster):
            if client is not None:
                try:
                    client.close()
                except Exception:  # it is broken already; closing it better is not possible
                    log.debug("closing a broken client", exc_info=True)
        self.single = self.cluster = None
        self.commands.clear()

    def known(self) -> Learned:
        """Return the nodes that the cluster has named, to this process or to another one."""
        options = self.options
        return () if options.cluster is False or options.master is not None else self.learned or kept_nodes(options)

    def _ways(self) -> Iterator[tuple[str, int, str | None]]:
        """Yield the nodes to try: those of the options, and, should all be gone, those that the cluster has named."""
        for host, port in self.options.nodes:
            yield host, port, None
        for host, port, name in self.known():
            if (host, port) not in self.options.nodes:
                yield host, port, name

    def _connect(self) -> None:
        options = self.options
        if options.master is not None:
            self.master = master_address(options)
            self.single = single_client(options, *self.master, options.db)
            self.asked_at = time.monotonic()
            return
        import redis

        broken: Exception | None = None
        for host, port, name in self._ways():
            single = single_client(options, host, port, options.db)
            try:
                if name is not None and (host, port, name) not in nodes_of(single, host):
                    raise redis.ConnectionError(f"{host}:{port} is not the node any more that it was")
                if options.cluster is False or not _is_cluster(single, options):
                    if len(options.nodes) > 1:
                        single.ping()  # no answer: the next node's turn
                    self.single = single
                    return
                self.cluster = _map_of(single, options, host, port)
                self.learned = nodes_of(single, host)
                single.close()
                keep_nodes(options, self.learned)
                return
            except Exception as error:
                single.close()
                if name is None and not is_passing(error):
                    raise
                broken = error if name is None else broken
        assert broken is not None
        raise broken


def _is_cluster(client: "redis.Redis", options: ConnectionOptions) -> bool:
    import redis

    if options.cluster:
        return True
    try:
        return bool(client.info("cluster").get("cluster_enabled", 0))
    except redis.ResponseError:  # not allowed to ask: then it is one node until `cluster=true` says otherwise
        return False


def _map_of(single: "redis.Redis", options: ConnectionOptions, host: str, port: int) -> "redis.RedisCluster":
    import redis

    try:
        return cluster_client(options, host, port)
    except redis.exceptions.RedisClusterException:
        single.execute_command("CLUSTER SLOTS")  # whatever the node answers to this, redis-py says it is no cluster
        raise


class Session:
    """One connection, for calls that belong together (WATCH, MULTI, WAIT). Replies are those of RESP2.

    Raises (every method): redis.RedisError; a lost connection is dropped and the next session gets a new one.
    """

    def __init__(self, connection: "redis.connection.AbstractConnection") -> None:
        self.connection = connection
        self.closed = False

    def call(self, *words: Word) -> Reply:
        """Send one command and return its reply."""
        with self._guard():
            self.connection.send_command(*words)
            return self.connection.read_response()

    def send(self, *words: Word) -> None:
        """Send one command; its reply is read by `receive` later."""
        with self._guard():
            self.connection.send_command(*words)

    def receive(self) -> Reply:
        with self._guard():
            return self.connection.read_response()

    def pipeline(self, commands: Sequence[Sequence[Word]]) -> "list[Reply | Exception]":
        """Send several commands at once; an error reply stands in its place as an exception."""
        with self._guard():
            return self.exchange(self.connection.pack_commands(commands), len(commands))

    def exchange(self, packed: Sequence[bytes], count: int) -> "list[Reply | Exception]":
        """Send `count` encoded commands, and return their replies."""
        import redis

        replies: list[Reply | Exception] = []
        with self._guard():
            self.connection.send_packed_command(packed)
            read = self.connection.read_response
            while len(replies) < count:
                try:
                    replies.append(read())
                except redis.ResponseError as error:
                    replies.append(error)
                self._take_received(replies, count)
        return replies

    def _take_received(self, replies: "list[Reply | Exception]", count: int) -> None:
        """Add the replies that have arrived already, up to `count` in all.

        `read_response` takes 0.7 us a reply, a good part of the cost of a written row; the parser below it 0.1. If
        redis-py has other internals than expected this does nothing, and each reply is read the long way.
        """
        import redis

        try:
            from redis._parsers.hiredis import NOT_ENOUGH_DATA
        except ImportError:
            return
        reader = getattr(getattr(self.connection, "_parser", None), "_reader", None)
        take = getattr(reader, "gets", None)
        if take is None:
            return
        while len(replies) < count:
            reply = take(False)
            if reply is NOT_ENOUGH_DATA:
                return
            if isinstance(reply, redis.ConnectionError):
                raise reply
            replies.append(reply)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        import redis

        try:
            yield
        except redis.ResponseError:
            raise
        except BaseException:  # also a task that is killed: half a reply may still be on its way
            self.closed = True
            self.connection.disconnect()
            raise


@dataclass
class Patience:
    """How long and how often this process has waited for the server."""

    waited_s: float = 0.0
    retries: int = 0


@dataclass(frozen=True)
class Server:
    """The way to a server; may be pickled, since it holds only options and a cluster's nodes."""

    options: ConnectionOptions
    patience: Patience = field(default_factory=Patience, compare=False)

    def __reduce__(self) -> "tuple[Callable[..., Server], tuple[ConnectionOptions, Patience, Learned]]":
        return _unpickled, (self.options, self.patience, self._pool().known())

    @contextmanager
    def session(self, key: str | None = None, node: str | None = None) -> Iterator[Session]:
        """Lend a connection to the node that holds `key`, or has the name `node`. Raises: redis.RedisError."""
        import redis

        pool = self._pool()
        if time.monotonic() - pool.used_at > IDLE_S and pool.single is not None:
            pool.single.connection_pool.disconnect(inuse_connections=False)
        pool.used_at = time.monotonic()
        pool.leave_old_master()
        try:
            connections = pool.client_for(key, node).connection_pool
            connection = connections.get_connection()
        except Exception as error:
            if is_passing(error) or isinstance(error, redis.RedisError):
                pool.forget()
            raise
        session = Session(connection)
        try:
            yield session
        except (redis.exceptions.AskError, redis.exceptions.ClusterError, redis.ReadOnlyError, NotDurable):
            # Another node may be the master by now, which nothing else tells those that only ask this one.
            connections.release(connection)
            pool.forget()
            raise
        except BaseException as error:
            if not isinstance(error, redis.ResponseError):
                connection.disconnect()
            connections.release(connection)
            raise
        else:
            pool.worked = True
            connections.release(connection)

    def patiently(self, work: Callable[[Session], T], key: str | None = None, patience_s: float | None = None) -> T:
        """Return `work(session)`, repeated with growing pauses while the server is away; for work that may run twice.

        Raises: Unreachable after `timeout` (or `patience_s`); the server's own errors as StreamdError.
        """

        def once() -> T:
            with self.session(key) as session:
                return work(session)

        return self._again_and_again(once, patience_s)

    def by_node(self, keys: Sequence[str]) -> list[list[str]]:
        """Return keys in groups, each of one node. Raises: as `patiently`."""

        def once() -> list[list[str]]:
            self._pool().client_for(None)
            cluster = self._pool().cluster
            if cluster is None:
                return [list(keys)]
            groups: dict[str, list[str]] = {}
            for key in keys:
                groups.setdefault(cluster.get_node_from_key(key).name, []).append(key)
            return list(groups.values())

        return self._again_and_again(once, None)

    def on_every_node(self, work: Callable[[Session], T]) -> list[T]:
        """Return `work(session)` for each node that holds keys; otherwise as `patiently`."""

        def once() -> list[T]:
            made = []
            for node in self._pool().nodes():
                with self.session(node=node) as session:
                    made.append(work(session))
            return made

        return self._again_and_again(once, None)

    def _again_and_again(self, once: Callable[[], T], patience_s: float | None) -> T:
        tries = Tries(self, patience_s)
        tries.began = time.monotonic()
        while True:
            try:
                return once()
            except Exception as error:
                tries.failed(error)

    def pause(self, pause_s: float) -> float:
        """Wait about `pause_s`, count it, and return the next, longer pause."""
        wait_s = pause_s * random.uniform(0.75, 1.25)
        time.sleep(wait_s)
        self.patience.waited_s += wait_s
        return min(pause_s * 2, LONGEST_PAUSE_S)

    @property
    def has_worked(self) -> bool:
        """Whether this process has exchanged anything with the server."""
        return self._pool().worked

    def has_command(self, name: str) -> bool:
        """Return whether the server knows a command and this user may call it; asked once per process.

        `name` must need arguments: where COMMAND is forbidden, the error for missing arguments tells. Raises: as
        `patiently`.
        """
        known = self._pool().commands
        if name not in known:
            known[name] = self.patiently(lambda session: _knows(session, name))
        return known[name]

    def _pool(self) -> _Pool:
        place = (os.getpid(), self.options)
        if place not in _pools:
            for other in [other for other in _pools if other[0] != place[0]]:
                del _pools[other]  # a fork's copies of its parent's sockets: not ours to use
            _pools[place] = _Pool(self.options)
        return _pools[place]


def _unpickled(options: ConnectionOptions, patience: Patience, learned: Learned) -> Server:
    """Return a server in another process, maybe on another machine, which knows the nodes that the first one knew."""
    server = Server(options, patience)
    pool = server._pool()
    pool.learned = pool.learned or learned
    return server


class Tries:
    """Decides whether failed work is tried again: until `timeout` (or `patience_s`) has passed since the first of the
    failures in a row.
    """

    def __init__(self, server: Server, patience_s: float | None = None) -> None:
        timeout_s = server.options.timeout_s
        self.server = server
        self.limit_s = timeout_s if patience_s is None else min(patience_s, timeout_s)
        self.worked()

    def worked(self) -> None:
        """Note a success, which ends a row of failures."""
        self.began: float | None = None
        self.pause_s = FIRST_PAUSE_S

    def failed(self, error: Exception) -> None:
        """Wait before the next try. Raises: StreamdError after the last try; any error that is no failure of the
        server's.
        """
        server, options = self.server, self.server.options
        if not is_passing(error):
            raise explained(error, options) from None
        is_first = self.pause_s == FIRST_PAUSE_S
        if is_first:
            # Where it has worked before TLS is not the reason, and to ask Redis takes two seconds.
            doubtful = is_broken(error) and not server.has_worked
            told = tls.trouble(first_line(error), options) if doubtful else None
            if told is not None:
                raise StreamdError(told) from None
        now = time.monotonic()
        self.began = now if self.began is None else self.began
        waited_s = now - self.began
        if waited_s + self.pause_s > self.limit_s:
            raise given_up(error, options, waited_s) from None
        if is_first:
            log.warning("waiting for %s: %s", options.endpoint, first_line(error))
        server.patience.retries += 1
        self.pause_s = server.pause(self.pause_s)


def _knows(session: Session, name: str) -> bool:
    import redis

    try:
        reply = session.call("COMMAND", "INFO", name)
        return isinstance(reply, list) and len(reply) == 1 and bool(reply[0])
    except redis.ResponseError:
        pass
    try:
        session.call(name)
    except redis.ResponseError as error:
        return "wrong number of arguments" in str(error)
    return True
