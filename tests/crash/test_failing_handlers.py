"""Whatever fails under a command, at whichever access to the data, the server lives and what is recorded is there."""

import errno
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import streamd
from streamd.catalog import COMMANDS, Command, CommandTable
from tests.accesses import ACCESSES, PREPARED
from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

pytestmark = pytest.mark.interpreted(reason="it fails at calls, which only Python's frames show")

ROOMS = str(Path(streamd.__file__).parent)
# An access is a call from the one into the other: of what a structure does within itself nothing is cut in two.
CALLERS = (f"{ROOMS}/commands/",)
PLACES = ("data/", "stream/", "idmp/", "connected/", "acl/", "engine/access.py", "catalog/context.py")
CALLED = tuple(f"{ROOMS}/{place}" for place in PLACES)

# What stands in no other table of requests, so that there is one for every command but those below.
MORE = """
DECR num ; INCRBY num 2 ; DECRBY num 2 ; BITFIELD str SET u8 0 5 INCRBY u8 8 1 ; PSETEX str 100000 v ; SETRANGE new 2 x
PEXPIRE str 100000 ; EXPIREAT str 9999999999 ; PEXPIREAT str 9999999999999 ; EXPIRE str 0 ; SET str x PX 100000 GET
HEXPIRE hash 100 FIELDS 1 f ; HPEXPIRE hash 0 FIELDS 2 f g ; HEXPIREAT hash 9999999999 FIELDS 1 f ; HMSET new f 1
HPEXPIREAT hash 9999999999999 FIELDS 1 f ; HPERSIST hash FIELDS 1 f ; HGETEX hash PX 100000 FIELDS 1 f
HGETDEL hash FIELDS 2 f g ; HSETEX new PX 100000 FIELDS 1 f v ; HSET new f v ; HINCRBY new f 1 ; HDEL hash f g
DELEX str IFNE x ; DELEX str ; INCREX num EX 100 ; INCREX num BYFLOAT 0.5 PERSIST ; MSETEX 2 str x new y EX 100
SET str x IFEQ abcdef ; SET str x EXAT 1 ; LMOVEM list new LEFT RIGHT COUNT 9 BULK
LMOVEM list list LEFT LEFT COUNT 2 OBO ; BLMOVEM list new LEFT LEFT 0 EXACTLY 2 OBO
BITOP ONE new str num ; ZUNIONSTORE new 1 zset AGGREGATE COUNT
RPUSH new a ; RPUSHX list a ; BRPOP list 0 ; BLMPOP 0 1 list LEFT ; BLMOVE list new LEFT LEFT 0 ; RPOPLPUSH list list
BRPOPLPUSH list new 0 ; LPOP list 9 ; LMOVE list other LEFT RIGHT ; LTRIM list 5 9
SADD new a ; SINTERSTORE new set set ; SDIFFSTORE set set set ; SORT list ALPHA STORE new ; SPOP set 9 ; SREM set a b
SMOVE set new a ; SUNIONSTORE set set new
ZADD new 1 a ; ZINCRBY new 1 a ; ZREMRANGEBYSCORE zset 0 9 ; ZREMRANGEBYLEX zset - + ; ZINTERSTORE new 1 zset
ZDIFFSTORE zset 2 zset zset ; ZPOPMAX zset 9 ; BZPOPMAX zset 0 ; BZMPOP 0 1 zset MIN ; ZRANGESTORE zset zset 0 0
SWAPDB 0 1 ; FLUSHALL ; FLUSHALL ASYNC ; FUNCTION FLUSH ; COPY stream new ; RENAME stream new ; MOVE stream 1
MIGRATE h 1 str 0 1 ; DUMP stream
RESTORE new 0 \0\1v\1\0\0\0\0\0\0\0\0\0 ; RESTORE str 1 \0\1v\1\0\0\0\0\0\0\0\0\0 REPLACE ABSTTL
XACKDEL stream g DELREF IDS 1 1-1 ; XCFGSET stream IDMP-DURATION 5 IDMP-MAXSIZE 2 ; XDELEX stream ACKED IDS 1 1-1
XIDMP CFGSET stream DURATION 6 ; XIDMPRECORD stream p i 1-1 ; XNACK stream g FAIL IDS 1 1-1
XDELEX stream DELREF IDS 1 2-1 ; DEL stream
XADD stream IDMP p i * f v ; XADD new IDMPAUTO p * f v ; XADD stream IDMP p i MAXLEN = 1 * f v
XADD stream MINID ~ 9 * f v ; XADD new IDMP p i 5-* f v ; XGROUP CREATE new g 0 MKSTREAM
XCLAIM stream g d 0 1-1 2-1 FORCE ; XTRIM stream MINID 9
XREADGROUP GROUP g d CLAIM 0 STREAMS stream > ; XREADGROUP GROUP g c NOACK STREAMS stream > ; XAUTOCLAIM stream g d 0 0
SUBSTR str 0 1 ; BITFIELD_RO str GET u8 0 ; PEXPIRETIME str ; HTTL hash FIELDS 1 f ; HPTTL hash FIELDS 1 f
HEXPIRETIME hash FIELDS 1 f ; HPEXPIRETIME hash FIELDS 1 f ; LCS str num ; OBJECT FREQ str ; SUNION set ; SDIFF set
SORT_RO list ALPHA ; ZREVRANK zset a ; ZRANGEBYSCORE zset 0 9 ; ZREVRANGE zset 0 -1 ; ZREVRANGEBYSCORE zset 9 0
ZRANGEBYLEX zset - + ; ZREVRANGEBYLEX zset + - ; ZLEXCOUNT zset - + ; ZINTER 1 zset ; ZDIFF 1 zset ; ZINTERCARD 1 zset
XFILTER stream - + COUNT 5 FIELD f EQ v ; XIDMP CFGGET stream ; XIDMP STATS stream
XSPLIT stream - + 2 ; XINFO STREAM stream FULL
CLIENT LIST ; CLIENT INFO ; CLIENT GETNAME ; CLIENT SETNAME x ; CLIENT KILL ID 99 ; CLIENT UNBLOCK 99 ; CLIENT UNPAUSE
CLIENT NO-EVICT ON ; CLIENT NO-TOUCH ON ; CLIENT ID ; CONFIG GET maxmemory ; CONFIG SET maxmemory 1gb ; CONFIG RESETSTAT
PING ; ECHO a ; HELLO 3 ; SELECT 1 ; RESET ; INFO everything ; COMMAND COUNT ; COMMAND DOCS get ; LATENCY LATEST
MEMORY STATS ; MEMORY DOCTOR ; SUBSCRIBE c ; PSUBSCRIBE c* ; UNSUBSCRIBE c ; PUNSUBSCRIBE c* ; PUBLISH c m
PUBSUB CHANNELS ; PUBSUB NUMSUB c ; PUBSUB NUMPAT ; SCRIPT EXISTS x ; TIME ; LASTSAVE ; ROLE
REPLICAOF NO ONE ; SLAVEOF NO ONE ; REPLCONF capa x ; PSYNC ? -1 ; SLOWLOG GET ; SLOWLOG LEN
MULTI ; UNWATCH ; WAIT 0 0 ; BGREWRITEAOF ; SAVE ; BGSAVE ; WAITAOF 0 0 0
ACL HELP ; ACL CAT ; ACL CAT read ; ACL SETUSER ann on >pw ~a* +@all ; ACL SETUSER default resetkeys ~x
ACL DELUSER ann ; ACL GETUSER default ; ACL LIST ; ACL USERS ; ACL WHOAMI ; ACL LOAD ; ACL SAVE ; ACL GENPASS ; ACL LOG
ACL LOG RESET ; ACL DRYRUN default GET a ; AUTH default pw ; AUTH pw ; HELLO 2 AUTH default pw
BACKUP HELP ; BACKUP BEGIN 1000 ; BACKUP READ x 0 10 ; BACKUP MARK ; BACKUP END
JOURNAL HELP ; JOURNAL BEGIN 1000 ; JOURNAL READ x 0 10 ; JOURNAL MARK ; JOURNAL END
CLIENT HELP ; CLIENT SETINFO LIB-NAME x ; CLIENT PAUSE 0 ; CLIENT REPLY ON ; CLIENT GETREDIR ; CLIENT TRACKINGINFO
CLIENT TRACKING OFF ; CLIENT CACHING YES ; CONFIG HELP ; CONFIG REWRITE ; COMMAND ; COMMAND HELP ; COMMAND INFO get
COMMAND LIST ; COMMAND GETKEYS GET a ; COMMAND GETKEYSANDFLAGS SET a b ; DEBUG SLEEP 0 ; OBJECT HELP
CLUSTER ; CLUSTER ADDSLOTS 1 ; CLUSTER ADDSLOTSRANGE 1 1 ; CLUSTER BUMPEPOCH ; CLUSTER COUNT-FAILURE-REPORTS 1
CLUSTER COUNTKEYSINSLOT 1 ; CLUSTER DELSLOTS 1 ; CLUSTER DELSLOTSRANGE 1 1 ; CLUSTER FAILOVER
CLUSTER FLUSHSLOTS ; CLUSTER FORGET 1 ; CLUSTER GETKEYSINSLOT 1 1 ; CLUSTER HELP ; CLUSTER INFO
CLUSTER KEYSLOT 1 ; CLUSTER LINKS ; CLUSTER MEET 1 1 ; CLUSTER MIGRATION 1 1 ; CLUSTER MYID ; CLUSTER MYSHARDID
CLUSTER NODES ; CLUSTER REPLICAS 1 ; CLUSTER REPLICATE 1 ; CLUSTER RESET ; CLUSTER SAVECONFIG
CLUSTER SET-CONFIG-EPOCH 1 ; CLUSTER SETSLOT 1 1 ; CLUSTER SHARDS ; CLUSTER SLAVES 1 ; CLUSTER SLOT-STATS 1 1
CLUSTER SLOTS ; CLUSTER SYNCSLOTS 1 ; READONLY ; READWRITE ; ASKING
FUNCTION HELP ; FUNCTION LIST ; FUNCTION STATS ; FUNCTION KILL ; MODULE HELP ; MODULE LIST ; LATENCY HELP
FUNCTION LOAD x ; FUNCTION DELETE x ; FUNCTION DUMP ; FUNCTION RESTORE x ; FCALL x 0 ; FCALL_RO x 0
LATENCY HISTORY command ; LATENCY RESET ; LATENCY DOCTOR ; LATENCY GRAPH command ; LATENCY HISTOGRAM get
MEMORY HELP ; MEMORY PURGE ; MEMORY MALLOC-STATS ; PUBSUB HELP ; PUBSUB SHARDCHANNELS ; PUBSUB SHARDNUMSUB c
SCRIPT HELP ; SCRIPT LOAD return(1) ; SCRIPT FLUSH ; SCRIPT KILL ; SCRIPT SHOW x ; SLOWLOG HELP ; SLOWLOG RESET
EVAL return(redis.call('SET','str',ARGV[1])) 0 v ; EVAL_RO return(redis.call('GET','str')) 0 ; EVALSHA x 0
EVAL return(redis.call('DEL','str','zset')) 1 str ; EVALSHA_RO x 0 ; EXEC ; DISCARD ; MONITOR ; QUIT ; SHUTDOWN ABORT
XGROUP HELP ; XIDMP HELP ; XINFO HELP ; REPLICAOF NO ONE ; SLAVEOF NO ONE ; REPLCONF capa streamd ; PSYNC ? -1
FAILOVER
""".replace("\n", " ; ").split(" ; ")
REQUESTS = [*dict.fromkeys([*(row[0] for row in ACCESSES), *filter(None, map(str.strip, MORE))])]


class Failure(Exception):
    """What is injected."""


class Injection:
    """Fails at the n-th access of what it is laid around; with 0 it only counts them."""

    def __init__(self, fails_at: int = 0) -> None:
        self.fails_at = fails_at
        self.accesses = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its accesses watched."""

        def watched(*args: Any) -> Any:
            before = sys.gettrace()
            sys.settrace(self._called)
            try:
                return function(*args)
            finally:
                sys.settrace(before)

        return watched

    def _called(self, frame: FrameType, event: str, arg: object) -> None:
        caller = frame.f_back
        if caller is None or not frame.f_code.co_filename.startswith(CALLED):
            return
        if caller.f_code.co_filename.startswith(CALLERS):
            self.accesses += 1
            if self.accesses == self.fails_at:
                raise Failure(frame.f_code.co_qualname)


def prepared() -> SimulatedDisk:
    """Return the disk of a server with a key of each type."""
    server = Restartable(appendfsync="no")
    for line in PREPARED:
        assert server.send(*line.split()) is not None
    return server.disk.kill()


DISK = prepared()
BEFORE = dump(Restartable(DISK.kill()).engine)


def leaf(table: CommandTable, request: str) -> Command:
    """Return the command, or the subcommand, that a request calls."""
    words = [word.lower().encode() for word in request.split()]
    command = table[words[0]]
    return command.subcommands.get(words[1], command) if command.subcommands and words[1:] else command


Way = Callable[[Restartable, str], bytes]


def alone(server: Restartable, request: str) -> bytes:
    """Send a request; return what left towards the client."""
    server.run(request.encode().split())
    server.end_turn()
    return b"".join(server.replies[server.client])


def in_a_transaction(server: Restartable, request: str) -> bytes:
    """Send a request between others, as a unit."""
    server.run([b"MULTI"], [b"SET", b"first", b"1"], request.encode().split(), [b"SET", b"last", b"1"], [b"EXEC"])
    server.end_turn()
    return b"".join(server.replies[server.client])


def in_a_script(server: Restartable, request: str) -> bytes:
    """Have a script send a request between others, and go on whatever it is answered."""
    text = b"redis.call('SET', 'first', 1); local r = redis.pcall(unpack(ARGV)); redis.call('SET', 'last', 1); return r"
    server.run([b"EVAL", text, b"0", *request.encode().split()])
    server.end_turn()
    return b"".join(server.replies[server.client])


def as_a_batch(server: Restartable, request: str) -> bytes:
    """Send a request four times in a pipeline."""
    server.run(*[request.encode().split()] * 4)
    server.end_turn()
    return b"".join(server.replies[server.client])


def play(request: str, way: Way, injection: Injection) -> tuple[Restartable, bytes]:
    """Start a server and have a request executed, with what is injected into its handler and its batch function."""
    server = Restartable(DISK.kill(), appendfsync="no")
    server.engine.transfer = lambda target, requests: (b"+OK" for _ in requests)
    command = leaf(server.engine.commands, request)
    handler, batch = command.handler, command.batch
    command.handler = injection.around(handler)
    command.batch = replace(batch, take=injection.around(batch.take)) if batch is not None else None
    try:
        return server, way(server, request)
    finally:
        command.handler, command.batch = handler, batch


def check_whole(server: Restartable) -> None:
    """Fail unless the server lives, and what a start brings back is what is there."""
    server.cron()
    found = dump(server.engine)
    assert server.send("PING", client=server.connect()) == b"+PONG\r\n"
    assert dump(server.restart().engine) == found


def fail_everywhere(request: str, way: Way) -> int:
    """Play a request once for each of its accesses, which fails; return how many these are."""
    play(request, way, Injection())  # what is cached is called no more
    counting = Injection()
    play(request, way, counting)
    for fails_at in range(1, counting.accesses + 1):
        server, replies = play(request, way, Injection(fails_at))
        assert b"-ERR internal error" in replies, fails_at
        assert server.engine.state.stats.internal_errors
        check_whole(server)
    return counting.accesses


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_handler_that_fails_at_any_access_leaves_what_is_recorded(request_):
    fail_everywhere(request_, alone)


ON_USERS = [request for request in REQUESTS if request.startswith(("ACL", "AUTH", "HELLO", "CONFIG SET"))]


@pytest.mark.parametrize("request_", ON_USERS)
def test_users_are_as_before_or_as_behind_whatever_fails(request_):
    counting = Injection()
    before = Restartable(DISK.kill()).engine.state.users.lines()
    server, _ = play(request_, alone, counting)
    after = server.engine.state.users.lines()
    for fails_at in range(1, counting.accesses + 1):
        server, replies = play(request_, alone, Injection(fails_at))
        assert b"-ERR internal error" in replies, fails_at
        assert server.engine.state.users.lines() in (before, after)


def test_every_command_has_a_request():
    named = {leaf(COMMANDS, request).name for request in REQUESTS}
    assert [one.name for one in COMMANDS.leaves() if one.name not in named] == []


def test_every_command_on_data_has_a_request_that_does_something():
    """(Of a request that is refused at once no access fails.)"""
    done = {leaf(COMMANDS, one).name for one in REQUESTS if not play(one, alone, Injection())[1].startswith(b"-")}
    on_data = [one.name for one in COMMANDS.leaves() if one.flags & {"write", "readonly"} and one.group != "scripting"]
    assert [name for name in on_data if name not in done] == ["object|freq"]  # streamd counts no frequencies


def test_a_bug_that_is_met_again_and_again_rewrites_the_journal_once_a_second():
    server = Restartable(appendfsync="no")
    server.run([b"MULTI"], [b"SET", b"k", b"1"], [b"EXEC"])

    def rewrites_after(waited_ms: int) -> int:
        server.clock.advance(waited_ms)
        server.persistence.doubt()
        server.cron()
        return server.persistence.rewriting.progress[0]

    assert [rewrites_after(waited_ms) for waited_ms in (0, 100, 899, 1, 999, 1)] == [1, 1, 1, 2, 2, 3]


def test_what_a_bug_has_left_is_recorded_before_a_stop():
    server = Restartable(appendfsync="no")
    server.engine.state.keyspace[0].put(b"k", b"never recorded")
    server.persistence.doubt()
    assert server.persistence.close() is None
    assert server.restart().send("GET", "k") == b"$14\r\nnever recorded\r\n"


def test_a_bug_in_what_only_reads_rewrites_nothing(monkeypatch):
    server = Restartable(appendfsync="no")
    monkeypatch.setattr(server.engine.commands[b"strlen"], "handler", lambda context, words: 1 // 0)
    assert server.send("STRLEN", "k") == b"-ERR internal error\r\n"
    server.cron()
    assert server.persistence.rewriting.progress == (0, False)


SOME = ["SET str x EX 9", "HSET hash f 2 n 1", "SMOVE set new a", "LMOVE list new LEFT LEFT",
        "XADD stream IDMP p i * f v", "XREADGROUP GROUP g d COUNT 2 STREAMS stream >", "XACK stream g 1-1",
        "XDEL stream 1-1", "RENAME stream new", "ZADD zset 3 c", "ZUNIONSTORE new 1 zset", "HPEXPIRE hash 9 FIELDS 1 f",
        "HSETEX new PX 100000 FIELDS 1 f v", "XACKDEL stream g DELREF IDS 1 1-1", "BITFIELD str SET u8 0 5",
        "SORT list ALPHA STORE new", "XFILTER stream - + COUNT 5 FIELD f EQ v"]  # fmt: skip


@pytest.mark.parametrize("way", [in_a_transaction, in_a_script, as_a_batch])
@pytest.mark.parametrize("request_", SOME)
def test_so_it_is_in_transactions_scripts_and_batches(request_, way):
    assert fail_everywhere(request_, way)


WAITING = [
    ("BLPOP new 0", "RPUSH new a"), ("BLMOVE new other LEFT LEFT 0", "RPUSH new a b"),
    ("BZPOPMIN new 0", "ZADD new 1 a"), ("BLMPOP 0 1 new LEFT", "RPUSH new a"), ("BZMPOP 0 1 new MIN", "ZADD new 1 a"),
    ("XREADGROUP GROUP g d BLOCK 0 STREAMS stream >", "XADD stream * f v"),
    ("XREAD BLOCK 0 STREAMS stream $", "XADD stream * f v"),
    ("XFILTER stream 9-0 + COUNT 5 BLOCK 0 FIELD f EQ new", "XADD stream 10-1 f new"),
]  # fmt: skip


@pytest.mark.parametrize(("waits", "wakes"), WAITING)
def test_so_it_is_for_who_waits(waits, wakes):
    accesses = fails_at = 0
    while fails_at <= accesses:
        server = Restartable(DISK.kill(), appendfsync="no")
        server.send("XREADGROUP", "GROUP", "g", "d", "STREAMS", "stream", ">")
        waiting = server.connect()
        assert server.send(*waits.split(), client=waiting) is None
        injection = Injection(fails_at)
        server.engine.calls.attempt = injection.around(server.engine.calls.attempt)
        assert server.send(*wakes.split()) is not None
        replies = b"".join(server.replies[waiting])
        assert replies.startswith(b"-ERR internal error") == bool(fails_at), fails_at
        check_whole(server)
        accesses = max(accesses, injection.accesses) if fails_at == 0 else accesses
        fails_at += 1
    assert accesses


WRITES = [request for request in REQUESTS if "write" in leaf(COMMANDS, request).flags]


@pytest.mark.parametrize("request_", WRITES)
def test_a_write_or_sync_that_fails_under_always_leaves_the_state_before_or_after(request_):
    for failure in (errno.EIO, errno.ENOSPC):
        for operation in (1, 2):
            server = Restartable(DISK.kill(), appendfsync="always")
            server.disk.fail_at, server.disk.failure = server.disk.operations + operation, failure
            reply = alone(server, request_)
            after = dump(server.engine)
            assert not (server.dead and reply)
            found = dump(server.restart().engine)
            assert found == after if reply else found in (BEFORE, after)


@pytest.mark.parametrize("request_", WRITES)
def test_a_write_or_sync_that_fails_for_a_while_under_everysec_ends_with_all_recorded(request_):
    for operation in (1, 2):
        server = Restartable(DISK.kill(), appendfsync="everysec")
        server.clock.advance(2_000)
        server.disk.fail_at, server.disk.fails_for = server.disk.operations + operation, 10**9
        reply = alone(server, request_)
        assert reply or server.client.waiter is not None
        server.cron()
        assert server.send("GET", "num", client=server.connect()) is not None
        server.disk.fail_at = 0
        server.clock.advance(2_000)
        server.cron()
        assert server.dead is None
        check_whole(server)
