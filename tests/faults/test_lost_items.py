"""Whatever fails in the middle of a list of work: what stands behind it on the list is done."""

import asyncio
import threading
from typing import Any

import pytest
import redis.asyncio

from streamd.base.errors import CommandError
from streamd.clients.sessions import async_store, outbox
from streamd.connected.filter_table import FilterTable
from streamd.data.keyspace import Database
from streamd.data.timed_hash import TimedHash
from streamd.engine import gathering
from streamd.idmp.sweeper import Sweeper
from streamd.idmp.table import IdmpTable
from streamd.net.threads import JournalThread
from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.session import Session, SessionClient

# With this protocol no reply can be encoded.
NO_PROTOCOL = 9
LONG = b"v" * 20_000


class Failure(Exception):
    """What is planted."""


def fail(*arguments: object) -> None:
    raise Failure


@pytest.fixture
def faulty() -> Session:
    """A session whose server meets bugs: they are what is tested."""
    return Session()


def gather(client: SessionClient, *requests: list[bytes]) -> None:
    """Send requests that wait for those of others in their turn."""
    assert client.engine.gathering.take(client.client, list(requests))


# -- output -----------------------------------------------------------------------------------------------------------


def test_faults2_1_5_output_that_cannot_be_sent_keeps_no_other_client_from_its_own(faulty):
    sent: list[str] = []
    clients = [faulty.connect() for _ in range(3)]
    for name, one in zip("abc", clients, strict=True):
        one.client.flush = fail if name == "b" else (lambda name=name: sent.append(name))
        one.engine.run(one.client, [[b"PING"]])
    faulty.engine.end_turn()
    assert sent == ["a", "c"]
    assert clients[1].client.closed

    for one in clients:
        one.engine.run(one.client, [[b"PING"]])
    faulty.engine.end_turn()
    assert sent == ["a", "c", "a", "c"]
    assert faulty.state.stats.internal_errors == 1


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_faults2_1_5_so_it_is_with_output_that_has_waited_for_the_journal(policy):
    server = Restartable(appendfsync=policy, at_once=False)
    clients = [server.connect() for _ in range(3)]
    clients[1].flush = fail
    for number, client in enumerate(clients):
        server.run([b"SET", b"k%d" % number, b"v"], client=client)
    for client in clients:
        server.run([b"PING"], client=client)
    server.engine.end_turn()
    while server.jobs:
        server.jobs[0].wait()
    both = [b"+OK\r\n", b"+PONG\r\n"]
    assert [server.replies[client] for client in clients] == [both, [], both]
    assert clients[1].closed
    assert server.send("PING", client=clients[2]) is not None or server.jobs
    assert len(dump(server.restart().engine)) == 3


# -- waits, and what stands behind them -------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["reply", "time"])
def test_faults2_1_5_a_reply_that_cannot_be_made_keeps_no_other_waiter_waiting(faulty, what):
    clients = [faulty.connect() for _ in range(3)]
    for one in clients:
        one.say("BLPOP k 1")
    clients[1].client.protocol = NO_PROTOCOL
    if what == "reply":
        assert faulty.do("RPUSH k a b c") == 3
    else:
        faulty.clock.advance(1_000)
    assert not any(one.blocked for one in clients)
    for one, value in ((clients[0], b"a"), (clients[2], b"c")):
        assert one.replies() == ([[b"k", value]] if what == "reply" else [None])
    assert clients[1].client.closed
    assert faulty.engine.state.blocked.next_due_ms(faulty.engine.clock) is None


def test_faults2_1_5_clients_of_other_keys_are_served_whatever_one_meets(faulty):
    clients = [faulty.connect() for _ in range(3)]
    for number, one in enumerate(clients):
        one.say(f"BLPOP k{number} 0")
    clients[0].client.protocol = NO_PROTOCOL
    faulty.send(["MULTI"], *(["RPUSH", f"k{number}", "x"] for number in range(3)), ["EXEC"])
    assert [one.replies() for one in clients[1:]] == [[[b"k1", b"x"]], [[b"k2", b"x"]]]
    assert clients[0].client.closed


def test_faults2_1_5_clients_go_on_with_what_they_sent_behind_a_wait_whatever_one_meets(faulty):
    clients = [faulty.connect() for _ in range(3)]
    for one in clients:
        one.send(["BLPOP", "k", "0"], ["ECHO", "behind"])
    clients[0].client.resume = fail
    faulty.send(["RPUSH", "k", "x", "y", "z"])
    faulty.engine.end_turn()
    assert [one.replies() for one in clients[1:]] == [[[b"k", b"y"], b"behind"], [[b"k", b"z"], b"behind"]]
    assert clients[0].client.closed


def test_faults2_1_5_a_backlog_that_cannot_be_executed_ends_its_client(faulty):
    faulty.execute(["SET", "k", LONG])
    client = faulty.connect().client
    client.protocol = NO_PROTOCOL
    client.backlog.extend([[b"GET", b"k"], [b"PING"]])
    faulty.engine.make_slices(client)
    assert client.closed
    assert not client.backlog


@pytest.mark.parametrize("request_", ["WAITAOF 1 0 0", "JOURNAL BEGIN 0"])
def test_faults2_1_5_who_waits_for_the_journal_is_served_whatever_one_meets(request_):
    server = Restartable(appendfsync="everysec", at_once=False)
    clients = [server.connect() for _ in range(3)]
    for client in clients:
        server.run([b"SET", b"k", b"v"], request_.encode().split(), client=client)
    clients[0].protocol = NO_PROTOCOL
    server.at_once = True
    server.end_turn()
    server.clock.advance(2_000)
    server.cron()
    server.end_turn()
    assert [client.waiter for client in clients] == [None] * 3
    assert clients[0].closed
    assert [len(server.replies[client]) for client in clients[1:]] == [2, 2]


def test_faults2_1_5_the_end_of_a_pause_lets_all_go_on_whatever_one_meets(faulty):
    clients = [faulty.connect() for _ in range(3)]
    faulty.do("CLIENT PAUSE 1000")
    for one in clients:
        one.say("SET k v")
        one.client.resume = None
    clients[0].client.resume = fail
    faulty.clock.advance(1_000)
    assert [one.replies() for one in clients[1:]] == [["OK"], ["OK"]]


@pytest.mark.interpreted(reason="a method is replaced")
def test_faults2_1_5_entries_that_were_not_looked_at_are_looked_at_again(faulty, monkeypatch):
    one, other = faulty.connect(), faulty.connect()
    one.say("XFILTER s - + COUNT 9 BLOCK 0 FIELD f EQ a")
    assert one.blocked
    other.say("BLPOP k 0")
    with monkeypatch.context() as planted:
        planted.setattr(FilterTable, "_all", fail)
        planted.setattr("streamd.connected.filter_table.value_of", fail)
        faulty.send(["MULTI"], ["XADD", "s", "1-1", "f", "a"], ["RPUSH", "k", "x"], ["EXEC"])
    faulty.received()
    assert other.replies() == [[b"k", b"x"]]
    assert one.blocked
    faulty.do("XADD s 2-1 f b")
    assert not one.blocked
    assert b"1-1" in one.received()


# -- requests of several clients --------------------------------------------------------------------------------------


def test_faults2_1_5_requests_that_came_together_are_executed_whatever_one_meets(faulty):
    faulty.execute(["SET", "k", LONG])
    clients = [faulty.connect() for _ in range(4)]
    clients[1].client.protocol = NO_PROTOCOL
    for one in clients:
        gather(one, [b"GET", b"k"])
    faulty.engine.end_turn()
    assert [one.replies() for one in clients if one is not clients[1]] == [[LONG]] * 3
    assert clients[1].client.closed


@pytest.mark.interpreted(reason="a function is replaced")
def test_faults2_1_5_a_batch_whose_replies_are_lost_ends_its_clients_and_nobody_else(monkeypatch):
    server = Restartable(appendfsync="everysec")
    clients = [server.connect() for _ in range(5)]
    requests = [[b"XADD", b"s", b"*", b"f", b"%d" % number] for number in range(10)]
    server.send("XADD", "s", "*", "f", "v")
    with monkeypatch.context() as planted:
        planted.setattr(gathering, "islice", fail)
        planted.setattr(gathering, "deal_replies", fail)
        for client in clients[:4]:
            assert server.engine.gathering.take(client, requests)
        assert server.engine.gathering.take(clients[4], [[b"GET", b"k"]])
        server.end_turn()
    assert [client.closed for client in clients] == [True] * 4 + [False]
    assert b"".join(server.replies[clients[4]]) == b"$-1\r\n"
    assert server.send("XLEN", "s", client=clients[4]) == b":41\r\n"
    server.cron()
    assert dump(server.restart().engine) == dump(server.engine)


# -- messages about what is stale -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["", " BCAST", " BCAST NOLOOP"])
@pytest.mark.parametrize("change", ["SET k 2", "FLUSHALL", "DEL k"])
def test_faults2_1_5_all_are_told_that_a_key_is_stale_whatever_one_meets(faulty, options, change):
    faulty.do("SET k 1")
    clients = [faulty.connect(protocol=3) for _ in range(3)]
    for one in clients:
        one.do(f"CLIENT TRACKING ON{options}")
        one.do("GET k")
    clients[1].client.protocol = NO_PROTOCOL
    faulty.do(change)
    for one in (clients[0], clients[2]):
        assert one.replies() == []
        assert one.pushes == [[b"invalidate", None if change == "FLUSHALL" else [b"k"]]]
    assert clients[1].client.closed  # it would go on reading what is stale
    faulty.do("SET k 3")


# -- what time demands -----------------------------------------------------------------------------------------------


def expiring(session: Session, keys: int) -> Database:
    """Return a database with so many keys that end in the same moment."""
    for number in range(keys):
        session.execute(["SET", f"k{number}", "v", "PX", "1000"])
    session.connect().say("BLPOP elsewhere 0")  # keys end one by one while a client waits
    return session.state.keyspace[0]


def run_out(session: Session, minutes: int = 2) -> None:
    for _ in range(minutes):
        session.clock.advance(60_000)
        session.sweep()


@pytest.mark.parametrize("keys", [3, 300, 1_500])
def test_faults2_1_5_keys_end_whatever_the_end_of_one_meets(faulty, keys):
    db = expiring(faulty, keys)
    told = db.on_expired
    planted = [b"k1"]

    def on_expired(one: Database, ended: list[bytes]) -> None:
        if planted and b"k1" in ended:
            planted.clear()
            fail()
        told(one, ended)

    db.on_expired = on_expired
    run_out(faulty)
    assert not planted
    assert not db.values
    assert faulty.state.stats.internal_errors == 1


@pytest.mark.interpreted(reason="a method is replaced")
@pytest.mark.parametrize("keys", [3, 300, 1_500])
def test_faults2_1_5_a_key_that_cannot_end_is_tried_again_once_a_minute_and_holds_up_none(faulty, monkeypatch, keys):
    db = expiring(faulty, keys)
    expire, tried = Database.expire, []

    def planted(one: Database, key: bytes) -> None:
        if key == b"k1":
            tried.append(key)
            fail()
        expire(one, key)

    monkeypatch.setattr(Database, "expire", planted)
    faulty.clock.advance(2_000)
    for _ in range(50):
        faulty.engine.cron()
    assert len(tried) == 1
    run_out(faulty, 3)
    assert list(db.values) == [b"k1"]
    assert len(tried) == 4
    assert db.overdue() == {b"k1"}
    monkeypatch.undo()
    run_out(faulty, 1)
    assert not db.values


@pytest.mark.interpreted(reason="a method is replaced")
@pytest.mark.parametrize("way", ["cron", "read"])
def test_faults2_1_5_fields_end_whatever_the_end_of_one_meets(faulty, monkeypatch, way):
    for key in ("h", "i"):
        faulty.do(f"HSET {key} a 1 b 2 c 3 stays 4")
        faulty.do(f"HPEXPIRE {key} 1000 FIELDS 3 a b c")
    drop, planted = TimedHash.drop, [b"b"]

    def failing(value: TimedHash, field: bytes) -> bool:
        if field in planted:
            planted.clear()
            fail()
        return drop(value, field)

    monkeypatch.setattr(TimedHash, "drop", failing)
    faulty.clock.advance(1_000)
    if way == "cron":
        run_out(faulty)
        assert [dict(value) for value in faulty.state.keyspace[0].values.values()] == [{b"stays": b"4"}] * 2
    else:
        faulty.execute(["HLEN", "h"])  # an internal error
    assert not planted
    assert faulty.do("HGETALL h") == faulty.do("HGETALL i") == [b"stays", b"4"]
    assert faulty.state.stats.internal_errors == 1


@pytest.mark.parametrize("fails_at", [1, 2, 5])
def test_faults2_1_5_iids_are_freed_whatever_a_sweep_meets(fails_at):
    sweeper = Sweeper()
    tables = [IdmpTable(1, 100, sweeper) for _ in range(3)]
    for table in tables:
        for number in range(6):
            table.record(b"p%d" % number, b"iid", 1_000 << 64)
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        if asked == fails_at:
            fail()
        return False

    with pytest.raises(Failure):
        sweeper.run(10_000, should_stop)
    assert len(sweeper) > 0
    assert not sweeper.run(12_000, should_stop)
    assert [table.iids_tracked for table in tables] == [0] * 3


@pytest.mark.interpreted(reason="a method is replaced")
def test_faults2_1_5_a_producer_that_cannot_be_visited_holds_up_no_other(monkeypatch):
    sweeper = Sweeper()
    tables = [IdmpTable(1, 100, sweeper) for _ in range(3)]
    for table in tables:
        for number in range(6):
            table.record(b"p%d" % number, b"iid", 1_000 << 64)
    visit = IdmpTable._visit

    def planted(table: IdmpTable, pid: bytes, *rest: Any) -> None:
        if pid == b"p3":
            fail()
        visit(table, pid, *rest)

    monkeypatch.setattr(IdmpTable, "_visit", planted)
    for second in range(10, 20):
        try:
            sweeper.run(second * 1_000, lambda: False)
        except Failure:
            pass
    assert [table.pids() for table in tables] == [[b"p3"]] * 3
    monkeypatch.undo()
    sweeper.run(10**9, lambda: False)
    assert [table.iids_tracked for table in tables] == [0] * 3


def test_faults2_1_5_what_is_removed_is_freed_whatever_a_slice_meets(faulty):
    faulty.execute(["SADD", "k", *range(20_000)])
    faulty.do("UNLINK k")
    trash = faulty.state.keyspace.trash
    for _ in range(1_000):
        with pytest.raises(Failure):
            trash.free(fail)
        if not trash:
            return
    pytest.fail("it is not freed")


# -- the journal ------------------------------------------------------------------------------------------------------


def test_faults2_1_5_who_waits_for_a_job_of_a_thread_is_told_of_a_bug_as_well():
    loop = asyncio.new_event_loop()
    told: list[object] = []

    async def main() -> None:
        ended = asyncio.Event()
        thread = JournalThread(loop, lambda: told.append("after"))
        loop.set_exception_handler(lambda loop, context: told.append("logged"))
        thread.submit(fail, lambda error: told.append(type(error)))
        thread.submit(lambda: None, fail)
        thread.submit(lambda: None, lambda error: ended.set())
        await ended.wait()
        await asyncio.sleep(0)
        waited = thread.submit(fail, lambda error: told.append(type(error)))
        waited.wait()
        thread.close()

    loop.run_until_complete(main())
    loop.close()
    assert told == [Failure, "after", "after", "logged", "after", Failure] or told == [
        Failure, "after", "after", "after", "logged", Failure,
    ]  # fmt: skip


@pytest.mark.parametrize("is_quick", [False, True])
@pytest.mark.parametrize("policy", ["always", "everysec"])
@pytest.mark.parametrize("operation", [1, 2])
def test_faults2_1_5_a_bug_in_a_write_or_a_sync_is_met_as_one_of_the_disk(policy, operation, is_quick):
    server = Restartable(appendfsync=policy, is_quick=is_quick)
    server.send("SET", "k", "1")
    server.clock.advance(2_000)
    server.disk.fail_at, server.disk.failure = server.disk.operations + operation, "bug"
    reply = server.send("SET", "k", "2")
    if policy == "always":
        assert reply is None
        assert "RuntimeError: a bug in" in server.dead
        return
    assert reply is not None
    for _ in range(3):
        server.cron()
        server.clock.advance(1_000)
    assert server.send("SET", "k", "3") == b"+OK\r\n"
    assert server.restart().send("GET", "k") == b"$1\r\n3\r\n"


def test_faults2_1_5_a_record_that_cannot_be_encoded_refuses_writes_until_the_journal_is_rewritten():
    server = Restartable(appendfsync="everysec")
    other = server.connect()
    server.send("SET", "k", "1")
    server.run([b"GET", b"k"], client=other)
    server.persistence.append_unit([(0, [b"SET", b"k", 5])])
    server.end_turn()
    assert server.replies[other] == [b"$1\r\n1\r\n"]
    assert server.send("SET", "k", "2").startswith(b"-MISCONF Errors writing to the AOF file: TypeError")
    server.cron()
    assert server.send("SET", "k", "3") == b"+OK\r\n"
    assert server.restart().send("GET", "k") == b"$1\r\n3\r\n"


def test_faults2_1_5_a_record_that_cannot_be_encoded_ends_a_server_under_always():
    server = Restartable(appendfsync="always")
    server.persistence.append_unit([(0, [b"SET", b"k", 5])])
    server.end_turn()
    assert "cannot write to data/appendonlydir: TypeError" in server.dead


def test_faults2_1_5_a_bug_while_a_journal_is_loaded_again_ends_the_server_and_not_the_data():
    server = Restartable(appendfsync="everysec")
    server.send("SET", "k", "1")
    server.cron()
    server.disk.fail_at, server.disk.failure = server.disk.operations + 2, "bug"
    with pytest.raises(CommandError, match="a bug in"):
        server.persistence.reload(False)
    server.disk.fail_at = 0
    assert server.dead is not None
    server.clock.advance(120_000)
    server.cron()
    assert server.restart().send("GET", "k") == b"$1\r\n1\r\n"


@pytest.mark.parametrize("failure", ["bug", 28])
def test_faults2_1_5_a_rewrite_that_was_asked_for_and_cannot_begin_begins_later(failure):
    server = Restartable(appendfsync="everysec", at_once=False)
    server.send("SET", "k", "1")
    server.run([b"MULTI"], [b"SET", b"k", b"2"], [b"BGREWRITEAOF"], [b"EXEC"])
    server.end_turn()
    while server.jobs:
        server.jobs[0].wait()
    server.disk.fail_at, server.disk.failure = server.disk.operations + 1, failure
    server.persistence.rewriting.tick()
    assert server.persistence.rewriting.progress == (0, True)
    server.at_once = True
    server.clock.advance(60_000)
    server.cron()
    assert server.persistence.rewriting.progress == (1, False)


# -- clients of this package ------------------------------------------------------------------------------------------


class Request:
    """A request of a device store whose reply is what it says."""

    words = (b"PING",)

    def read(self, reply: object) -> object:
        return reply


def test_faults2_1_5_requests_that_wait_end_with_a_flush_that_is_cancelled(monkeypatch):
    async def never(client: object, requests: object) -> list[object]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(async_store, "exchange", never)

    async def main() -> None:
        store = async_store.AsyncDeviceStore(redis.asyncio.Redis(), flush_ms=10**6)
        asked = [asyncio.ensure_future(store._run(Request())) for _ in range(3)]
        await asyncio.sleep(0)
        flush = asyncio.ensure_future(store.flush())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        flush.cancel()
        done = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)
        assert [type(one) for one in done] == [asyncio.CancelledError] * 3

    asyncio.run(main())


def test_faults2_1_5_requests_that_wait_end_with_a_flush_that_is_interrupted(monkeypatch):
    made = outbox.Outbox.__new__(outbox.Outbox)
    futures = [outbox.Future() for _ in range(3)]
    made._guard, made._has_first = threading.Lock(), threading.Event()
    made._waiting = [(Request(), future) for future in futures]

    def interrupted(requests: object) -> list[object]:
        raise KeyboardInterrupt

    made._exchange = interrupted
    with pytest.raises(KeyboardInterrupt):
        made._send()
    assert all(isinstance(future.exception(0), KeyboardInterrupt) for future in futures)
