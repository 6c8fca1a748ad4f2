"""The barrier: when what a turn sends leaves, by policy, and who waits for whom."""

from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk


def replies(server, client):
    return b"".join(server.replies[client])


def test_under_always_a_reply_waits_for_a_sync_that_began_after_its_write():
    server = Restartable(at_once=False)
    one, two = server.connect(), server.connect()
    server.send("SET", "a", "1", client=one)
    assert (len(server.jobs), replies(server, one)) == (1, b"")

    server.send("SET", "b", "2", client=two)  # executes while the first sync is under way
    assert (len(server.jobs), replies(server, two)) == (1, b"")

    server.jobs[0].wait()
    assert (replies(server, one), replies(server, two)) == (b"+OK\r\n", b"")
    server.jobs[0].wait()
    assert (replies(server, two), server.jobs) == (b"+OK\r\n", [])


def test_one_write_and_one_sync_serve_all_clients_of_a_turn():
    server = Restartable(at_once=False)
    clients = [server.connect() for _ in range(5)]
    before = server.disk.operations
    for client in clients:
        server.run([b"INCR", b"n"], client=client)
    server.end_turn()
    server.jobs[0].wait()
    assert server.disk.operations - before == 2
    assert [replies(server, client) for client in clients] == [b":%d\r\n" % number for number in range(1, 6)]


def test_where_syncs_are_quick_they_are_done_within_the_turn():
    server = Restartable(at_once=False, is_quick=True)
    assert server.send("SET", "a", "1") == b"+OK\r\n"
    assert server.send("WAITAOF", "1", "0", "0") == b"*2\r\n:1\r\n:0\r\n"
    assert server.jobs == []
    assert server.restart(server.disk.cut_power(1)).send("GET", "a") == b"$1\r\n1\r\n"


def test_where_syncs_become_slow_replies_wait_again():
    server = Restartable(at_once=False, is_quick=True)
    server.send("SET", "a", "1")
    server.is_quick = False
    assert server.send("SET", "a", "2") is None
    server.is_quick = True
    assert server.send("SET", "a", "3") is None  # one is under way: the next begins when that has ended
    for _ in range(2):
        server.jobs[0].wait()
    assert replies(server, server.client) == b"+OK\r\n" * 3
    assert (server.jobs, server.send("SET", "a", "4")) == ([], b"+OK\r\n")


def test_who_only_reads_waits_for_what_it_may_have_seen():
    server = Restartable(at_once=False)
    reader = server.connect()
    assert server.send("GET", "a", client=reader) == b"$-1\r\n"  # nothing is under way
    server.send("SET", "a", "1")
    assert server.send("GET", "a", client=reader) is None
    server.jobs[0].wait()
    assert replies(server, reader) == b"$-1\r\n$1\r\n1\r\n"


def test_blocked_readers_and_subscribers_are_told_when_it_is_durable():
    server = Restartable(at_once=False)
    blocked, subscriber = server.connect(), server.connect()
    server.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$", client=blocked)
    server.send("SUBSCRIBE", "c", client=subscriber)
    before = replies(server, subscriber)
    server.run([b"XADD", b"s", b"1-1", b"f", b"v"], [b"PUBLISH", b"c", b"news"])
    server.end_turn()
    assert (replies(server, blocked), replies(server, subscriber)) == (b"", before)
    server.jobs[0].wait()
    assert b"1-1" in replies(server, blocked)
    assert replies(server, subscriber).endswith(b"news\r\n")


def test_under_everysec_replies_leave_at_once_and_a_sync_follows_every_second():
    server = Restartable(at_once=False, appendfsync="everysec")
    assert server.send("SET", "a", "1") == b"+OK\r\n"
    server.clock.advance(1_000)
    server.cron()
    assert len(server.jobs) == 1
    server.jobs[0].wait()
    server.send("SET", "a", "2")
    server.clock.advance(999)
    server.cron()
    assert server.jobs == []
    server.clock.advance(1)
    server.cron()
    assert len(server.jobs) == 1


def test_under_everysec_replies_wait_for_a_sync_that_takes_longer_than_two_seconds():
    server = Restartable(at_once=False, appendfsync="everysec")
    server.send("SET", "a", "1")
    server.clock.advance(1_000)
    server.cron()
    server.clock.advance(2_000)
    assert server.send("SET", "a", "2") == b"+OK\r\n"
    server.clock.advance(1)
    assert server.send("SET", "a", "3") is None
    server.jobs[0].wait()
    assert replies(server, server.client).endswith(b"+OK\r\n+OK\r\n+OK\r\n")
    assert server.persistence.fields()["aof_delayed_fsync"] == 1


def test_under_no_nothing_is_synced():
    server = Restartable(at_once=False, appendfsync="no")
    assert server.send("SET", "a", "1") == b"+OK\r\n"
    server.clock.advance(100_000)
    server.cron()
    assert server.jobs == []


def test_a_policy_that_is_changed_holds_for_the_next_turn():
    server = Restartable(at_once=False, appendfsync="no")
    server.send("CONFIG", "SET", "appendfsync", "always")
    assert server.send("SET", "a", "1") is None
    server.jobs[0].wait()
    server.send("CONFIG", "SET", "appendfsync", "no")
    assert server.send("SET", "a", "2") == b"+OK\r\n"


def test_a_client_that_quits_gets_its_replies_before_it_is_closed():
    server = Restartable(at_once=False)
    closing = []
    flush = server.client.flush
    server.client.flush = lambda: (flush(), closing.append(server.client.close_soon))
    server.send("SET", "a", "1")
    server.send("QUIT")
    while server.jobs:
        server.jobs[0].wait()
    assert replies(server, server.client) == b"+OK\r\n+OK\r\n"
    assert closing == [False, True]


def test_waitaof_waits_for_the_sync_of_what_was_written():
    server = Restartable(at_once=False, appendfsync="everysec")
    server.send("SET", "a", "1")
    assert server.send("WAITAOF", "1", "0", "0") is None
    assert len(server.jobs) == 1
    server.jobs[0].wait()
    server.end_turn()
    assert replies(server, server.client).endswith(b"*2\r\n:1\r\n:0\r\n")
    assert server.send("WAITAOF", "1", "0", "0") == b"*2\r\n:1\r\n:0\r\n"


def test_waitaof_gives_up_when_its_time_is_up():
    server = Restartable(at_once=False, appendfsync="everysec")
    server.send("SET", "a", "1")
    server.send("WAITAOF", "1", "0", "50")
    server.clock.advance(50)
    server.engine.tick()
    assert replies(server, server.client).endswith(b"*2\r\n:0\r\n:0\r\n")


def test_while_a_rewrite_switches_files_what_is_acknowledged_is_in_both():
    server = Restartable(at_once=False)
    server.send("SET", "a", "1")
    server.jobs[0].wait()
    server.send("BGREWRITEAOF")
    rewrite = server.persistence.journal.rewrite
    while not rewrite.is_switching:
        server.engine.cron()
        if server.jobs:
            server.jobs[0].wait()
    assert len(server.jobs) == 1  # both new files are synced; the switch is handed out
    server.send("SET", "a", "2")
    before_switch: SimulatedDisk = server.disk.kill()
    server.jobs[0].wait()
    while server.jobs:
        server.jobs[0].wait()
    assert replies(server, server.client).endswith(b"+OK\r\n")
    for disk in (before_switch, server.disk.kill(), server.disk.cut_power(1)):
        assert server.restart(disk).engine.state.keyspace[0].values[b"a"] == b"2"


def test_after_a_failed_write_a_pipeline_gets_as_many_errors_as_it_sent_requests():
    server = Restartable(appendfsync="everysec")
    server.run(*[[b"XADD", b"s", b"*", b"f", b"v"]] * 200)
    server.run([b"HELLO", b"3"])
    server.end_turn()
    sent = len(server.replies[server.client])
    server.disk.fail_at, server.disk.fails_for = server.disk.operations + 1, 10**9
    # A batch of appends is one piece of output, a large range is many.
    like = [b"XADD", b"s", b"*", b"f", b"v"]
    server.run(
        *[like] * 5,
        [b"XRANGE", b"s", b"-", b"+"],
        [b"HGETALL", b"none"],
        *[like] * 3,
        [b"XREAD", b"STREAMS", b"s", b"0"],
    )
    assert len(server.client.out) != 11
    server.end_turn()
    left = b"".join(server.replies[server.client][sent:])
    assert left == b"-MISCONF Errors writing to the AOF file: Input/output error\r\n" * 11


def test_what_is_pushed_to_a_writer_outlasts_a_failed_write():
    server = Restartable(appendfsync="everysec")
    server.send("HELLO", "3")
    server.send("SUBSCRIBE", "c")
    sent = len(server.replies[server.client])
    server.disk.fail_at, server.disk.fails_for = server.disk.operations + 1, 10**9
    server.run([b"PUBLISH", b"c", b"m"], [b"SET", b"k", b"v"])
    server.end_turn()
    left = b"".join(server.replies[server.client][sent:])
    error = b"-MISCONF Errors writing to the AOF file: Input/output error\r\n"
    assert left == b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n" + error * 2
