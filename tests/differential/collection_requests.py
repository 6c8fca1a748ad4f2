"""Random requests about collections, and those that wait for elements."""

from tests.differential.key_requests import KeyRequests, Words
from tests.differential.words import COUNTS, LEX_BOUNDS, MEMBERS, PLACES, SCORE_BOUNDS, SCORES

_KEYS_OF = {
    b"zset": [b"zset", b"zset", b"zset", b"zother"],
    b"list": [b"list", b"list", b"list", b"lother"],
    b"set": [b"set", b"set", b"set", b"sother"],
}


# Runs the commands in ARGV, each behind the number of its words, and returns their replies.
_RUN_ALL = b"""
local replies, at = {}, 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  if not count or count < 1 or count > 100 then return 'no number of words' end
  local reply = redis[KEYS[1]](unpack(ARGV, at + 1, at + count))
  if type(reply) == 'table' and reply.err then reply = 'error ' .. reply.err end
  if not reply then reply = 'nothing' end
  replies[#replies + 1] = reply
  at = at + count + 1
end
return replies
"""
# What these return has no order, which a script's reply does not show.
_UNORDERED = {b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF", b"SSCAN", b"ZSCAN", b"SRANDMEMBER", b"SPOP", b"OBJECT"}


class CollectionRequests(KeyRequests):
    """The part of the author that knows collections.

    may_block: whether a request may leave its client waiting.
    """

    may_block = True

    def key_of(self, kind: bytes) -> bytes:
        if self.often(0.02):
            return self.any_key()
        return self.pick(_KEYS_OF[kind])

    def members(self) -> Words:
        return [self.pick(MEMBERS) for _ in range(self.choose.choice([1, 1, 2, 3]))]

    def pairs(self) -> Words:
        scores = SCORES if self.often(0.5) else SCORES[:5]
        return [word for member in self.members() for word in (self.pick(scores), member)]

    def counted(self, kind: bytes) -> Words:
        keys = [self.key_of(kind) for _ in range(self.choose.choice([1, 2, 2, 3]))]
        return [b"%d" % len(keys), *keys]

    def maybe(self, *words: bytes) -> Words:
        return list(words) if self.often(0.3) else []

    def limit(self) -> Words:
        return self.maybe(b"LIMIT", self.pick([b"0", b"1", b"2", b"-1"]), self.pick([b"-1", b"0", b"1", b"2", b"10"]))

    def sorted_set_writes(self) -> Words:
        key = self.key_of(b"zset")
        option = self.choose.choice([[], [], [], [b"NX"], [b"XX"], [b"GT"], [b"LT"], [b"XX", b"GT"], [b"GT", b"LT"]])
        return self.choose.choice(
            [
                [b"ZADD", key, *option, *self.maybe(b"CH"), *self.pairs()],
                [b"ZADD", key, *option, *self.maybe(b"CH"), *self.pairs()],
                [b"ZADD", key, *self.pairs()],
                [b"ZADD", key, *option, b"INCR", self.pick(SCORES), self.pick(MEMBERS)],
                [b"ZINCRBY", key, self.pick(SCORES), self.pick(MEMBERS)],
                [b"ZREM", key, *self.members()],
                [b"ZREMRANGEBYRANK", key, self.pick(PLACES), self.pick(PLACES)],
                [b"ZREMRANGEBYSCORE", key, self.pick(SCORE_BOUNDS), self.pick(SCORE_BOUNDS)],
                [self.pick([b"ZPOPMIN", b"ZPOPMAX"]), key, *self.maybe(self.pick([b"0", b"1", b"2", b"-1"]))],
                [b"ZMPOP", *self.counted(b"zset"), self.pick([b"MIN", b"MAX"]), *self.maybe(b"COUNT", b"2")],
                [b"ZRANGESTORE", key, self.key_of(b"zset"), *self.range_words(), *self.limit()],
                [self.pick([b"ZUNIONSTORE", b"ZINTERSTORE"]), key, *self.algebra()],
                [b"ZDIFFSTORE", key, *self.counted(b"zset")],
            ]
        )

    def range_words(self) -> Words:
        kind = self.choose.randrange(3)
        if kind == 0:
            return [self.pick(PLACES), self.pick(PLACES), *self.maybe(b"REV")]
        if kind == 1:
            return [self.pick(SCORE_BOUNDS), self.pick(SCORE_BOUNDS), b"BYSCORE", *self.maybe(b"REV")]
        return [self.pick(SCORE_BOUNDS[:5]), self.pick(SCORE_BOUNDS[:5]), b"BYSCORE"]

    def algebra(self) -> Words:
        counted = self.counted(b"zset")
        if self.often(0.2):
            counted = [b"2", self.key_of(b"zset"), b"set"]
        weights = [self.pick([b"1", b"2", b"-1", b"0", b"0.5", b"inf"]) for _ in counted[1:]]
        aggregate = self.maybe(b"AGGREGATE", self.pick([b"SUM", b"MIN", b"MAX"]))
        return [*counted, *self.shuffled(self.maybe(b"WEIGHTS", *weights), aggregate)]

    def sorted_set_reads(self) -> Words:
        key = self.key_of(b"zset")
        low, high = self.pick(SCORE_BOUNDS), self.pick(SCORE_BOUNDS)
        shown = self.maybe(b"WITHSCORES")
        return self.choose.choice(
            [
                [b"ZRANGE", key, *self.range_words(), *self.limit(), *shown],
                [b"ZRANGE", key, *self.range_words(), *shown],
                [b"ZREVRANGE", key, self.pick(PLACES), self.pick(PLACES), *shown],
                [self.pick([b"ZRANGEBYSCORE", b"ZREVRANGEBYSCORE"]), key, low, high, *self.limit(), *shown],
                [b"ZCOUNT", key, low, high],
                [self.pick([b"ZRANK", b"ZREVRANK"]), key, self.pick(MEMBERS)],
                [b"ZCARD", key],
                [b"ZSCORE", key, self.pick(MEMBERS)],
                [b"ZMSCORE", key, *self.members()],
                [b"ZSCAN", key, b"0", *self.maybe(b"MATCH", b"b*")],
                [b"ZRANDMEMBER", b"nothing", *self.maybe(b"2", b"WITHSCORES")],
                [self.pick([b"ZUNION", b"ZINTER"]), *self.algebra(), *shown],
                [b"ZDIFF", *self.counted(b"zset"), *shown],
                [b"ZINTERCARD", *self.counted(b"zset"), *self.maybe(b"LIMIT", self.pick([b"0", b"1", b"-1"]))],
                [b"OBJECT", b"ENCODING", b"zset"],
            ]
        )

    def lexical(self) -> Words:
        """Return a request to a sorted set whose members all have one score."""
        low, high = self.pick(LEX_BOUNDS), self.pick(LEX_BOUNDS)
        return self.choose.choice(
            [
                [b"ZADD", b"zlex", *(word for member in self.members() for word in (b"0", member))],
                [b"ZADD", b"zlex", *(word for member in self.members() for word in (b"0", member))],
                [b"ZRANGE", b"zlex", low, high, b"BYLEX", *self.maybe(b"REV"), *self.limit()],
                [b"ZRANGEBYLEX", b"zlex", low, high, *self.limit()],
                [b"ZREVRANGEBYLEX", b"zlex", high, low, *self.limit()],
                [b"ZLEXCOUNT", b"zlex", low, high],
                [b"ZREMRANGEBYLEX", b"zlex", low, high],
                [b"ZRANGESTORE", b"zlex", b"zlex", low, high, b"BYLEX"] if self.often(0.3) else [b"ZCARD", b"zlex"],
            ]
        )

    def lists(self) -> Words:
        key, element = self.key_of(b"list"), self.pick(MEMBERS[:5])
        count = self.pick([b"0", b"1", b"2", b"-1", b"-2"])
        return self.choose.choice(
            [
                [self.pick([b"LPUSH", b"RPUSH"]), key, *self.members(), element],
                [self.pick([b"LPUSH", b"RPUSH"]), key, *self.members(), element],
                [self.pick([b"LPUSHX", b"RPUSHX"]), key, element],
                [self.pick([b"LPOP", b"RPOP"]), key, *self.maybe(b"2")],
                [b"LINDEX", key, self.pick(PLACES)],
                [b"LSET", key, self.pick(PLACES), element],
                [b"LINSERT", key, self.pick([b"BEFORE", b"AFTER"]), self.pick(MEMBERS), element],
                [b"LTRIM", key, self.pick(PLACES), self.pick(PLACES)],
                [b"LREM", key, count, element],
                [b"LPOS", key, element, *self.shuffled(
                    self.maybe(b"RANK", count), self.maybe(b"COUNT", self.pick(COUNTS)), self.maybe(b"MAXLEN", b"2")
                )],
                [b"LMPOP", *self.counted(b"list"), *self.end(), *self.maybe(b"COUNT", self.pick(COUNTS))],
                [b"LMOVE", key, self.key_of(b"list"), *self.end(), *self.end()],
                [b"RPOPLPUSH", key, self.key_of(b"list")],
                [b"LRANGE", key, b"0", b"-1"],
            ]
        )  # fmt: skip

    def sets(self) -> Words:
        key, other, member = self.key_of(b"set"), self.key_of(b"set"), self.pick(MEMBERS)
        keys = [key, *self.maybe(other), *self.maybe(b"sother")]
        return self.choose.choice(
            [
                [b"SADD", key, *self.members()],
                [b"SADD", key, *self.members()],
                [b"SREM", key, *self.members()],
                [b"SMOVE", key, other, member],
                [b"SMISMEMBER", key, *self.members()],
                [b"SPOP", key, self.pick([b"0", b"100", b"-1"])] if self.often(0.2) else [b"SPOP", b"nothing"],
                [b"SRANDMEMBER", key, self.pick([b"0", b"100"])] if self.often(0.5) else [b"SRANDMEMBER", b"nothing"],
                [self.pick([b"SINTER", b"SUNION", b"SDIFF"]), *keys],
                [self.pick([b"SINTER", b"SUNION", b"SDIFF"]), *keys],
                [self.pick([b"SINTERSTORE", b"SUNIONSTORE", b"SDIFFSTORE"]), other, *keys],
                [b"SINTERCARD", *self.counted(b"set"), *self.maybe(b"LIMIT", self.pick([b"0", b"1", b"-1"]))],
                [b"SSCAN", key, b"0", *self.maybe(b"MATCH", b"b*")],
                [b"SMEMBERS", key],
            ]
        )

    def bits(self) -> Words:
        key, other = self.pick([b"bits", b"bits", b"string"]), self.pick([b"bits", b"other bits"])
        offset = self.pick([b"0", b"1", b"7", b"8", b"23", b"100", b"-1"])
        places = [self.pick(PLACES), self.pick(PLACES), *self.maybe(self.pick([b"BIT", b"BYTE"]))]
        places = places if self.often(0.7) else self.maybe(b"1")
        return self.choose.choice(
            [
                [b"SETBIT", key, offset, self.pick([b"0", b"1", b"1", b"2"])],
                [b"SETBIT", key, offset, b"1"],
                [b"GETBIT", key, offset],
                [b"BITCOUNT", key, *places],
                [b"BITPOS", key, self.pick([b"0", b"1", b"2"]), *places],
                [b"BITOP", self.pick([b"AND", b"OR", b"XOR"]), other, key, other, *self.maybe(b"string")],
                [b"BITOP", b"NOT", other, key],
                [self.pick([b"BITFIELD", b"BITFIELD", b"BITFIELD_RO"]), key, *self.fields_of_bits()],
                [b"BITFIELD", key, *self.fields_of_bits()],
                [b"SET", key, self.pick([b"\xff\xff", b"\0\0", b"\x7f", b"", b"\xff\xf0\0"])],
            ]
        )

    def fields_of_bits(self) -> Words:
        words = []
        for _ in range(self.choose.randrange(4)):
            kind = self.pick([b"u1", b"u8", b"i5", b"i8", b"u63", b"i64", b"i13"] * 4 + [b"u64", b"i0", b"I8", b"u"])
            place = self.pick([b"0", b"3", b"7", b"#0", b"#1", b"#2", b"100"] * 4 + [b"-1", b"#", b"x"])
            number = self.pick([b"0", b"1", b"-1", b"127", b"-128", b"9223372036854775807", b"-9223372036854775808"])
            operation = self.pick([b"GET", b"SET", b"INCRBY", b"INCRBY"])
            words += self.maybe(b"OVERFLOW", self.pick([b"WRAP", b"SAT", b"SAT", b"FAIL", b"fail"]))
            words += [operation, kind, place, *([] if operation == b"GET" else [number])]
        return words + self.maybe(b"GET") if self.often(0.1) else words

    def sorting(self) -> Words:
        numbers = [self.pick([b"1", b"2", b"10", b"-3", b"0.5", b"30"]) for _ in range(4)]
        key = self.pick([b"numbers", b"numbers", b"list", b"zset", b"set", b"s"])
        options = self.shuffled(
            self.maybe(b"BY", self.pick([b"w_*", b"h_*->f", b"nosort", b"h_*->", b"*->f"])),
            [b"LIMIT", self.pick([b"0", b"1", b"-1"]), self.pick([b"2", b"-1", b"0"])] if self.often(0.3) else [],
            self.maybe(b"GET", self.pick([b"#", b"w_*", b"h_*->f", b"constant"])),
            self.maybe(b"GET", b"#"),
            self.maybe(self.pick([b"ASC", b"DESC"])),
            [b"ALPHA"] if self.often(0.6) else [],
        )
        if b"BY" in options and b"ALPHA" in options:
            options.remove(b"ALPHA")  # the order of equal words is that of a sort that is not stable
        return self.choose.choice(
            [
                [b"RPUSH", b"numbers", *numbers],
                [b"DEL", b"numbers"],
                [b"SET", b"w_" + self.pick([*numbers, b"a", b"b", b"c"]), self.pick([*numbers, b"a", b"x"])],
                [b"HSET", b"h_" + self.pick([*numbers, b"a", b"b", b"c"]), b"f", self.pick(numbers)],
                [b"SORT", key, *options],
                [b"SORT", key, *options],
                [b"SORT", key, *options, b"STORE", b"sorted"],
                [b"SORT_RO", key, *options],
                [b"LRANGE", b"sorted", b"0", b"-1"],
                [b"LCS", b"bits", b"string", *self.shuffled(
                    self.maybe(b"IDX"), self.maybe(b"LEN"), self.maybe(b"WITHMATCHLEN"),
                    self.maybe(b"MINMATCHLEN", self.pick([b"1", b"2", b"-1", b"x"])),
                )],
                [b"MSET", b"string", self.pick([b"ohmytext", b"mynewtext", b"aXbXc"]), b"bits", b"mytestnext"],
            ]
        )  # fmt: skip

    def end(self) -> Words:
        return [self.pick([b"LEFT", b"RIGHT"])]

    def waiting_pops(self) -> Words:
        """Return a pop that may wait; the first client never does, so that somebody is left to go on."""
        if not self.may_block:
            return self.sorted_set_writes() if self.often(0.5) else self.lists()
        timeout = self.pick([b"0", b"1000", b"0", b"-1", b"x", b"1000.5"])
        kind = self.pick([b"zset", b"list"])
        keys = [self.key_of(kind) for _ in range(self.choose.choice([1, 1, 2]))]
        if kind == b"zset":
            end = self.pick([b"MIN", b"MAX"])
            return self.choose.choice(
                [
                    [self.pick([b"BZPOPMIN", b"BZPOPMAX"]), *keys, timeout],
                    [b"BZMPOP", timeout, *self.counted(kind), end, *self.maybe(b"COUNT", b"2")],
                ]
            )
        return self.choose.choice(
            [
                [self.pick([b"BLPOP", b"BRPOP"]), *keys, timeout],
                [b"BLMPOP", timeout, *self.counted(kind), *self.end(), *self.maybe(b"COUNT", b"2")],
                [b"BLMOVE", keys[0], self.key_of(kind), *self.end(), *self.end(), timeout],
                [b"BRPOPLPUSH", keys[0], self.key_of(kind), timeout],
            ]
        )

    def scripts(self) -> Words:
        """Return a script of several commands; by `call` the first error ends it, and what it has done stays."""
        parts = [self.sorted_set_writes, self.sorted_set_writes, self.sorted_set_reads, self.lexical]
        parts += [self.lists, self.lists, self.sets, self.bits]
        words: Words = []
        for _ in range(self.choose.choice([1, 2, 3, 5])):
            command = self.choose.choice(parts)()
            if command[0] not in _UNORDERED:
                words += [b"%d" % len(command), *command]
        return [b"EVAL", _RUN_ALL, b"1", self.pick([b"pcall", b"pcall", b"call"]), *words]

    def about_collections(self) -> Words:
        """Return some request of this part."""
        parts = [
            *(self.sorted_set_writes, self.sorted_set_writes, self.sorted_set_reads, self.lexical),
            *(self.lists, self.lists, self.waiting_pops, self.sets, self.bits, self.sorting),
        ]
        return self.choose.choice(parts)()
