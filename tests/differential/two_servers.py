"""redis-server and an engine, which get the same requests from the same clients in the same order."""

import re
import time

from streamd.acl.user import merged_rules
from streamd.base.clock import ManualClock
from streamd.data.timed_hash import TimedHash
from streamd.data.types import type_of
from streamd.stream.stream import Stream
from tests.differential.allowances import finds_keys, is_unfit, refuses_a_key, same
from tests.differential.redis_process import RawClient, complete_replies
from tests.differential.replies import Reply, parse_all
from tests.session import Session, SessionClient

Words = list[bytes]
# Which client sends what, in one go.
Step = tuple[int, list[Words]]

PROTOCOLS = [2, 3, 2]
# All classes of keyspace events but keymiss, on all channels. (docs/differences.md has a row on keymiss.)
EVENTS = b"AnocKESTIV"
# How long redis-server may take for a reply that streamd gave.
PATIENCE_S = 3
ID_OF = re.compile(rb"<id of (\d+)>")
DATABASES = 2


class Difference(Exception):
    """What redis-server answered and what streamd did, where it may not differ."""

    def __init__(self, client: int, request: Words, theirs: object, ours: object) -> None:
        self.client, self.request, self.theirs, self.ours = client, request, theirs, ours
        said = b" ".join(request)
        super().__init__(f"client {client}, {said!r}\n  redis-server: {theirs!r}\n  streamd:      {ours!r}")


class Undecided(Exception):
    """Several clients ended their waits at once that had sent more meanwhile: servers execute that in any order."""


class TwoServers:
    """Both servers, empty, with three clients connected to each.

    After each step what every client got is compared. The engine runs first and says whether somebody waits: only then
    two round trips of a further connection have to show that redis-server has sent all that it will.

    events: a fourth client gets the keyspace events. rules: the second and the third client are a user with these.
    """

    def __init__(self, port: int, events: bool = False, rules: bytes = b"") -> None:
        self.control = RawClient(port)
        self.events = events
        self._prepare_redis()
        self.clock = ManualClock(time.time_ns() // 1_000_000)
        self.session = Session(self.clock)
        self.theirs = [RawClient(port) for _ in PROTOCOLS]
        # The session's own client is the first.
        self.ours: list[SessionClient] = [self.session, *(self.session.connect() for _ in PROTOCOLS[1:])]
        self.ids = [int(client.ask([b"CLIENT", b"ID"])[1:]) for client in self.theirs]
        self.unanswered: list[list[Words]] = [[] for _ in PROTOCOLS]
        self.queued: list[list[Words]] = [[] for _ in PROTOCOLS]
        for at, protocol in enumerate(PROTOCOLS):
            self.theirs[at].ask([b"HELLO", b"%d" % protocol])
            self.ours[at].raw([b"HELLO", b"%d" % protocol])
        if events:
            self._listen(port)
        if rules:
            self._restrict(rules)

    def _prepare_redis(self) -> None:
        flags = EVENTS if self.events else b""
        for words in (
            [b"FLUSHALL"],
            [b"CONFIG", b"SET", b"stream-node-max-entries", b"100"],
            [b"CONFIG", b"SET", b"stream-node-max-bytes", b"0"],
            [b"CONFIG", b"SET", b"notify-keyspace-events", flags],
        ):
            self.control.ask(words)

    def _listen(self, port: int) -> None:
        self.theirs.append(RawClient(port))
        self.ours.append(self.session.connect())
        self.session.raw([b"CONFIG", b"SET", b"notify-keyspace-events", EVENTS])
        self.unanswered.append([])
        self.queued.append([])
        request = [b"PSUBSCRIBE", b"__*"]
        self.theirs[-1].ask(request)
        self.ours[-1].raw(request)

    def _restrict(self, rules: bytes) -> None:
        """Make a user with rules, and let all clients but the first be this user."""
        made = [b"ACL", b"SETUSER", b"ann", b"reset", b"on", b"nopass", b"&*", *merged_rules(rules.split())]
        assert self.control.ask(made) == self.session.raw(made) == b"+OK\r\n"
        for at in range(1, len(PROTOCOLS)):
            request = [b"AUTH", b"ann", b"x"]
            assert self.theirs[at].ask(request) == self.ours[at].raw(request) == b"+OK\r\n"

    def close(self) -> None:
        for client in (*self.theirs, self.control):
            client.close()

    # -- steps --------------------------------------------------------------------------------------------------------

    def run(self, step: Step) -> int:
        """Let a client send its requests to both; return how many were sent. Raises: Difference."""
        at, requests = step
        state = self.session.state
        self.clock.set(max(time.time_ns() // 1_000_000, self.clock.now_ms() + 1))
        client = self.ours[at].client
        alone = len(requests) == 1 or all(words[0].upper() == b"XADD" for words in requests)
        requests = [one for one in requests if not is_unfit(one, client, alone)]
        if not requests:
            return 0
        simple = client.transaction is None
        waited = state.blocked.count > 0
        self.unanswered[at] += requests
        waits = [one.client for one in self.ours if one.client.waiter is not None and one.client.backlog]
        waiters = [client.waiter for client in waits]
        self.ours[at].send(*map(self._with_our_id, requests))
        if sum(client.waiter is not waiter for client, waiter in zip(waits, waiters, strict=True)) > 1:
            raise Undecided
        ours = [one.received() for one in self.ours]
        self.theirs[at].send(*map(self._with_their_id, requests))
        if waited or state.blocked.count or self.events or not ours[at]:
            theirs = self._all_arrived()
            # Redis frees in the background what FLUSHALL removes, and replies when that is done.
            until_s = time.monotonic() + PATIENCE_S
            while time.monotonic() < until_s and any(
                complete_replies(one) < complete_replies(other) for one, other in zip(theirs, ours, strict=True)
            ):
                late = self._all_arrived()
                theirs = [one + more for one, more in zip(theirs, late, strict=True)]
        else:
            theirs = [b""] * len(ours)
            theirs[at] = self._replies_like(at, ours[at])
            if simple and client.transaction is None and theirs[at] == ours[at]:
                self.unanswered[at].clear()
                return len(requests)
        for number, (left, right) in enumerate(zip(theirs, ours, strict=True)):
            self._compare(number, left, right)
        return len(requests)

    def _with_our_id(self, request: Words) -> Words:
        return _with_id(request, [client.client.id for client in self.ours])

    def _with_their_id(self, request: Words) -> Words:
        return _with_id(request, self.ids)

    def _replies_like(self, at: int, ours: bytes) -> bytes:
        """Return as many replies as there are in `ours`, or what comes in time."""
        client, expected = self.theirs[at], 0
        data = b""
        client.socket.settimeout(PATIENCE_S)
        while data != ours:
            try:
                data += client.receive()
            except TimeoutError:
                break
            if data != ours:
                expected = expected or complete_replies(ours)
                if complete_replies(data) >= expected:
                    break
        return data

    def _all_arrived(self) -> list[bytes]:
        for _ in range(2):
            self.control.ask([b"PING"])
        return [client.arrived() for client in self.theirs]

    # -- comparing ----------------------------------------------------------------------------------------------------

    def _compare(self, at: int, theirs: bytes, ours: bytes) -> None:
        if complete_replies(theirs) != complete_replies(ours):
            raise Difference(at, (self.unanswered[at] or [[b"(event)"]])[0], theirs, ours)
        for one, other in zip(parse_all(theirs), parse_all(ours), strict=True):
            request, queued = self._request_of(at, other)
            if one.kind + one.text == b"+QUEUED" and refuses_a_key(request, other):
                raise Undecided
            if other.kind + other.text == b"+QUEUED" and finds_keys(request, one):
                raise Undecided
            if not self._same(request, queued, one, other):
                raise Difference(at, request, _text(one), _text(other))

    def _request_of(self, at: int, reply: Reply) -> tuple[Words, list[Words]]:
        """Return which request a reply answers, and for EXEC those that were queued."""
        if not self.unanswered[at]:
            return [b"(event)"], []
        request = self.unanswered[at].pop(0)
        queued = self.queued[at]
        if reply.kind == b"+" and reply.text == b"QUEUED":
            queued.append(request)
        elif request[0].upper() in (b"EXEC", b"DISCARD") and not (len(request) > 1):
            self.queued[at] = []
        return request, queued

    def _same(self, request: Words, queued: list[Words], theirs: Reply, ours: Reply) -> bool:
        if request[0].upper() == b"EXEC" and theirs.items is not None and ours.items is not None:
            pairs = zip(queued, theirs.items, ours.items, strict=False)
            return len(theirs.items) == len(ours.items) and all(same(*pair) for pair in pairs)
        return same(request, theirs, ours)

    def inspect(self) -> None:
        """Compare all that is in both. Raises: Difference."""
        for _ in range(2):
            for at, client in enumerate(self.ours[: len(PROTOCOLS)]):
                if client.blocked:
                    self.run((0, [[b"DISCARD"], [b"CLIENT", b"UNBLOCK", b"<id of %d>" % at]]))
        self.run((0, [[b"DISCARD"]]))
        for index in range(DATABASES):
            self.run((0, [[b"SELECT", b"%d" % index], [b"KEYS", b"*"]]))
            for key, value in sorted(self.session.state.keyspace[index].values.items()):
                self.run((0, [[b"TYPE", key], [b"PTTL", key]]))
                if type(value) is Stream:
                    requests = [[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"], [b"XINFO", b"STREAM", key]]
                    self.run((0, requests))
                    for group in sorted(value.groups or ()):
                        self.run((0, [[b"XPENDING", key, group], [b"XINFO", b"CONSUMERS", key, group]]))
                elif (show := _SHOWN_BY.get(type_of(value).name)) is not None:
                    self.run((0, [[show[0], key, *show[1:]]]))
                if isinstance(value, TimedHash):
                    self.run((0, [[b"HPTTL", key, b"FIELDS", b"%d" % len(value), *value]]))


# What shows the whole of a value.
_SHOWN_BY = {
    "hash": [b"HGETALL"],
    "zset": [b"ZRANGE", b"0", b"-1", b"WITHSCORES"],
    "list": [b"LRANGE", b"0", b"-1"],
    "set": [b"SMEMBERS"],
    "string": [b"GET"],
}


def _with_id(request: Words, ids: list[int]) -> Words:
    """Return a CLIENT UNBLOCK with the number that a server gave to a client, any other request as it is."""
    if [word.upper() for word in request[:2]] != [b"CLIENT", b"UNBLOCK"]:
        return request
    return [ID_OF.sub(lambda found: b"%d" % ids[int(found[1]) % len(PROTOCOLS)], word) for word in request]


def _text(reply: Reply) -> object:
    """Return a reply as plain values, errors and simple strings with their first byte."""
    if reply.items is not None:
        return [_text(item) for item in reply.items]
    return reply.text if reply.kind in b"$=" and reply.text != b"-1" else (reply.kind + reply.text).decode("latin-1")
