"""Compares the states of two running servers, a primary and its replica for instance, over the protocol."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamd.base.failure import EXIT_ADDRESS, EXIT_USAGE, Failure
from streamd.checking.compared_values import differences
from streamd.checking.large_streams import Large, read_large
from streamd.checking.large_streams import differences as differences_of_large
from streamd.clients.remote_journal import SourceError, UrlError, connect
from streamd.clients.server_url import without_password
from streamd.rdb.bytes import BadData, BadFooter

if TYPE_CHECKING:
    import redis

# So many keys are asked for at once, but not more than so many bytes of values, as far as the server can tell before.
_KEYS_AT_ONCE: Final = 200
_BYTES_AT_ONCE: Final = 16 * 1024 * 1024
# For so long one server may take to get what the other has.
_WAIT_S: Final = 30.0
_POLL_S: Final = 0.02
# So often the keys that were written meanwhile are looked at again.
_LOOKS_MAX: Final = 20
_PAUSE_S: Final = 0.01
_SHOWN_BYTES_MAX: Final = 64
_GROUPS: Final = "XINFO GROUPS"
# How a server says that a value is too large for DUMP.
_TOO_LARGE: Final = "more than 512 MB"
# What an entry of a stream takes in DUMP's form at least, as far as that matters here: MEMORY USAGE leaves out those
# that are not in memory.
_ENTRY_BYTES: Final = 100

# (keys done, keys in all)
Progress = Callable[[int, int], None]


class Seen(NamedTuple):
    """A key, as a server shows it. due_ms: as of PEXPIRETIME. groups: of XINFO GROUPS, of a stream alone. large: what a
    stream has that is too large for DUMP.
    """

    kind: bytes
    payload: bytes | None
    due_ms: int
    groups: list[Any]
    large: Large | None = None


class _Gone(Exception):
    """A stream, or a group, that was there a moment before."""


class Compared:
    """What a comparison has found.

    differences: a line each. unsettled: keys that were written whenever they were looked at. keys: how many were
    compared. history: the ID and the offset at the end, if both servers have them in common.
    """

    def __init__(self) -> None:
        self.differences: list[str] = []
        self.unsettled: list[str] = []
        self.keys = 0
        self.history: tuple[str, int] | None = None


class _Server:
    """One of the servers."""

    def __init__(self, url: str) -> None:
        """url: or the name of a variable that has it. Raises: Failure, here and in each method, with one line."""
        if "://" not in url:
            if url not in os.environ:
                raise Failure(EXIT_USAGE, f"check: {url} is neither a URL nor the name of a variable that is set")
            url = os.environ[url]
        self.place = without_password(url)
        try:
            self._client: redis.Redis = connect(url, "--compare")
        except UrlError as error:
            raise Failure(EXIT_USAGE, f"check: {error}")
        except SourceError as error:
            raise Failure(EXIT_ADDRESS, f"check: {self.place}: {error}")
        for name in ("XRANGE", "XPENDING", "XINFO STREAM"):
            self._client.set_response_callback(name, lambda reply, **options: reply)

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def failure(self, text: object) -> Failure:
        """Return the end of a comparison that this server does not let happen."""
        return Failure(EXIT_ADDRESS, f"check: {self.place}: {' '.join(str(text).split())}")

    def ask(self, *words: Any) -> Any:
        """Return the reply to a command."""
        return self.ask_all([words])[0]

    def ask_all(self, requests: list[tuple[Any, ...]], may_fail: tuple[str, ...] = ()) -> list[Any]:
        """Return the replies to commands. may_fail: those that may: a key may have gone a moment before."""
        import redis

        try:
            pipeline = self._client.pipeline(transaction=False)
            for words in requests:
                pipeline.execute_command(*words)
            replies: list[Any] = pipeline.execute(raise_on_error=False)
        except redis.RedisError as error:
            raise self.failure(error)
        for words, reply in zip(requests, replies, strict=True):
            if isinstance(reply, redis.exceptions.NoPermissionError):
                raise self.failure(f"{reply}; docs/operations.md has the rules of a user for this")
            if isinstance(reply, Exception) and words[0] not in may_fail:
                raise self.failure(f"{words[0]}: {reply}")
        return replies

    def info(self, section: str) -> dict[str, Any]:
        """Return a section of INFO."""
        return dict(self.ask("INFO", section))

    def now_ms(self) -> int:
        """Return the time of its clock."""
        seconds, micros = self.ask("TIME")
        return int(seconds) * 1_000 + int(micros) // 1_000

    def databases(self) -> set[int]:
        """Return the databases that have keys."""
        return {int(name.removeprefix("db")) for name in self.info("keyspace") if name.startswith("db")}

    def keys(self, database: int) -> Iterator[list[bytes]]:
        """Yield the keys of a database, some at a time: as many as their values allow to be asked for at once."""
        self.ask("SELECT", database)
        cursor = 0
        while True:
            cursor, names = self.ask("SCAN", cursor, "COUNT", _KEYS_AT_ONCE)
            some: list[bytes] = []
            room = _BYTES_AT_ONCE
            for name, size in zip(names, self._sizes(names), strict=True):
                if some and size > room:
                    yield some
                    some, room = [], _BYTES_AT_ONCE
                some.append(name)
                room -= size
            if some:
                yield some
            if int(cursor) == 0:
                return

    def _sizes(self, names: list[bytes]) -> list[int]:
        """Return about how many bytes the values of keys have."""
        sizes = [size or 0 for size in self.ask_all([("MEMORY USAGE", name) for name in names])]
        kinds = self.ask_all([("TYPE", name) for name in names])
        streams = [at for at, kind in enumerate(kinds) if kind == b"stream"]
        lengths = self.ask_all([("XLEN", names[at]) for at in streams], may_fail=("XLEN",))
        for at, length in zip(streams, lengths, strict=True):
            if isinstance(length, int):
                sizes[at] = max(sizes[at], length * _ENTRY_BYTES)
        return sizes

    def look(self, database: int, names: list[bytes]) -> dict[bytes, Seen]:
        """Return the keys as they are now."""
        kinds = self.ask_all([("SELECT", database), *[("TYPE", name) for name in names]])[1:]
        requests: list[tuple[Any, ...]] = []
        for name, kind in zip(names, kinds, strict=True):
            requests += [("DUMP", name), ("PEXPIRETIME", name)]
            requests += [(_GROUPS, name)] if kind == b"stream" else []
        replies = iter(self.ask_all(requests, may_fail=(_GROUPS, "DUMP")))
        seen = {}
        for name, kind in zip(names, kinds, strict=True):
            payload, due_ms = next(replies), int(next(replies))
            groups = next(replies) if kind == b"stream" else []
            large = None
            if isinstance(payload, Exception):
                if kind != b"stream" or _TOO_LARGE not in str(payload):
                    raise self.failure(f"DUMP: {payload}")
                payload, large = b"", self._read_large(name, groups)
            seen[name] = Seen(kind, payload, due_ms, groups, large)
        return seen

    def _read_large(self, name: bytes, groups: Any) -> Large:
        """Return what a large stream has."""

        def ask(*words: Any) -> Any:
            reply = self.ask_all([words], may_fail=(words[0],))[0]
            if isinstance(reply, Exception):
                raise _Gone
            return reply

        if isinstance(groups, Exception):
            return Large({}, [], {})
        try:
            return read_large(ask, name, [one["name"] for one in groups])
        except _Gone:
            return Large({}, [], {})

    def libraries(self) -> dict[bytes, object]:
        """Return the libraries of functions by their names, with what they are."""
        listed = [_mapping(one) for one in self.ask("FUNCTION LIST", "WITHCODE")]
        return {one[b"library_name"]: one[b"library_code"] for one in listed}


def _mapping(reply: Any) -> dict[bytes, Any]:
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


class Comparison:
    """A comparison of two servers. found: what it has found so far."""

    def __init__(self, urls: tuple[str, str], progress: Progress) -> None:
        """Raises: Failure, here and in each method."""
        self.found = Compared()
        self._progress = progress
        self._servers = _Server(urls[0]), _Server(urls[1])
        self._is_one_history = False

    def close(self) -> None:
        """End the connections."""
        for one in self._servers:
            one.close()

    def run(self) -> Compared:
        """Compare all keys and functions."""
        first, second = self._servers
        if first.info("server")["run_id"] == second.info("server")["run_id"]:
            raise Failure(EXIT_USAGE, "check: --compare: both URLs name the same server")
        self._is_one_history = len({_history(one)[0] for one in self._servers}) == 1
        self._meet(first, second)
        databases = sorted(first.databases() | second.databases())
        total = sum(self._size(database) for database in databases)
        for database in databases:
            for names in first.keys(database):
                self._compare(database, names)
                self.found.keys += len(names)
                self._progress(self.found.keys, total)
            for names in second.keys(database):
                there = first.ask_all([("SELECT", database), *[("EXISTS", name) for name in names]])[1:]
                missing = [name for name, is_there in zip(names, there, strict=True) if not is_there]
                self._compare(database, missing)
                self.found.keys += len(missing)
        self._compare_libraries()
        if self._is_one_history:
            self.found.history = self._meet(first, second)
        return self.found

    def _size(self, database: int) -> int:
        first = self._servers[0]
        return int(first.ask_all([("SELECT", database), ("DBSIZE",)])[1])

    def _meet(self, ahead: _Server, behind: _Server) -> tuple[str, int]:
        """Wait until a server has all that another has now, if they have one history; return where that is.

        (In a turn of its own: only after its end is what was shown before in the offset.)
        """
        replid, offset = _history(ahead)
        if not self._is_one_history:
            return replid, offset
        until_s = time.monotonic() + _WAIT_S
        while True:
            there, reached = _history(behind)
            if there != replid:
                raise Failure(EXIT_ADDRESS, "check: a failover has begun another history meanwhile; compare again")
            if reached >= offset:
                return replid, offset
            if time.monotonic() > until_s:
                text = f"still {offset - reached} bytes behind {ahead.place} after {_WAIT_S:.0f} s, so they cannot be"
                raise behind.failure(f"{text} compared at one offset; its INFO replication says whether its link is up")
            time.sleep(_POLL_S)

    def _compare(self, database: int, names: list[bytes]) -> None:
        """Compare keys. Those that are written meanwhile are looked at again alone, which takes a moment only."""
        for name in self._look(database, names):
            for _ in range(_LOOKS_MAX):
                if not self._look(database, [name]):
                    break
                time.sleep(_PAUSE_S)
            else:
                self.found.unsettled.append(_shown(database, name))

    def _look(self, database: int, names: list[bytes]) -> list[bytes]:
        """Compare keys, each at one moment: when the second server was looked at, the first had not changed it since
        before, and did not until later. Return the keys that it did change.
        """
        if not names:
            return []
        first, second = self._servers
        before = first.look(database, names)
        self._meet(first, second)
        there = second.look(database, names)
        names = [name for name in names if before[name] != there[name]]
        if not names:
            return []
        self._meet(second, first)
        after = first.look(database, names)
        settled = [name for name in names if before[name] == after[name]]
        now_ms = max(first.now_ms(), second.now_ms()) if settled else 0
        for name in settled:
            if found := self._parts(name, before[name], there[name], now_ms):
                self.found.differences.append(f"{_shown(database, name)}: {', '.join(found)}")
        return [name for name in names if before[name] != after[name]]

    def _parts(self, name: bytes, one: Seen, other: Seen, now_ms: int) -> list[str]:
        """Return in which parts a key differs, as it was seen twice."""
        if one.payload is None or other.payload is None:
            seen = other if one.payload is None else one
            if seen.payload is None or 0 <= seen.due_ms <= now_ms:
                return []  # (One clock is ahead of the other: the key is hidden there.)
            return [f"only the {'second' if seen is other else 'first'} has it"]
        if one.kind != other.kind:
            return [f"its type ({one.kind.decode()} and {other.kind.decode()})"]
        try:
            if one.large is not None and other.large is not None:
                parts = differences_of_large(one.large, other.large)
            elif one.large is not None or other.large is not None:
                larger = "second" if one.large is None else "first"
                parts = [f"its size: only that of the {larger} has {_TOO_LARGE} in DUMP's form"]
            else:
                parts = differences(one.payload, other.payload, now_ms)
        except (BadFooter, BadData) as error:
            text = f"key {name[:_SHOWN_BYTES_MAX]!r} has a form that this version does not know"
            raise Failure(EXIT_ADDRESS, f"check: {text} ({error or 'it is newer'}); use the newest streamd of the two")
        if one.due_ms != other.due_ms:
            parts.append("when its time ends")
        if not parts and one.groups != other.groups:
            parts.append("its groups, in XINFO GROUPS")
        return parts

    def _compare_libraries(self) -> None:
        first, second = self._servers
        for _ in range(_LOOKS_MAX):
            mine = first.libraries()
            self._meet(first, second)
            theirs = second.libraries()
            if mine == theirs:
                return
            self._meet(second, first)
            if first.libraries() == mine:
                differing = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
                self.found.differences += [
                    f"library {name.decode(errors='replace')} of functions" for name in differing
                ]
                return
        self.found.unsettled.append("the libraries of functions")


def _history(server: _Server) -> tuple[str, int]:
    """Return a server's replication ID and its offset."""
    fields = server.info("replication")
    return fields["master_replid"], int(fields["master_repl_offset"])


def _shown(database: int, name: bytes) -> str:
    return f"database {database}, key {name[:_SHOWN_BYTES_MAX]!r}"


def compare(urls: tuple[str, str], progress: Progress) -> Compared:
    """Return what a comparison of two servers has found. Raises: Failure."""
    with closing(Comparison(urls, progress)) as comparison:
        return comparison.run()
