"""Rows on keys of any type, on many keys, and on databases."""

from bench.slopes.row import Row, rows

_KEYS = "MSET k#,v*N"
_RESTORE = 'redis.call("RESTORE", KEYS[2], 0, redis.call("DUMP", KEYS[1]), "REPLACE")'
_EXPIRING = "N x SET k# v EX 10000"

MANY_KEYS = (
    *rows(
        _KEYS,
        ("DBSIZE", "1"),
        ("RANDOMKEY", "1"),
        ("EXISTS k7", "1"),
        ("TYPE k7", "1"),
        ("TTL k7", "1"),
        ("PTTL k7", "1"),
        ("EXPIRETIME k7", "1"),
        ("PEXPIRETIME k7", "1"),
        ("PERSIST k7", "1"),
        ("TOUCH k7", "1"),
        ("OBJECT ENCODING k7", "1"),
        ("OBJECT IDLETIME k7", "1"),
        ("OBJECT REFCOUNT k7", "1"),
        Row("OBJECT FREQ k7", "1", refused=True),
        ("MEMORY USAGE k7", "1"),
        ("KEYS *", "n"),
        ("KEYS *7*8*", "n"),
        ("KEYS k7", "n"),
        ("SCAN 0", "1"),
        ("SCAN 0 COUNT {H}", "n"),
        ("SCAN 0 MATCH *7* COUNT {H}", "n"),
        ("SCAN 0 TYPE set COUNT {H}", "n"),
        ("RENAME k7 k7", "1"),
        ("RENAME k8 x ; RENAME x k8", "1"),
        ("RENAMENX k9 k10", "1"),
        ("COPY k7 y", "1"),
        ("MOVE k11 1", "1"),
        ("DEL k12", "1"),
        ("UNLINK k13", "1"),
        ("SWAPDB 0 1 ; SWAPDB 0 1", "1"),
        ("SELECT 0", "1"),
        ("INFO", "1"),
        ("MEMORY STATS", "1"),
        Row("FLUSHDB", "n", fresh=True),
        Row("FLUSHDB ASYNC", "1", fresh=True),
        Row("FLUSHALL", "n", fresh=True),
        Row("FLUSHALL ASYNC", "1", fresh=True),
    ),
    *rows(
        _EXPIRING,
        ("EXPIRE k7 1000", "log"),
        ("PEXPIRE k7 1000000", "log"),
        ("EXPIREAT k7 9999999999", "log"),
        ("PEXPIREAT k7 9999999999999", "log"),
        ("TTL k7", "1"),
        ("PERSIST k8", "1"),
        ("SCAN 0 COUNT 10", "1"),
        ("RANDOMKEY", "1"),
        ("DBSIZE", "1"),
        ("DEL k9", "1"),
        ("SET k7 v EX 1000", "log"),
        ("SETEX k7 1000 v", "log"),
        ("PSETEX k7 1000000 v", "log"),
        ("GETEX k7 EX 1000", "log"),
        Row("FLUSHALL", "n", fresh=True),
        n=12_500,
    ),
    *rows(
        _KEYS,
        Row("DEL k#*N", fresh=True, whole=True),
        Row("UNLINK k#*N", fresh=True, whole=True),
        Row("EXISTS k#*N"),
        Row("TOUCH k#*N"),
        Row("WATCH k7 ; UNWATCH", "1"),
    ),
    Row("DEL k#*N"),
    Row("UNLINK k#*N"),
)


def _of_a_large_value(make: str) -> tuple[Row, ...]:
    """Return rows of a key `s` with a large value of some type."""
    return rows(
        make,
        ("TYPE s", "1"),
        ("EXISTS s", "1"),
        ("TOUCH s", "1"),
        ("OBJECT ENCODING s", "1"),
        ("OBJECT IDLETIME s", "1"),
        ("OBJECT REFCOUNT s", "1"),
        Row("OBJECT FREQ s", "1", refused=True),
        ("MEMORY USAGE s", "1"),
        ("EXPIRE s 1000", "1"),
        ("PERSIST s", "1"),
        ("RENAME s t ; RENAME t s", "1"),
        ("RENAMENX s t ; RENAME t s", "1"),
        Row("MOVE s 1", "1", fresh=True),
        Row("COPY s t REPLACE", "n", whole=True),
        Row("DUMP s", "n", whole=True),
        Row(f"EVAL '{_RESTORE}' 2 s t", "n", whole=True, command="restore"),
        Row("MIGRATE 127.0.0.1 1 s 0 100", "n", whole=True, refused=True),
        Row("UNLINK s", "n", fresh=True),
        Row("DEL s", "n", fresh=True),
        Row("SET s v", "n", fresh=True),
    )


SORTS = (
    *rows(
        "RPUSH l #*N",
        Row("SORT l", "n log", whole=True),
        Row("SORT l ALPHA", "n log", whole=True),
        Row("SORT l DESC LIMIT 5 5", "n log", whole=True),
        ("SORT l BY nosort LIMIT 5 5", "n"),
        Row("SORT l BY nosort GET k# GET #", "n", whole=True),
        Row("SORT l STORE d", "n log", whole=True),
        Row("SORT_RO l", "n log", whole=True),
        Row("SORT_RO l BY w_* GET v_*", "n log", whole=True),
    ),
    *rows("SADD s #*N", Row("SORT s", "n log", whole=True), Row("SORT_RO s ALPHA", "n log", whole=True)),
    *rows("ZADD z #,m#*N", Row("SORT z ALPHA", "n log", whole=True), ("SORT z BY nosort LIMIT 5 5", "n")),
    Row("SORT l BY nosort GET,v_**N", "n", prepare="RPUSH l 1 2 3"),
    Row("SORT_RO l BY nosort GET,v_**N", "n", prepare="RPUSH l 1 2 3"),
)

KEYSPACE = (
    *MANY_KEYS,
    *_of_a_large_value("SADD s m#*N"),
    *_of_a_large_value("HSET s f#,v*N"),
    *_of_a_large_value("ZADD s #,m#*N"),
    *_of_a_large_value("RPUSH s e#*N"),
    *_of_a_large_value("N x XADD s #-1 f v ; XGROUP CREATE s g 0 ; XREADGROUP GROUP g c COUNT N STREAMS s >"),
    *SORTS,
)
