"""Random requests about keys, and about values of all types but streams."""

from random import Random

from streamd.connected.state import State
from tests.differential.words import EXPIRE_S, FIELDS, KEYS, STREAMS, VALUES

Words = list[bytes]


class KeyRequests:
    """The part of the author that does not know streams."""

    def __init__(self, choose: Random, state: State) -> None:
        self.choose = choose
        self.state = state

    def often(self, share: float) -> bool:
        return self.choose.random() < share

    def pick(self, words: Words) -> bytes:
        return self.choose.choice(words)

    def any_key(self) -> bytes:
        return self.pick(KEYS)

    def stream_key(self) -> bytes:
        return self.pick(STREAMS)

    def shuffled(self, *options: Words) -> Words:
        order = list(options)
        if self.often(0.2):
            self.choose.shuffle(order)
        return [word for words in order for word in words]

    def keys(self) -> Words:
        key, other = self.any_key(), self.any_key()
        database = self.pick([b"0", b"1", b"1"])
        return self.choose.choice(
            [
                [b"DEL", key],
                [b"UNLINK", key, other],
                [b"EXISTS", key, other],
                [b"TOUCH", key, other],
                [b"TYPE", key],
                [b"DBSIZE"],
                [b"KEYS", self.pick([b"*", b"?", b"s*", b"[st]", b"[^s]", b"\\s"])],
                [b"SCAN", b"0", b"COUNT", b"1000", *self.choose.choice([[], [b"MATCH", b"s*"], [b"TYPE", b"stream"]])],
                [b"OBJECT", self.pick([b"ENCODING", b"ENCODING", b"FREQ"]), key],
                [b"RENAME", key, other],
                [b"RENAME", self.stream_key(), self.stream_key()],
                [b"RENAMENX", key, other],
                [b"COPY", key, other, *self.choose.choice([[], [b"REPLACE"], [b"DB", database, b"REPLACE"]])],
                [b"COPY", self.stream_key(), self.stream_key(), b"REPLACE"],
                [b"MOVE", key, database],
                [b"SWAPDB", b"0", database],
                [b"FLUSHDB", *self.choose.choice([[], [b"ASYNC"], [b"SYNC"]])] if self.often(0.3) else [b"DBSIZE"],
            ]
        )

    def expiry(self) -> Words:
        key = self.any_key()
        if self.often(0.45):
            return [self.pick([b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME", b"PERSIST"]), key]
        condition = self.choose.choice([[], [], [b"NX"], [b"XX"], [b"GT"], [b"LT"], [b"NX", b"GT"]])
        amount = self.pick(EXPIRE_S)
        kind = self.choose.randrange(4)
        if kind == 0:
            return [b"EXPIRE", key, amount, *condition]
        if kind == 1:
            return [b"PEXPIRE", key, amount + b"000" if len(amount) < 8 else amount, *condition]
        at_s = self.state.time.ms // 1000 + self.choose.choice([500, 5000, 2 * 10**6, -5])
        if kind == 2:
            return [b"EXPIREAT", key, b"%d" % at_s, *condition]
        return [b"PEXPIREAT", key, b"%d000" % at_s, *condition]

    def strings(self) -> Words:
        key = self.any_key() if self.often(0.3) else b"string"
        value = self.pick(VALUES)
        number = self.pick([b"1", b"-7", b"10", b"9223372036854775807", b"-9223372036854775808"])
        expiry = self.choose.choice([[], [], [b"EX", b"100"], [b"PX", b"100000"], [b"KEEPTTL"], [b"EX", b"0"]])
        condition = self.choose.choice([[], [], [b"NX"], [b"XX"], [b"GET"], [b"NX", b"GET"]])
        return self.choose.choice(
            [
                [b"SET", key, value, *self.shuffled(expiry, condition)],
                [b"GET", key],
                [b"SETNX", key, value],
                [b"SETEX", key, b"100", value],
                [b"GETSET", key, value],
                [b"GETDEL", key],
                [b"GETEX", key, *self.choose.choice([[], [b"PERSIST"], [b"EX", b"100"], [b"PX", b"-1"]])],
                [b"MGET", key, self.any_key()],
                [b"MSET", key, value, b"string", b"5"],
                [b"MSETNX", key, value, b"no key", b"5"],
                [b"INCR", key],
                [b"DECR", key],
                [b"INCRBY", key, number],
                [b"DECRBY", key, number],
                [b"INCRBYFLOAT", key, self.pick([b"1.5", b"-0.1", b"3", b"1e3"])],
                [b"STRLEN", key],
                [b"APPEND", key, value],
                [b"GETRANGE", key, self.pick([b"0", b"-2", b"1"]), self.pick([b"-1", b"3", b"0", b"-100"])],
                [b"SETRANGE", key, self.pick([b"0", b"2", b"-1", b"10"]), value],
            ]
        )

    def hashes(self) -> Words:
        key = self.any_key() if self.often(0.2) else b"hash"
        field, value = self.pick(FIELDS), self.pick(VALUES[:6])
        return self.choose.choice(
            [
                [b"HSET", key, field, value],
                [b"HSET", key, field, value, self.pick(FIELDS), self.pick(VALUES[:6])],
                [b"HMSET", key, field, value],
                [b"HSETNX", key, field, value],
                [b"HGET", key, field],
                [b"HMGET", key, field, self.pick(FIELDS)],
                [b"HGETALL", key],
                [b"HKEYS", key],
                [b"HVALS", key],
                [b"HDEL", key, field, self.pick(FIELDS)],
                [b"HLEN", key],
                [b"HSTRLEN", key, field],
                [b"HEXISTS", key, field],
                [b"HINCRBY", key, field, self.pick([b"1", b"-3", b"9223372036854775807"])],
                [b"HSCAN", key, b"0"],
                [b"HINCRBYFLOAT", key, field, self.pick([b"1.5", b"-0.1", b"1e3", b"x"])],
                [b"HRANDFIELD", key, self.pick([b"0", b"100"]), *self.choose.choice([[], [b"WITHVALUES"]])],
            ]
        )

    def fields_that_end(self) -> Words:
        key = self.any_key() if self.often(0.1) else b"hash"
        fields = [self.pick(FIELDS), self.pick(FIELDS)][: self.choose.choice([1, 2])]
        named = [b"FIELDS", b"%d" % len(fields), *fields]
        pairs = [word for field in fields for word in (field, self.pick(VALUES[:6]))]
        set_ = [b"FIELDS", b"%d" % len(fields), *pairs]
        at_s = self.state.time.ms // 1000 + self.choose.choice([5000, 2 * 10**6, -5])
        expiry = self.choose.choice([[b"EX", self.pick(EXPIRE_S)], [b"EXAT", b"%d" % at_s], [b"PX", b"700000"], []])
        condition = self.choose.choice([[], [], [b"NX"], [b"XX"], [b"GT"], [b"LT"]])
        return self.choose.choice(
            [
                [b"HEXPIRE", key, self.pick(EXPIRE_S), *self.shuffled(condition, named)],
                [b"HPEXPIRE", key, b"%d000" % self.choose.choice([400, 1500, 0]), *self.shuffled(condition, named)],
                [b"HEXPIREAT", key, b"%d" % at_s, *self.shuffled(condition, named)],
                [b"HPEXPIREAT", key, b"%d000" % at_s, *self.shuffled(condition, named)],
                [self.pick([b"HTTL", b"HPTTL", b"HEXPIRETIME", b"HPEXPIRETIME"]), key, *named],
                [self.pick([b"HPERSIST", b"HGETDEL"]), key, *named],
                [b"HGETEX", key, *self.shuffled(self.choose.choice([expiry, [b"PERSIST"], []]), named)],
                [
                    *(b"HSETEX", key),
                    *self.shuffled(
                        self.choose.choice([[], [], [b"FNX"], [b"FXX"]]),
                        self.choose.choice([expiry, [b"KEEPTTL"]]),
                        set_,
                    ),
                ],
            ]
        )

    def newer(self) -> Words:
        """Commands that Redis has since 8.4, and DUMP with RESTORE."""
        key = self.any_key() if self.often(0.3) else b"string"
        value = self.pick(VALUES)
        compared = [self.pick([b"IFEQ", b"IFNE"]), self.pick(VALUES)]
        expiry = self.choose.choice([[], [b"EX", b"100"], [b"PX", b"100000"], [b"EX", b"0"]])
        number = self.pick([b"1", b"-7", b"10", b"9223372036854775807", b"-9223372036854775808"])
        bounds = self.choose.choice([[], [b"UBOUND", b"10"], [b"LBOUND", b"-3", b"UBOUND", number]])
        saturated = self.choose.choice([[], [b"SATURATE"]])
        ends = [self.pick([b"LEFT", b"RIGHT"]), self.pick([b"LEFT", b"RIGHT"])]
        many = [self.pick([b"COUNT", b"EXACTLY"]), self.pick([b"1", b"2", b"5", b"0"]), self.pick([b"OBO", b"BULK"])]
        collections = [b"2", self.pick([b"set", b"no key", b"s"]), self.pick([b"set", b"no key"])]
        return self.choose.choice(
            [
                [b"SET", key, value, *self.shuffled(compared, expiry)],
                [b"DELEX", key, *self.choose.choice([[], compared])],
                [b"DIGEST", key],
                [b"MSETEX", b"2", key, value, b"string", b"5", *self.choose.choice([[], expiry, [b"NX"], [b"XX"]])],
                [b"INCREX", key, b"BYINT", number, *self.shuffled(bounds, expiry, saturated)],
                [b"LMOVEM", self.pick([b"list", b"s"]), self.pick([b"list", b"no key"]), *ends, *many],
                [self.pick([b"SUNIONCARD", b"SDIFFCARD"]), *collections, *self.choose.choice([[], [b"LIMIT", b"2"]])],
                [b"BITOP", self.pick([b"DIFF", b"DIFF1", b"ANDOR", b"ONE"]), b"string", b"string", b"no key"],
                [b"HSCAN", b"hash", b"0", b"NOVALUES"],
                [b"ZUNION", b"2", b"zset", self.pick([b"zset", b"set"]), b"AGGREGATE", b"COUNT", b"WITHSCORES"],
            ]
        )

    def lists_and_sets(self) -> Words:
        pushed = self.any_key() if self.often(0.2) else b"list"
        collected = self.any_key() if self.often(0.2) else b"set"
        values = [self.pick(VALUES), self.pick(VALUES)]
        return self.choose.choice(
            [
                [self.pick([b"LPUSH", b"RPUSH"]), pushed, *values],
                [self.pick([b"LPOP", b"RPOP"]), pushed, *self.choose.choice([[], [b"1"], [b"3"], [b"0"]])],
                [b"LLEN", pushed],
                [b"LRANGE", pushed, self.pick([b"0", b"1", b"-2"]), self.pick([b"-1", b"1", b"100"])],
                [self.pick([b"SADD", b"SREM"]), collected, *values],
                [b"SMEMBERS", collected],
                [b"SCARD", collected],
                [b"SISMEMBER", collected, values[0]],
            ]
        )
