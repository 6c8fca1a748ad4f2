"""Rows of connections, channels, scripts, users and the server itself."""

import streamd.commands  # noqa: F401  (declares the commands)
from bench.slopes.row import BYTES, Row, rows
from streamd.catalog import COMMANDS

_FILL = "MSET k#,v*100"

CONNECTION = (
    *rows(
        "N x @ PING",
        ("PING", "1"),
        ("ECHO hello", "1"),
        ("AUTH default any", "1"),
        ("HELLO", "1"),
        ("HELLO 3 ; HELLO 2", "1"),
        ("RESET", "1"),
        ("CLIENT ID", "1"),
        ("CLIENT INFO", "1"),
        ("CLIENT LIST", "n"),
        ("CLIENT LIST ID 5 6", "1"),
        ("CLIENT GETNAME", "1"),
        ("CLIENT SETNAME a", "1"),
        ("CLIENT SETINFO LIB-NAME a", "1"),
        ("CLIENT GETREDIR", "1"),
        ("CLIENT KILL ID 999999", "n"),
        ("CLIENT KILL TYPE replica", "n"),
        Row("CLIENT KILL 1.2.3.4:5", "n", refused=True),
        ("CLIENT NO-EVICT ON", "1"),
        ("CLIENT NO-TOUCH ON ; CLIENT NO-TOUCH OFF", "1"),
        ("CLIENT PAUSE 0", "1"),
        ("CLIENT UNPAUSE", "n"),
        ("CLIENT REPLY ON", "1"),
        ("CLIENT TRACKING OFF", "1"),
        ("CLIENT TRACKINGINFO", "1"),
        ("CLIENT UNBLOCK 999999", "1"),
        Row("CLIENT CACHING YES", "1", refused=True),
        ("TIME", "1"),
        ("ROLE", "1"),
        ("REPLICAOF NO ONE", "1"),
        ("SLAVEOF NO ONE", "1"),
        ("REPLCONF capa,streamd*N", "n"),
        Row("PSYNC ? x", "1", refused=True),
        Row("FAILOVER", "1", refused=True),
        ("LASTSAVE", "1"),
        ("SELECT 1 ; SELECT 0", "1"),
        ("WAIT 0 1", "1"),
        ("WAITAOF 0 0 1", "1"),
        ("MONITOR ; RESET", "1"),
        ("SLOWLOG LEN", "1"),
        ("INFO", "1"),
        ("INFO everything", "1"),
        ("MEMORY DOCTOR", "n"),
        ("MEMORY MALLOC-STATS", "1"),
        ("MEMORY PURGE", "1"),
        ("ACL WHOAMI", "1"),
        n=125,
    ),
    Row("ECHO x^N", n=BYTES),
    Row("PING x^N", n=BYTES),
    Row("CLIENT LIST ID #*N"),
    Row("CLIENT TRACKING ON BCAST PREFIX,#:*N ; CLIENT TRACKING OFF", before="HELLO 3", n=1_000),
    *rows("@ CLIENT TRACKING ON BCAST", Row("MSET key:#,v*N", whole=True), n=20_000),
    *rows("@ CLIENT TRACKING ON BCAST PREFIX,#:*N", Row("SET 7:x v", "1"), Row("SET other v", "1"), n=1_000),
    Row("INFO server*N"),
    Row("CLIENT SETNAME x^N", n=BYTES),
)

CHANNELS = (
    *rows("N x @ SUBSCRIBE c", ("PUBLISH c message", "n"), ("PUBSUB NUMSUB c", "1"), ("PUBSUB CHANNELS", "1"), n=125),
    *rows("@ SUBSCRIBE c#*N", ("PUBLISH c7 message", "1"), ("PUBSUB CHANNELS", "n"), ("PUBSUB CHANNELS *7*", "n")),
    *rows("@ PSUBSCRIBE p#*N", ("PUBLISH c7 message", "n"), ("PUBSUB NUMPAT", "1"), n=2_500),
    *rows("@ SUBSCRIBE c", Row("PUBLISH c x^N", n=BYTES)),
    Row("PUBSUB NUMSUB c#*N"),
    Row("PUBSUB SHARDNUMSUB c#*N"),
    Row("PUBSUB SHARDCHANNELS", "1"),
    Row("SUBSCRIBE c#*N ; UNSUBSCRIBE", whole=True),
    Row("UNSUBSCRIBE c#*N", whole=True),
    Row("PSUBSCRIBE c#*N ; PUNSUBSCRIBE", whole=True),
    Row("PUNSUBSCRIBE c#*N", whole=True),
)

TRANSACTIONS = (
    Row("MULTI ; N x SET k# v ; EXEC", command="EXEC", whole=True),
    Row("MULTI ; N x SET k# v ; DISCARD", command="DISCARD"),
    Row("MULTI ; DISCARD", "1", before="MSET k#,v*N"),
    Row("WATCH k#*N ; UNWATCH", n=1_000),  # (redis-server looks through those that are watched already)
    Row("UNWATCH", before="WATCH k#*N", n=1_000),
)

_FUNCTION = "{function_name='f', callback=function(k, a) return #a end, flags={'no-writes'}}"
_CODE = f"#!lua name=l\nredis.register_function{_FUNCTION}"
_LIBRARY = f'FUNCTION LOAD "{_CODE}"'

SCRIPTS = (
    Row("EVAL 'return #ARGV' 0 a#*N", whole=True),
    Row("EVAL 'return #KEYS' N a#*N", whole=True),
    Row("EVAL 'return ARGV' 0 a#*N", whole=True),
    Row("EVAL_RO 'return #ARGV' 0 a#*N", whole=True),
    Row("EVAL 'for i = 1, {N} do redis.call(\"SET\", i, i) end' 0", whole=True),
    Row("EVAL 'local s = 0 for i = 1, {N} do s = s + i end return s' 0", whole=True),
    Row("EVAL 'return #redis.call(\"SMEMBERS\", KEYS[1])' 1 s", prepare="SADD s m#*N", whole=True),
    Row("EVAL_RO 'return #redis.call(\"SMEMBERS\", KEYS[1])' 1 s", prepare="SADD s m#*N", whole=True),
    Row("EVAL 'local t = {} for i = 1, {N} do t[i] = i end return cjson.encode(t)' 0", whole=True),
    Row("EVAL 'return #cjson.decode(ARGV[1])' 0 [1^1", refused=True, order="1"),
    Row("EVAL 'local t = {} for i = 1, {N} do t[i] = i end return #cmsgpack.pack(t)' 0", whole=True),
    Row("EVAL 'local t = {} for i = 1, {N} do t[i] = i end return #cmsgpack.unpack(cmsgpack.pack(t))' 0", whole=True),
    Row("EVAL 'local t = {} for i = 1, {N} do t[i] = struct.pack(\">I4\", i) end return #t' 0", whole=True),
    Row("EVAL 'for i = 1, {N} do redis.sha1hex(\"a\") end' 0", whole=True),
    Row("EVAL 'for i = 1, {N} do bit.band(i, 5) end' 0", whole=True),
    Row("EVAL 'return redis.sha1hex(ARGV[1])' 0 x^N", n=BYTES),
    Row("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 a#*N", before="SCRIPT LOAD 'return 1'", refused=True),
    Row("EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 a#*N", before="SCRIPT LOAD 'return 1'", refused=True),
    *rows("SCRIPT FLUSH ; N x SCRIPT LOAD 'return #'", ("EVAL 'return 1' 0", "1"), ("SCRIPT EXISTS abc", "1"), n=100),
    Row("SCRIPT FLUSH", prepare="SCRIPT FLUSH ; N x SCRIPT LOAD 'return #'", fresh=True, n=100),
    Row("SCRIPT EXISTS a#*N"),
    Row("SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", prepare="SCRIPT LOAD 'return 1'"),
    Row("SCRIPT KILL", "1", refused=True),
    Row("SCRIPT LOAD 'return #ARGV --x^N'", n=BYTES),
    *rows(
        "FUNCTION FLUSH ; " + _LIBRARY,
        Row("FCALL f 0 a#*N", whole=True),
        Row("FCALL_RO f 0 a#*N", whole=True),
        Row("FUNCTION DUMP", "1"),
    ),
    Row(f'FUNCTION LOAD "{_CODE} --x^N"', n=BYTES, before="FUNCTION FLUSH"),
    Row("FUNCTION RESTORE x^N", refused=True, n=BYTES),
    Row("FUNCTION DELETE l", "1", prepare="FUNCTION FLUSH ; " + _LIBRARY, fresh=True),
    Row("FUNCTION FLUSH", "1"),
    Row("FUNCTION LIST", "1"),
    Row("FUNCTION STATS", "1"),
    Row("FUNCTION KILL", "1", refused=True),
)

USERS = (
    *rows(
        "N x ACL SETUSER u# on >p ~a* +get",
        ("ACL USERS", "n"),
        ("ACL LIST", "n"),
        ("ACL GETUSER u7", "1"),
        ("ACL SETUSER u7 +set", "1"),
        ("ACL DELUSER u8", "1"),
        ("ACL DRYRUN u7 GET a", "1"),
        ("ACL WHOAMI", "1"),
        Row("ACL SAVE", "n", refused=True),
        Row("ACL LOAD", "n", refused=True),
        ("AUTH u7 p ; AUTH default any", "1"),
        n=1_000,
    ),
    *rows("ACL SETUSER u on >p ~p#*N", ("ACL GETUSER u", "n"), ("ACL DRYRUN u GET other", "n"), n=2_000),
    Row("ACL SETUSER v ~p#*N", n=2_500),
    Row("ACL DELUSER u#*N"),
    Row("ACL DRYRUN default MGET k#*N"),
    Row("ACL CAT", "1"),
    Row("ACL CAT stream", "1"),
    Row("ACL GENPASS 256", "1"),
    Row("ACL LOG", "1"),
    Row("ACL LOG 10", "1"),
    Row("ACL LOG RESET", "1"),
)

SERVER_ITSELF = (
    Row("COMMAND", "1"),
    Row("COMMAND COUNT", "1"),
    Row("COMMAND LIST", "1"),
    Row("COMMAND INFO get*N", n=250),
    Row("COMMAND DOCS get*N", n=250),
    Row("COMMAND GETKEYS MSET k#,v*N", n=2_500),
    Row("COMMAND GETKEYSANDFLAGS MSET k#,v*N", n=2_500),
    Row("CONFIG GET maxmemory*N", n=2_500),
    Row("CONFIG GET *", "1"),
    Row("CONFIG SET slowlog-max-len 128", "1"),
    Row("CONFIG RESETSTAT", "1"),
    Row("CONFIG REWRITE", "1", refused=True),
    Row("INFO", "1", prepare=_FILL),
    Row("LATENCY LATEST", "1"),
    Row("LATENCY DOCTOR", "1"),
    Row("LATENCY GRAPH command", "1", refused=True),
    Row("LATENCY HISTORY command", "1"),
    Row("LATENCY HISTOGRAM get*N", n=2_500),
    Row("LATENCY RESET e#*N"),
    Row(
        "SLOWLOG GET N",
        prepare="SLOWLOG RESET ; CONFIG SET slowlog-log-slower-than 0 ; CONFIG SET slowlog-max-len 100000 ; N x GET k",
        n=2_500,
    ),
    Row("SLOWLOG LEN", "1"),
    Row("SLOWLOG RESET", prepare="SLOWLOG RESET ; N x GET k", fresh=True, n=2_500),
    Row("SLOWLOG LEN", "1", before="CONFIG SET slowlog-log-slower-than 10000 ; CONFIG SET slowlog-max-len 128"),
    Row("MODULE LIST", "1"),
    Row("SAVE", prepare="MSET k#,v*N", whole=True),
    Row("BGSAVE", "1", refused=True),
    Row("BGREWRITEAOF", "1", refused=True),
    Row("DEBUG SLEEP 0", "1"),
    Row("JOURNAL BEGIN 10", "1", refused=True),
    Row("JOURNAL MARK", "1", refused=True),
    Row("JOURNAL READ 0 0 10", "1", refused=True),
    Row("JOURNAL END", "1", refused=True),
    Row("BACKUP BEGIN 10", "1", refused=True),
    Row("BACKUP MARK", "1", refused=True),
    Row("BACKUP READ 0 0 10", "1", refused=True),
    Row("BACKUP END", "1", refused=True),
)

# All of them refused: there is no cluster.
CLUSTER = tuple(
    Row(" ".join([name.replace("|", " "), *["1"] * (abs(one.arity) - len(name.split("|")))]), "1", refused=True)
    for container in (b"cluster", b"readonly", b"readwrite", b"asking")
    for one in (COMMANDS[container].subcommands or {b"": COMMANDS[container]}).values()
    for name in (one.name.upper(),)
    if name != "CLUSTER|HELP"
)

# What a container has no row for by its subcommands: their list.
HELPS = tuple(
    Row(f"{name.decode()} HELP", "1", refused=name == b"cluster")
    for name, one in sorted(COMMANDS.items())
    if b"help" in one.subcommands
)

SERVER = (*CONNECTION, *CHANNELS, *TRANSACTIONS, *SCRIPTS, *USERS, *SERVER_ITSELF, *CLUSTER, *HELPS)
