"""Random requests: all that Redis 8.10.2 has of what streamd has, with right and with wrong words.

The author looks at the engine's state, so that IDs, groups and consumers often are those that are there. What it writes
down is plain words, which mean the same when the history is shortened.
"""

from collections.abc import Callable
from itertools import islice
from random import Random

from streamd.connected.client import Client
from streamd.connected.state import State
from streamd.data.keyspace import Database
from streamd.stream.entry_id import ID_MAX, format_id
from streamd.stream.stream import Stream
from tests.differential.collection_requests import CollectionRequests
from tests.differential.key_requests import Words
from tests.differential.words import (
    BAD_IDS,
    BAD_WORDS,
    CONSUMERS,
    COUNTS,
    EDGE_IDS,
    FIELDS,
    FUTURE_MS,
    GROUPS,
    IDLE_MS,
    KEYS,
    NAMES,
    PRODUCERS,
    SET_IDLE_MS,
    STREAMS,
    VALUES,
)


class Author(CollectionRequests):
    """Chooses what the clients send.

    deletes: entries are deleted and trimmed, too. Without that all counts must agree.
    collections: most requests are about collections, few about streams.
    claims: XREADGROUP claims pending entries, one at a time, and no two entries get the same delivery time, whose
    order differs (docs/differences.md).
    """

    def __init__(
        self, choose: Random, state: State, deletes: bool, collections: bool = False, claims: bool = False
    ) -> None:
        super().__init__(choose, state)
        self.weights = _WEIGHTS if deletes else _WEIGHTS_WITHOUT_DELETING
        if collections:
            self.weights = _WEIGHTS_OF_COLLECTIONS
        self.deletes = deletes
        self.claims = claims
        self.last_read: Words = []

    def request(self, client: Client) -> Words:
        """Return a request for a client."""
        choose = self.choose
        self.db: Database = client.db
        if client.transaction is not None:
            kind = choose.random() * (0.4 if client.watched else 1)
            if kind < 0.2:
                return [b"EXEC"]
            if kind < 0.23:
                return choose.choice([[b"DISCARD"], [b"MULTI"], [b"WATCH", b"s"]])
        if client.watched and client.transaction is None and choose.random() < 0.3:
            return [b"MULTI"]
        self.in_transaction = client.transaction is not None
        self.may_block = self.state.clients and client.id != min(self.state.clients)
        if self.db.waiting and self.weights is not _WEIGHTS_OF_COLLECTIONS and choose.random() < 0.3:
            words = self.for_who_waits()
        else:
            words = choose.choices(_WRITERS, self.weights)[0](self)
        if b"BLOCK" in words:
            self.last_read = words
        if choose.random() < 0.06 and words[1:2] != [b"UNBLOCK"]:
            words = self.spoiled(words)
        if choose.random() < 0.1:
            words = [choose.choice([word.lower(), word.title(), word]) if word.isupper() else word for word in words]
        return words

    def pipeline(self, client: Client) -> list[Words]:
        """Return requests that are sent in one go; often XADDs that are alike, which the engine executes as one."""
        requests = [self.request(client) for _ in range(self.choose.choice([2, 2, 3, 5]))]
        if self.often(0.5):
            return requests
        key, words = self.stream_key(), self.fields()
        stream = self.stream(key)
        new_id = b"*" if stream is not None and stream.last_id >> 64 >= FUTURE_MS and self.often(0.8) else None
        return [[b"XADD", key, new_id or self.new_id(key), *words] for _ in range(self.choose.choice([3, 4, 12]))]

    def spoiled(self, words: Words) -> Words:
        """Return a request with a word too many, too few or wrong."""
        choose = self.choose
        words = list(words)
        at = choose.randrange(len(words)) if choose.random() < 0.1 else choose.randrange(1, len(words) + 1)
        kind = choose.randrange(6)
        if kind == 0:
            del words[at:]
        elif kind == 1:
            words.insert(max(1, at), choose.choice(BAD_WORDS))
        elif kind == 2 and at < len(words):
            del words[at]
        elif kind == 3 and at < len(words):
            words.insert(at, words[at])
        elif kind == 4 and 1 <= at < len(words) - 1:
            words[at], words[at + 1] = words[at + 1], words[at]
        elif 1 <= at < len(words):
            words[at] = choose.choice(BAD_WORDS)
        return words or [b"PING"]

    # -- words --------------------------------------------------------------------------------------------------------

    def stream_key(self) -> bytes:
        if self.db.waiting and self.often(0.4):
            return self.pick(sorted(self.db.waiting))
        return self.pick(KEYS) if self.often(0.05) else self.choose.choices(STREAMS, (5, 3, 2))[0]

    def stream(self, key: bytes) -> Stream | None:
        value = self.db.values.get(key)
        return value if type(value) is Stream else None

    def group(self, key: bytes) -> bytes:
        stream = self.stream(key)
        if stream is not None and stream.groups and self.often(0.9):
            return self.pick(sorted(stream.groups))
        return self.pick(GROUPS)

    def consumer(self) -> bytes:
        return self.choose.choices(CONSUMERS, (6, 5, 3, 1))[0]

    def count(self, share: float = 0.4, word: bytes = b"COUNT") -> Words:
        return [word, self.pick(COUNTS)] if self.often(share) else []

    def some_id(self, key: bytes, group: bytes | None = None) -> bytes:
        """Return an ID, often one that is there."""
        kind = self.choose.random()
        stream = self.stream(key)
        if kind < 0.02:
            return self.pick(BAD_IDS)
        if kind < 0.08:
            return self.pick(EDGE_IDS)
        if stream is not None and kind < 0.8:
            ids = [entry_id for entry_id, _ in islice(stream.log.iterate(0, ID_MAX), 20)]
            if group is not None and stream.groups and group in stream.groups and self.often(0.6):
                ids = [row[0] for row in islice(stream.groups[group].pending.iterate(), 20)]
            ids += [stream.last_id]
            entry_id = self.choose.choice(ids)
            if self.often(0.15):
                entry_id = min(max(entry_id + self.choose.choice([1, -1, 1 << 64]), 0), ID_MAX)
            return b"%d" % (entry_id >> 64) if self.often(0.1) else format_id(entry_id)
        return b"%d-%d" % (self.choose.randrange(8), self.choose.randrange(4))

    def ids(self, key: bytes, group: bytes | None = None) -> Words:
        return [self.some_id(key, group) for _ in range(self.choose.choice([1, 1, 1, 2, 3, 5]))]

    def range(self, key: bytes) -> Words:
        ends = []
        for edge in (b"-", b"+"):
            word = edge if self.often(0.4) else self.some_id(key)
            ends.append(b"(" + word if self.often(0.15) else word)
        if self.often(0.03):
            ends.reverse()
        return ends

    # -- streams ----------------------------------------------------------------------------------------------------

    def new_id(self, key: bytes) -> bytes:
        stream = self.stream(key)
        kind = self.choose.random()
        last_id = 0 if stream is None else stream.last_id
        if kind < 0.03:
            return self.some_id(key)
        if kind < 0.1:
            return b"%d-*" % min((last_id >> 64) + self.choose.choice([0, 0, 1]), 2**64 - 1)
        if kind < 0.2 and last_id >> 64 >= FUTURE_MS and not self.in_transaction:
            return b"*"
        if kind < 0.21:
            return b"%d-%d" % (FUTURE_MS, self.choose.randrange(3))
        if kind < 0.211:
            return self.pick(EDGE_IDS)
        return format_id(min(last_id + self.choose.choice([1, 1, 1, 2, 1 << 64, 1 << 64, 3 << 64]), ID_MAX))

    def fields(self) -> Words:
        if self.often(0.6):
            return [b"f", self.pick(VALUES)]
        pairs = self.choose.choice([1, 1, 2, 2, 3, 7])
        return [word for _ in range(pairs) for word in (self.pick(FIELDS), self.pick(VALUES))]

    def trim(self, key: bytes) -> Words:
        approximate = self.often(0.5)
        words = [b"~"] if approximate else self.choose.choice([[], [b"="]])
        if self.often(0.6):
            stream = self.stream(key)
            length = 0 if stream is None else len(stream)
            words = [b"MAXLEN", *words, b"%d" % max(0, length - self.choose.choice([0, 1, 2, 4, 8, 20, 1000]))]
        else:
            words = [b"MINID", *words, self.some_id(key)]
        if self.often(0.4 if approximate else 0.03):
            limit = [b"LIMIT", self.pick([b"0", b"1", b"2", b"3", b"5", b"10", b"100"])]
            words = limit + words if self.often(0.1) else words + limit
        return self.shuffled(words, self.references())

    def references(self) -> Words:
        return [self.pick([b"KEEPREF", b"DELREF", b"ACKED"])] if self.often(0.3) else []

    def named(self, key: bytes) -> Words:
        """Return the words of a name, and the ID that goes with it."""
        name = [b"IDMPAUTO", self.pick(PRODUCERS)]
        if self.often(0.6):
            name = [b"IDMP", self.pick(PRODUCERS), self.pick(NAMES)]
        return [*name, b"*" if self.often(0.97) else self.new_id(key)]

    def xcfgset(self) -> Words:
        key = self.stream_key()
        if self.often(0.4):
            stream = self.stream(key)
            entry_id = format_id(stream.last_id) if stream is not None and self.often(0.7) else self.some_id(key)
            return [b"XIDMPRECORD", key, self.pick(PRODUCERS), self.pick(NAMES), entry_id]
        duration = [b"IDMP-DURATION", self.pick([b"1000", b"5000", b"86400", b"0", b"86401", b"x"])]
        maxsize = [b"IDMP-MAXSIZE", self.pick([b"1", b"2", b"10000", b"0", b"10001"])]
        return [b"XCFGSET", key, *self.shuffled(*self.choose.choice([[duration], [maxsize], [duration, maxsize]]))]

    def xadd(self) -> Words:
        key = self.stream_key()
        words = [b"XADD", key]
        if self.often(0.1):
            words.append(b"NOMKSTREAM")
        if self.deletes and self.often(0.12):
            words += self.trim(key)
        stream = self.stream(key)
        if stream is not None and stream.last_id >> 64 >= FUTURE_MS and not self.in_transaction and self.often(0.6):
            return [*words, *self.named(key), *self.fields()]
        return [*words, self.new_id(key), *self.fields()]

    def xrange(self) -> Words:
        key = self.stream_key()
        if self.often(0.5):
            return [b"XRANGE", key, *self.range(key), *self.count()]
        return [b"XREVRANGE", key, *reversed(self.range(key)), *self.count()]

    def waiting(self) -> Words:
        if not self.may_block:
            return []
        return [b"BLOCK", self.pick([b"0", b"0", b"100000000", b"-1"])] if self.often(0.35) else []

    def keys_and_ids(self, choose_id: Callable[[bytes], bytes]) -> Words:
        keys = [self.stream_key() for _ in range(self.choose.choice([1, 1, 1, 2, 3]))]
        return [b"STREAMS", *keys, *map(choose_id, keys)]

    def limits(self) -> list[Words]:
        """Return MAXCOUNT and MAXSIZE, seldom."""
        count = [b"MAXCOUNT", self.pick([b"1", b"2", b"3", b"5", b"10", b"0"])] if self.often(0.15) else []
        size = [b"MAXSIZE", b"%d" % self.choose.choice([1, 40, 50, 80, 120, 200, 400])] if self.often(0.15) else []
        return [count, size]

    def xread(self) -> Words:
        options = self.shuffled(self.count(), self.waiting(), *self.limits())

        def choose_id(key: bytes) -> bytes:
            return self.pick([b"$", b"$", b"+"]) if self.often(0.4) else self.some_id(key)

        return [b"XREAD", *options, *self.keys_and_ids(choose_id)]

    def xreadgroup(self) -> Words:
        keys = [self.stream_key() for _ in range(self.choose.choice([1, 1, 1, 1, 2, 3]))]
        group = self.group(keys[0])
        no_ack = [b"NOACK"] if self.often(0.1) else []
        more = [self.count(0.5), no_ack]
        if self.claims and self.often(0.5):
            more = [[b"COUNT", b"1"], [b"CLAIM", self.pick(IDLE_MS)]]
        options = self.shuffled([b"GROUP", group, self.consumer()], self.waiting(), *more, *self.limits())
        ids = [b">" if self.often(0.75) else self.some_id(key, group) for key in keys]
        return [b"XREADGROUP", *options, b"STREAMS", *keys, *ids]

    def xgroup(self) -> Words:
        key, kind = self.stream_key(), self.choose.random()
        entries_read = []
        if self.deletes and self.often(0.15):
            entries_read = [b"ENTRIESREAD", self.pick([b"0", b"1", b"3", b"10", b"-1", b"-2"])]
        if kind < 0.45:
            group = self.pick(GROUPS) if self.often(0.9) else self.group(key)
            from_id = self.pick([b"0", b"0", b"$"]) if self.often(0.8) else self.some_id(key)
            make = [b"MKSTREAM"] if self.often(0.4) else []
            return [b"XGROUP", b"CREATE", key, group, from_id, *self.shuffled(make, entries_read)]
        group = self.group(key)
        if kind < 0.6:
            from_id = self.pick([b"0", b"$", b"-", b"+"]) if self.often(0.5) else self.some_id(key)
            return [b"XGROUP", b"SETID", key, group, from_id, *entries_read]
        if kind < 0.75:
            return [b"XGROUP", b"CREATECONSUMER", key, group, self.consumer()]
        if kind < 0.9:
            return [b"XGROUP", b"DELCONSUMER", key, group, self.consumer()]
        if kind < 0.98:
            return [b"XGROUP", b"DESTROY", key, group]
        return self.choose.choice([[b"XGROUP", b"HELP"], [b"XGROUP"], [b"XGROUP", b"NO", key], [b"XINFO", b"HELP"]])

    def xack(self) -> Words:
        key = self.stream_key()
        group = self.group(key)
        return [b"XACK", key, group, *self.ids(key, group)]

    def xpending(self) -> Words:
        key = self.stream_key()
        words = [b"XPENDING", key, self.group(key)]
        if self.often(0.3):
            return words
        idle = [b"IDLE", self.pick(IDLE_MS)] if self.often(0.3) else []
        consumer = [self.consumer()] if self.often(0.3) else []
        return [*words, *idle, *self.range(key), self.pick(COUNTS), *consumer]

    def xclaim(self) -> Words:
        key = self.stream_key()
        group = self.group(key)
        now_ms = self.state.time.ms
        options: list[Words] = []
        if self.claims:
            return [b"XCLAIM", key, group, self.consumer(), self.pick(IDLE_MS), self.some_id(key, group)]
        if self.often(0.3):
            options.append([b"IDLE", self.pick(SET_IDLE_MS)])
        if self.often(0.15):
            time_ms = self.choose.choice([0, 1, -5, now_ms - 10**6, now_ms - 10**8, 2 * now_ms])
            options.append([b"TIME", b"%d" % time_ms])
        if self.often(0.2):
            options.append([b"RETRYCOUNT", self.pick([b"0", b"1", b"7", b"-1", b"4000000000000000000"])])
        if self.often(0.3):
            options.append([b"FORCE"])
        if self.often(0.25):
            options.append([b"JUSTID"])
        if self.often(0.1):
            options.append([b"LASTID", self.some_id(key)])
        words = [key, group, self.consumer(), self.pick(IDLE_MS), *self.ids(key, group)]
        return [b"XCLAIM", *words, *self.shuffled(*options)]

    def xautoclaim(self) -> Words:
        key = self.stream_key()
        group = self.group(key)
        start = b"-" if self.often(0.3) else self.pick([b"0", b"0-0"]) if self.often(0.5) else self.some_id(key, group)
        start = b"(" + start if self.often(0.1) else start
        count = [b"COUNT", self.pick([b"1", b"2", b"3", b"10", b"0", b"-1", b"1000"])] if self.often(0.5) else []
        just_id = [b"JUSTID"] if self.often(0.25) else []
        words = [key, group, self.consumer(), self.pick(IDLE_MS), start]
        return [b"XAUTOCLAIM", *words, *self.shuffled(count, just_id)]

    def counted_ids(self, key: bytes, group: bytes | None = None) -> Words:
        ids = self.ids(key, group)
        return [b"IDS", b"%d" % len(ids), *ids]

    def xnack(self) -> Words:
        key = self.stream_key()
        group = self.group(key)
        count = [b"RETRYCOUNT", self.pick([b"0", b"3", b"-1", b"9223372036854775807"])] if self.often(0.2) else []
        force = [b"FORCE"] if self.often(0.2) else []
        mode = self.pick([b"SILENT", b"FAIL", b"FATAL"])
        return [b"XNACK", key, group, mode, *self.shuffled(self.counted_ids(key, group), count, force)]

    def xdel(self) -> Words:
        key = self.stream_key()
        kind = self.choose.random()
        if kind < 0.25:
            return [b"XDELEX", key, *self.shuffled(self.references(), self.counted_ids(key))]
        if kind < 0.5:
            group = self.group(key)
            return [b"XACKDEL", key, group, *self.shuffled(self.references(), self.counted_ids(key, group))]
        return [b"XDEL", key, *self.ids(key)]

    def xtrim(self) -> Words:
        key = self.stream_key()
        return [b"XTRIM", key, *self.trim(key)]

    def xlen(self) -> Words:
        return [b"XLEN", self.stream_key()]

    def xsetid(self) -> Words:
        key = self.stream_key()
        added = [b"ENTRIESADDED", self.pick([b"0", b"1", b"5", b"100", b"-1"])] if self.often(0.3) else []
        deleted = [b"MAXDELETEDID", self.some_id(key)] if self.often(0.3) else []
        stream = self.stream(key)
        last_id = self.some_id(key)
        if stream is not None and self.often(0.7):
            last_id = format_id(min(stream.last_id + self.choose.choice([0, 0, 1]), ID_MAX))
        return [b"XSETID", key, last_id, *self.shuffled(added, deleted)]

    def xinfo(self) -> Words:
        key, kind = self.stream_key(), self.choose.random()
        if kind < 0.3:
            return [b"XINFO", b"STREAM", key]
        if kind < 0.6:
            return [b"XINFO", b"STREAM", key, b"FULL", *self.count(0.6)]
        if kind < 0.8:
            return [b"XINFO", b"GROUPS", key]
        return [b"XINFO", b"CONSUMERS", key, self.group(key)]

    def for_who_waits(self) -> Words:
        """Return what may wake a reader who waits, or joins it."""
        key = self.pick(sorted(self.db.waiting))
        other = self.pick(STREAMS)
        write = self.choose.choice(
            [
                *[lambda: [b"XADD", key, self.new_id(key), *self.fields()]] * 3,
                *[self.joining] * 4,
                lambda: [b"XGROUP", b"DESTROY", key, self.group(key)],
                lambda: [b"XGROUP", b"SETID", key, self.group(key), b"0"],
                lambda: [self.pick([b"DEL", b"UNLINK"]), key],
                lambda: [b"RENAME", other, key],
                lambda: [b"RENAME", key, other],
                lambda: [b"COPY", other, key, b"REPLACE"],
                lambda: [b"SWAPDB", b"0", b"1"],
                lambda: [b"SET", key, b"v"],
                lambda: [b"EXPIRE", key, b"-1"],
                lambda: [b"MOVE", key, b"1"],
                lambda: [b"FLUSHDB"],
            ]
        )
        return write()

    def joining(self) -> Words:
        """Return the last read that could wait, for another consumer of the group."""
        if not self.may_block or not self.last_read:
            return self.xread()
        words = list(self.last_read)
        if words[0] == b"XREADGROUP" and b"GROUP" in words[:-2]:
            words[words.index(b"GROUP") + 2] = self.consumer()
        return words

    # -- connections --------------------------------------------------------------------------------------------------

    def transactions(self) -> Words:
        if self.claims:
            return [b"UNWATCH"]  # in a transaction two deliveries have one time
        if self.often(0.4):
            return [b"MULTI"]
        if self.often(0.6):
            return [
                b"WATCH",
                *(self.pick([self.any_key(), self.stream_key()]) for _ in range(self.choose.choice([1, 1, 2]))),
            ]
        return self.choose.choice([[b"UNWATCH"], [b"EXEC"], [b"DISCARD"]])

    def connections(self) -> Words:
        setting = b"stream-node-max-entries"
        return self.choose.choice(
            [
                [b"SELECT", self.pick([b"0", b"0", b"0", b"1", b"16", b"-1"])],
                [b"SELECT", b"0"],
                [b"PING"],
                [b"ECHO", self.pick(VALUES)],
                [b"CONFIG", b"SET", setting, self.pick([b"1", b"2", b"3", b"4", b"10", b"100", b"0"])],
                [b"CONFIG", b"GET", setting],
                [b"nosuch", *self.fields()],
            ]
        )

    def unblocking(self) -> Words:
        waiting = [client_id for client_id, client in self.state.clients.items() if client.waiter is not None]
        if not waiting or self.in_transaction:
            return self.xadd()
        # The driver puts the number in that the server gave to the client.
        how = self.choose.choice([[], [b"TIMEOUT"], [b"ERROR"]])
        return [b"CLIENT", b"UNBLOCK", b"<id of %d>" % (self.choose.choice(waiting) - min(self.state.clients)), *how]


_SHARES: list[tuple[Callable[[Author], Words], int]] = [
    (Author.xadd, 26),
    (Author.xrange, 6),
    (Author.xread, 7),
    (Author.xreadgroup, 18),
    (Author.xgroup, 8),
    (Author.xack, 4),
    (Author.xpending, 7),
    (Author.xclaim, 8),
    (Author.xautoclaim, 6),
    (Author.xdel, 5),
    (Author.xtrim, 4),
    (Author.xlen, 1),
    (Author.xnack, 4),
    (Author.xcfgset, 2),
    (Author.xsetid, 2),
    (Author.xinfo, 8),
    (Author.keys, 7),
    (Author.expiry, 3),
    (Author.strings, 5),
    (Author.hashes, 3),
    (Author.fields_that_end, 2),
    (Author.newer, 2),
    (Author.lists_and_sets, 2),
    (Author.about_collections, 3),
    (Author.scripts, 2),
    (Author.transactions, 5),
    (Author.connections, 3),
    (Author.unblocking, 3),
]
_WRITERS = [write for write, _ in _SHARES]
_WEIGHTS = [share for _, share in _SHARES]
_DELETING = (Author.xdel, Author.xtrim, Author.xsetid)
_WEIGHTS_WITHOUT_DELETING = [0 if write in _DELETING else share for write, share in _SHARES]
_ABOUT_KEYS = {Author.keys: 3, Author.expiry: 3, Author.strings: 3, Author.hashes: 8, Author.lists_and_sets: 8}
_ABOUT_KEYS |= {Author.fields_that_end: 8, Author.newer: 8}
_ABOUT_COLLECTIONS = {
    **_ABOUT_KEYS,
    Author.about_collections: 80,
    Author.scripts: 15,
    Author.transactions: 6,
    Author.unblocking: 3,
}
_WEIGHTS_OF_COLLECTIONS = [_ABOUT_COLLECTIONS.get(write, 0) for write in _WRITERS]
