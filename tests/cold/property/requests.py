"""Random requests whose streams are long, and most of which need old entries."""

from random import Random

from streamd.connected.client import Client
from streamd.connected.state import State
from streamd.stream.entry_id import ID_MAX, format_id
from tests.differential.requests import Author, Words
from tests.differential.words import GROUPS, STREAMS

# So many entries a stream has at most before it is trimmed.
LENGTH_MAX = 600
_LIBRARY = b"""#!lua name=cold
redis.register_function{function_name='ranges', callback=function(keys, args)
  local some = redis.call('XRANGE', keys[1], '-', '+', 'COUNT', args[1])
  return {some, redis.call('XREVRANGE', keys[1], '+', '-', 'COUNT', 3)}
end, flags={'no-writes'}}
redis.register_function('moves', function(keys, args)
  local some = redis.call('XRANGE', keys[1], args[1], '+', 'COUNT', 3)
  for _, one in ipairs(some) do redis.call('XDEL', keys[1], one[1]) end
  return redis.call('XINFO', 'STREAM', keys[1])
end)"""
# Nodes of such values are compressed.
_JSON = b'{"device": "sensor-17", "temperature": 21, "humidity": 40, "unit": "percent"}'
_SCRIPTS = [
    b"return redis.pcall('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', 5)",
    b"local n = redis.pcall('XDEL', KEYS[1], ARGV[1]) "
    b"return {n, redis.pcall('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 4)}",
    b"redis.pcall('XTRIM', KEYS[1], 'MINID', ARGV[1]) return redis.pcall('XINFO', 'STREAM', KEYS[1])",
    b"return redis.pcall('XREAD', 'COUNT', 4, 'STREAMS', KEYS[1], ARGV[1])",
]


class ColdAuthor(Author):
    """Chooses what the clients send.

    is_exact: the nodes of both servers may differ, so that nothing is asked that depends on them.
    """

    def __init__(self, choose: Random, state: State, collections: bool) -> None:
        super().__init__(choose, state, deletes=True, collections=collections)
        self.is_exact = False

    def request(self, client: Client) -> Words:
        self.db = client.db
        self.in_transaction = client.transaction is not None
        self.may_block = True
        kind = self.choose.random()
        words = super().request(client) if kind < 0.72 else self.about_streams()
        while self.db.values and words[0].upper() in _RUINOUS and self.often(0.85):
            words = super().request(client)
        if words[0].upper() == b"CONFIG" and self.often(0.7):
            words = self.about_streams()
        return self.exact(words) if self.is_exact else words

    def exact_all(self, requests: list[Words]) -> list[Words]:
        """Return requests as `exact` does if that is wanted."""
        return [self.exact(words) for words in requests] if self.is_exact else requests

    def exact(self, words: Words) -> Words:
        """Return a request without what makes its effect depend on nodes."""
        if b"LIMIT" in words and words[0].upper() in (b"XTRIM", b"XADD"):
            at = words.index(b"LIMIT")
            words = words[:at] + words[at + 2 :]
        if words[0].upper() == b"DUMP":
            return [b"XLEN", *words[1:]]
        if words[0].upper() in (b"SCAN", b"KEYS"):
            return [b"DBSIZE"]  # (A start has keys in the order of its journal, and rewrites come at other times.)
        return [b"=" if word == b"~" else word for word in words]

    def some_id(self, key: bytes, group: bytes | None = None) -> bytes:
        stream = self.stream(key)
        if group is None and stream is not None and len(stream) and self.often(0.6):
            ids = stream.log.ids_between()
            entry_id = self.choose.choice(ids)
            if self.often(0.15):
                entry_id = min(max(entry_id + self.choose.choice([1, -1, 1 << 64]), 0), ID_MAX)
            return format_id(entry_id)
        return super().some_id(key, group)

    def groups_of(self, key: bytes) -> list[bytes]:
        """Return the names of a stream's groups."""
        stream = self.stream(key)
        return [] if stream is None else [*(stream.groups or ())]

    def fill(self) -> list[Words]:
        """Return a pipeline that makes a stream longer."""
        choose = self.choose
        key = choose.choices(STREAMS, (5, 3, 1))[0]
        stream = self.stream(key)
        if stream is not None and len(stream) > LENGTH_MAX:
            return [[b"XTRIM", key, b"MAXLEN", b"%d" % choose.choice([0, 50, 200, 500])]]
        last_id = 0 if stream is None else stream.last_id
        if last_id >= ID_MAX - (1 << 70):
            return [[b"DEL", key]]
        requests = []
        size = choose.choice([0, 10, 40, 150])
        alike = self.often(0.5)
        shape = choose.choice([b"%b"] * 6 + [_JSON * 8 + b"%b", b"x" * 20_000 + b"%b"])
        for _ in range(choose.choice([5, 20, 20, 60]) if len(shape) < 10_000 else 7):
            last_id += choose.choice([1, 1 << 64, 1 << 64])
            value = shape % (bytes([choose.randrange(97, 100)]) + b"%x" % choose.getrandbits(4 * size + 4))
            names = [b"f"] if alike or self.often(0.7) else choose.choice([[b"name"], [b"f", b"g"], [b"g"]])
            requests.append([b"XADD", key, format_id(last_id), *(word for name in names for word in (name, value))])
        return requests

    def reading(self) -> Words:
        """Return a request that does not block and needs no connection's state: what clients send at once."""
        self.may_block = False
        self.in_transaction = False
        write = self.choose.choices(_AT_ONCE, _AT_ONCE_WEIGHTS)[0]
        words = write(self)
        self.may_block = True
        return self.exact(words) if self.is_exact else words

    def alike(self) -> list[Words]:
        """Return requests that are alike, which a server may execute as one."""
        key = self.choose.choices(STREAMS, (5, 3, 2))[0]
        group, consumer = self.group(key), self.consumer()
        kind = self.choose.randrange(10)
        number = b"%d" % self.choose.choice([1, 2, 5])

        def one() -> Words:
            ids = [self.some_id(key) for _ in range(self.choose.choice([1, 1, 3]))]
            return [
                [b"XRANGE", key, ids[0], b"+", b"COUNT", number],
                [b"XRANGE", key, ids[0], ids[0]],
                [b"XREVRANGE", key, ids[0], b"-", b"COUNT", number],
                [b"XDEL", key, *ids],
                [b"XACK", key, group, *ids],
                [b"XREADGROUP", b"GROUP", group, consumer, b"COUNT", number, b"STREAMS", key, b">"],
                [b"XREADGROUP", b"GROUP", group, consumer, b"COUNT", number, b"STREAMS", key, ids[0]],
                [b"XCLAIM", key, group, consumer, b"0", *ids],
                [b"XREAD", b"COUNT", number, b"STREAMS", key, ids[0]],
                [b"XACKDEL", key, group, b"IDS", b"%d" % len(ids), *ids],
            ][kind]

        return [one() for _ in range(self.choose.choice([3, 8, 20]))]

    def reads(self) -> list[Words]:
        """Return requests that change nothing."""
        if self.often(0.4):
            found = self.alike()
            return found if found[0][0] in (b"XRANGE", b"XREVRANGE", b"XREAD") else found[:0]
        self.may_block = False
        return [self.choose.choice([self.xrange, self.xread, self.xpending, self.xinfo])() for _ in range(2)]

    def sequence(self) -> list[Words]:
        """Return requests of which each changes what the connection does with the next one."""
        self.in_transaction = False

        def one() -> Words:
            return self.reading()

        return self.choose.choice(
            [
                lambda: [[b"CLIENT", b"REPLY", b"SKIP"], one(), one()],
                lambda: [[b"CLIENT", b"REPLY", b"OFF"], one(), one(), [b"CLIENT", b"REPLY", b"ON"]],
                lambda: [
                    [b"CLIENT", b"TRACKING", b"OFF"],
                    [b"CLIENT", b"TRACKING", b"ON", b"OPTIN"],
                    [b"CLIENT", b"CACHING", b"YES"],
                    self.xrange(),
                    self.xrange(),
                    [b"CLIENT", b"TRACKING", b"OFF"] if self.often(0.5) else [b"PING"],
                ],
                lambda: [one(), [b"QUIT"]],
                lambda: [one(), [b"RESET"]],
                lambda: [[b"MULTI"], one(), one(), one(), [b"EXEC"], one()],
                lambda: [[b"WATCH", b"s", b"t"], self.xrange(), [b"MULTI"], one(), one(), [b"EXEC"]],
                lambda: [[b"SELECT", b"1"], one(), [b"SELECT", b"0"], one()],
            ]
        )()

    def waits(self) -> list[tuple[int, list[Words]] | int | None]:
        """Return what makes clients wait for entries, and then gives them old ones.

        (client, requests), a number of milliseconds that pass, or None where blocks are evicted.
        """
        choose = self.choose
        key, other = choose.sample(STREAMS, 2)
        stop = [b"CLIENT", b"UNBLOCK", b"<id of 1>"], [b"CLIENT", b"UNBLOCK", b"<id of 2>"]
        ends: list[tuple[int, list[Words]] | int | None] = [(0, [one]) for one in stop]
        limits = choose.choice([[], [b"COUNT", b"3"], [b"COUNT", b"40"]])
        group = self.pick(self.groups_of(key) or [b"g"])
        made = [b"XGROUP", b"CREATE", key, group, b"0"]
        if self.often(0.5):
            starts = [
                [b"XREAD", *limits, b"BLOCK", b"0", b"STREAMS", other, b"0"],
                [b"XREADGROUP", b"GROUP", group, b"ann", *limits, b"BLOCK", b"0", b"STREAMS", other, b">"],
                [b"XREADGROUP", b"GROUP", group, b"bob", *limits, b"BLOCK", b"0", b"STREAMS", other, b">"],
                [b"XFILTER", other, b"-", b"+", b"COUNT", b"5", b"BLOCK", b"0", b"FIELD", b"f", b"GLOB", b"*1*"],
            ]
            if self.often(0.5):
                starts = [[b"XREADGROUP", b"GROUP", group, b"ann", b"STREAMS", key, b">"]]
            chosen = [choose.choice(starts) for _ in range(2)]
            makes = [b"XGROUP", b"CREATE", other, group, b"$", b"MKSTREAM"]
            moves = [
                [b"COPY", key, other, b"REPLACE"],
                [b"RENAME", key, other],
                [b"XGROUP", b"SETID", other, group, b"0"],
            ]
            return [
                *ends,
                (0, [[b"DEL", other], made, makes]),
                (1, [chosen[0]]),
                (2, [chosen[1]]),
                None,
                (0, [choose.choice(moves)]),
                *ends,
            ]
        wait = [b"BLOCK", b"0", b"CLAIM", b"1000", *limits, b"STREAMS", key, b">"]
        # (A request behind an earlier wait may take what the wait of another client needs from the disk.)
        return [
            *ends,
            (0, [made, [b"XREADGROUP", b"GROUP", group, b"cid", b"COUNT", b"9", b"STREAMS", key, b">"]]),
            (0, [[b"XGROUP", b"SETID", key, group, b"$"]]),
            (1, [[b"XREADGROUP", b"GROUP", group, b"ann", *wait]]),
            (2, [[b"XREADGROUP", b"GROUP", group, b"bob", *wait]]),
            None,
            choose.choice([500, 1_001]),
            None,
            1_001,
            *ends,
        ]

    def about_streams(self) -> Words:
        """Return what streamd alone has, or what needs many old entries."""
        key = self.choose.choices(STREAMS, (5, 3, 2))[0]
        any_id = self.some_id(key)
        group = self.group(key)
        number = b"%d" % self.choose.choice([1, 3, 10, 40, 1000])
        kind = self.choose.randrange(20)
        if group not in self.groups_of(key) and self.often(0.4):
            return [b"XGROUP", b"CREATE", key, group, self.pick([b"0", b"0", b"$", any_id])]
        condition = [
            b"FIELD",
            b"f",
            *self.choose.choice([[b"GLOB", b"a*"], [b"GLOB", b"*1*"], [b"EQ", b"v"], [b"MQTT", b"#"]]),
        ]
        if kind == 0:
            also = [b"BLOCK", b"0", b"ALSO", self.pick(STREAMS), any_id] if self.often(0.2) and self.may_block else []
            if also and (also[3] == key or self.in_transaction):
                also = []
            return [b"XFILTER", key, *self.range(key), b"COUNT", number, *also[:2], *condition, *also[2:]]
        if kind == 1:
            return [b"XSPLIT", key, *self.range(key), number]
        if kind == 2:
            return [b"XGROUP", b"CREATE", key, self.pick(GROUPS), b"0", b"FILTER", *condition]
        if kind == 3:
            return [b"XREADGROUP", b"GROUP", group, self.consumer(), b"COUNT", number, b"STREAMS", key, b">"]
        if kind == 4:
            return [b"XREADGROUP", b"GROUP", group, self.consumer(), b"COUNT", number, b"STREAMS", key, b"0"]
        if kind == 5:
            return [b"XAUTOCLAIM", key, group, self.consumer(), b"0", b"0", b"COUNT", number]
        if kind == 6:
            return [b"XGROUP", b"SETID", key, group, any_id]
        if kind == 7:
            return [b"EVAL", self.pick(_SCRIPTS), b"1", key, any_id]
        if kind == 8:
            return [b"FUNCTION", b"LOAD", b"REPLACE", _LIBRARY]
        if kind == 9:
            name = self.pick([b"ranges", b"moves"])
            return [b"FCALL", name, b"1", key, number if name == b"ranges" else any_id]
        if kind == 10:
            return [b"XRANGE", key, b"-", b"+"] if self.often(0.5) else [b"XREVRANGE", key, b"+", any_id]
        if kind == 11:
            return [b"COPY", key, self.pick(STREAMS), b"REPLACE"]
        if kind == 12:
            return [b"DUMP", key]
        if kind == 13:
            return [b"XREAD", b"COUNT", number, b"STREAMS", key, any_id]
        if kind == 14:
            return [b"CLIENT", b"TRACKING", self.pick([b"ON", b"ON", b"OFF"])]
        if kind == 15:
            return [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", number]
        if kind == 16:
            return [b"XTRIM", key, b"MINID", self.pick([b"~", b"="]), any_id]
        if kind == 18:
            trim = self.trim(key) if self.often(0.4) else []
            return [b"XADD", key, *trim, *self.named(key), *self.fields()]
        if kind == 17:
            ids = [self.some_id(key) for _ in range(self.choose.choice([5, 20]))]
            return [b"XDEL", key, *ids]
        return [
            b"XREADGROUP",
            b"GROUP",
            group,
            self.consumer(),
            b"CLAIM",
            b"0",
            b"COUNT",
            number,
            b"STREAMS",
            key,
            b">",
        ]


_RUINOUS = {b"DEL", b"UNLINK", b"RENAME", b"FLUSHDB", b"SWAPDB", b"MOVE", b"SET", b"EXPIRE", b"PEXPIRE", b"EXPIREAT"}
_RUINOUS |= {b"PEXPIREAT", b"MSET", b"GETSET", b"SETEX"}
_SHARES = [
    (Author.xadd, 8),
    (Author.xrange, 12),
    (Author.xread, 6),
    (Author.xreadgroup, 10),
    (Author.xack, 3),
    (Author.xpending, 3),
    (Author.xclaim, 6),
    (Author.xautoclaim, 4),
    (Author.xdel, 6),
    (Author.xtrim, 4),
    (Author.xnack, 2),
    (Author.xinfo, 4),
    (Author.xgroup, 3),
    (ColdAuthor.about_streams, 30),
    (Author.keys, 1),
]
_AT_ONCE = [write for write, _ in _SHARES]
_AT_ONCE_WEIGHTS = [share for _, share in _SHARES]
