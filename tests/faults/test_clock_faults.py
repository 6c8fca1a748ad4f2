"""Timers while the machine's clock is set: whatever the wall time does, a wait takes as long as it should."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from streamd.base.clock import Clock
from streamd.base.limits import OUTPUT_PAUSE_BYTES, OUTPUT_STALLED_MS_MAX
from streamd.configuration.server_options import Config
from streamd.data.element_list import ElementList
from streamd.durability.backups import IDLE_MS_MAX
from streamd.engine.memory import MemoryLimit
from streamd.net.connection import Connection
from streamd.net.server import Server
from streamd.testing import EmbeddedServer
from tests.crash.restartable import Restartable
from tests.faults.test_end_of_input_parts import Host
from tests.session import Session, decode

LEAPS_MS = [sign * size for size in (1_000, 60_000, 86_400_000) for sign in (1, -1)]
MINUTE_MS = 60_000

# Says whether what a test has begun has ended.
Ended = Callable[[], bool]


def move(clock: Any, kind: str, milliseconds: int, look: Callable[[], object]) -> None:
    getattr(clock, kind)(milliseconds)
    look()


# -- timers of a session ----------------------------------------------------------------------------------------------


def waiter(request: str, *prepared: str) -> Callable[[Session], Ended]:
    def begin(session: Session) -> Ended:
        for line in prepared:
            session.do(line)
        client = session.connect()
        client.say(request)
        assert client.blocked
        return lambda: not client.blocked

    return begin


def paused(mode: str) -> Callable[[Session], Ended]:
    def begin(session: Session) -> Ended:
        session.do(f"CLIENT PAUSE 5000 {mode}")
        client = session.connect()
        client.say("SET k v")
        assert client.blocked
        return lambda: not client.blocked

    return begin


def pause_that_nobody_waits_for(session: Session) -> Ended:
    session.do("CLIENT PAUSE 5000 WRITE")
    return lambda: session.state.pause_until_ms == 0


def memory_given_back(session: Session) -> Ended:
    times: list[int] = []
    limit = session.engine.memory_limit = MemoryLimit(session.state, lambda: 2_000_000, lambda: times.append(0))
    session.do("CONFIG SET maxmemory 1000000")
    times.clear()
    limit.check()
    assert not times
    return lambda: bool(times)


def key_set_aside(session: Session) -> Ended:
    """The end of a key that a bug has met is tried again a minute later."""
    db = session.state.keyspace[0]
    db.put(b"k", b"v")
    db.set_aside.append(b"k")
    db.set_aside_until_ms = db.time.monotonic_ms + MINUTE_MS
    return lambda: not db.set_aside


SESSION_TIMERS: dict[str, tuple[int, Callable[[Session], Ended]]] = {
    "BLPOP": (5_000, waiter("BLPOP k 5")),
    "BLMOVE": (5_000, waiter("BLMOVE k l LEFT LEFT 5")),
    "BZPOPMIN": (5_000, waiter("BZPOPMIN k 5")),
    "XREAD": (5_000, waiter("XREAD BLOCK 5000 STREAMS s $")),
    "XREADGROUP": (5_000, waiter("XREADGROUP GROUP g c BLOCK 5000 STREAMS s >", "XGROUP CREATE s g $ MKSTREAM")),
    "WAIT": (5_000, waiter("WAIT 1 5000")),
    "CLIENT PAUSE": (5_000, paused("ALL")),
    "CLIENT PAUSE WRITE": (5_000, paused("WRITE")),
    "a pause that nobody waits for": (5_000, pause_that_nobody_waits_for),
    "memory is given back": (1_000, memory_given_back),
    "a key that was set aside": (MINUTE_MS, key_set_aside),
}


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
@pytest.mark.parametrize("name", SESSION_TIMERS)
def test_faults2_3_3_a_timer_that_runs_takes_no_notice_of_a_leap(name: str, leap_ms: int):
    after_ms, begin = SESSION_TIMERS[name]
    session = Session()
    ended = begin(session)
    move(session.clock, "leap", leap_ms, session.sweep)
    assert not ended()
    move(session.clock, "advance", after_ms - 1, session.sweep)
    assert not ended()
    move(session.clock, "advance", 1, session.sweep)
    assert ended()


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
@pytest.mark.parametrize("name", SESSION_TIMERS)
def test_faults2_3_3_a_timer_that_began_while_the_clock_was_wrong_ends_in_time(name: str, leap_ms: int):
    after_ms, begin = SESSION_TIMERS[name]
    session = Session()
    move(session.clock, "leap", leap_ms, session.sweep)
    ended = begin(session)
    move(session.clock, "leap", -leap_ms, session.sweep)
    assert not ended()
    move(session.clock, "advance", after_ms - 1, session.sweep)
    assert not ended()
    move(session.clock, "advance", 1, session.sweep)
    assert ended()


# -- timers of a journal ----------------------------------------------------------------------------------------------


def rewrite_that_failed(server: Restartable) -> Ended:
    values = server.engine.state.keyspace[0]
    elements: list[Any] = [5]
    values.put(b"spoiled", ElementList(elements))
    server.rewrite()
    assert server.persistence.rewriting.failures == 1
    values.remove(b"spoiled")
    return lambda: server.persistence.rewriting.count == 1


def rewrite_after_a_second_bug(server: Restartable) -> Ended:
    """After one that settled a doubt, while there is another, the next waits for a second."""
    rewriting = server.persistence.rewriting
    server.send("BGREWRITEAOF")
    rewriting.doubt()
    server.cron()
    assert rewriting.count == 1
    return lambda: rewriting.count == 2


def switch_that_cannot_be_synced(server: Restartable) -> Ended:
    server.send("SET", "k", "1")
    trial = server.restart()
    before = trial.disk.operations
    trial.rewrite()
    # The last but one operation that changes something is the sync of the directory behind the manifest's renaming.
    for at in range(trial.disk.operations - before, 0, -1):
        server.disk.fail_at, server.disk.failure = server.disk.operations + at, 28
        server.rewrite()
        server.disk.fail_at = 0
        if server.persistence.journal.rewrite is not None and server.persistence.journal.rewrite.is_named:
            count = server.persistence.rewriting.count
            return lambda: server.persistence.rewriting.count > count
    raise AssertionError


def sync_of_every_second(server: Restartable) -> Ended:
    server.clock.advance(1_000)
    server.send("SET", "k", "1")
    server.cron()
    server.send("SET", "k", "2")
    journal = server.persistence.journal
    return lambda: journal.synced_writes == journal.writes


def backup_that_asks_for_nothing(server: Restartable) -> Ended:
    reader = server.connect()
    while server.send("JOURNAL", "BEGIN", "0", client=reader) in (None, b"*-1\r\n", b"$-1\r\n"):
        server.cron()
    return lambda: reader not in server.persistence.backups._pinned


def waitaof(server: Restartable) -> Ended:
    client = server.connect()
    server.send("SET", "k", "1", client=client)
    server.run([b"WAITAOF", b"0", b"1", b"5000"], client=client)
    server.end_turn()
    assert client.waiter is not None
    return lambda: client.waiter is None


JOURNAL_TIMERS: dict[str, tuple[int, Callable[[Restartable], Ended]]] = {
    "a rewrite that failed": (MINUTE_MS, rewrite_that_failed),
    "a rewrite that a bug asks for": (1_000, rewrite_after_a_second_bug),
    "a switch that cannot be synced": (1_000, switch_that_cannot_be_synced),
    "the sync of every second": (1_000, sync_of_every_second),
    "a backup that asks for nothing": (IDLE_MS_MAX + 1, backup_that_asks_for_nothing),
    "WAITAOF": (5_000, waitaof),
}


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
@pytest.mark.parametrize("was_wrong", [False, True], ids=["leaps", "was-wrong"])
@pytest.mark.parametrize("name", JOURNAL_TIMERS)
def test_faults2_3_3_a_timer_of_the_journal_takes_no_notice_of_a_leap(name: str, was_wrong: bool, leap_ms: int):
    after_ms, begin = JOURNAL_TIMERS[name]
    server = Restartable(appendfsync="everysec")

    def look() -> None:
        server.engine.tick()
        server.cron()

    if was_wrong:
        move(server.clock, "leap", leap_ms, look)
    ended = begin(server)
    move(server.clock, "leap", -leap_ms, look)
    assert not ended()
    move(server.clock, "advance", after_ms - 1, look)
    assert not ended()
    move(server.clock, "advance", 1, look)
    assert ended()


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
def test_faults2_3_3_info_says_how_long_a_rewrite_took_and_when_it_ended(leap_ms: int):
    server = Restartable(appendfsync="everysec", at_once=False)
    server.send("BGREWRITEAOF")
    server.clock.advance(3_000)
    server.clock.leap(leap_ms)
    assert server.persistence.rewriting.takes_s == 3
    server.at_once = True
    server.cron()
    assert server.persistence.rewriting.last_took_s == 3
    assert server.persistence.saved_s == server.clock.now_ms() // 1000


# -- connections ------------------------------------------------------------------------------------------------------


def look_at_connections(host: Host) -> None:
    host.engine.tick()
    for connection in list(host.connections):
        connection.close_if_left(host.engine.state.time.monotonic_ms)


def idle(host: Host) -> Connection:
    host.ask("CONFIG", "SET", "timeout", "60")
    return host.connect()[0]


def half_closed_and_not_reading(host: Host) -> Connection:
    connection, transport = host.connect()
    transport.keeps = True
    value = b"x" * (OUTPUT_PAUSE_BYTES + 1)
    connection.data_received(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%b\r\n" % (len(value), value) + b"GET k\r\n" * 2)
    host.turns()
    connection.pause_writing()
    connection.eof_received()
    host.turns()
    look_at_connections(host)
    return connection


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
@pytest.mark.parametrize("was_wrong", [False, True], ids=["leaps", "was-wrong"])
@pytest.mark.parametrize(
    ("after_ms", "begin"), [(60_001, idle), (OUTPUT_STALLED_MS_MAX, half_closed_and_not_reading)],
    ids=["timeout", "half-closed"],
)  # fmt: skip
def test_faults2_3_3_a_connection_is_closed_behind_the_time_that_it_was_idle(
    begin: Callable[[Host], Connection], after_ms: int, was_wrong: bool, leap_ms: int
):
    host = Host()
    if was_wrong:
        move(host.clock, "leap", leap_ms, lambda: look_at_connections(host))
    connection = begin(host)
    transport = connection._transport
    move(host.clock, "leap", -leap_ms, lambda: look_at_connections(host))
    move(host.clock, "advance", after_ms - 1, lambda: look_at_connections(host))
    assert not transport.closed
    move(host.clock, "advance", 1, lambda: look_at_connections(host))
    assert transport.closed


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
def test_faults2_3_3_ages_and_idle_times_that_are_shown_are_those_that_passed(leap_ms: int):
    session = Session()
    other = session.connect()
    session.do("SET k v")
    other.do("PING")
    session.clock.leap(leap_ms)
    session.clock.advance(7_000)
    assert b" age=7 idle=7 " in next(line for line in session.do("CLIENT LIST").splitlines() if b" cmd=ping " in line)
    assert session.do("OBJECT IDLETIME k") == 7
    assert b"\r\nuptime_in_seconds:7\r\n" in session.do("INFO server")
    assert session.do("CLIENT KILL MAXAGE 8") == 0
    assert session.do("CLIENT KILL MAXAGE 7") == 1


def test_faults2_3_3_a_client_is_not_idle_for_what_a_long_turn_took():
    """A request notes the time as of the last tick: a server that was busy since takes no client for idle."""
    server = Server(Config(timeout=5), Session().clock)
    server._loop = FakeLoop()
    host = Host()
    server.connections, server.engine = host.connections, host.engine
    host.ask("CONFIG", "SET", "timeout", "5")
    connection, transport = host.connect()
    server._run_cron()
    host.clock.advance(6_000)  # nobody ticks: another client's turn
    connection.data_received(b"PING\r\n")
    server._run_cron()
    assert not transport.closed
    host.clock.advance(5_001)
    server._run_cron()
    server.engine.state.time.read(host.clock)
    host.clock.advance(1_000)
    server._run_cron()
    assert transport.closed


class FakeLoop:
    """Notes what is to be called, and when."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def call_later(self, delay: float, call: Callable[[], None]) -> Any:
        self.delays.append(delay)
        return asyncio.Handle(call, (), self)  # type: ignore[arg-type]

    def get_debug(self) -> bool:
        return False


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
def test_faults2_3_3_the_server_wakes_when_the_time_of_a_waiter_has_passed(leap_ms: int):
    session = Session()
    server = Server(Config(), session.clock)
    loop = server._loop = FakeLoop()
    server.engine = session.engine
    session.clock.leap(leap_ms)
    session.connect().say("BLPOP k 2")
    session.clock.advance(500)
    server._arm_timer()
    assert loop.delays == [1.5]


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
def test_faults2_3_3_blpop_ends_on_a_server_whose_clock_was_wrong_when_it_began(leap_ms: int):
    with EmbeddedServer() as server:
        client = server.client()
        connection = client.connection_pool.get_connection()
        server.leap(milliseconds=leap_ms)
        connection.send_command("BLPOP", "k", 1)
        while not any("b" in one["flags"] for one in client.client_list()):
            pass
        server.leap(milliseconds=-leap_ms)
        server.advance(milliseconds=999)
        assert any("b" in one["flags"] for one in client.client_list())
        server.advance(milliseconds=1)
        assert connection.read_response() is None
        connection.disconnect()
        assert server.internal_errors == 0


# -- what follows the wall time, as in Redis --------------------------------------------------------------------------


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
@pytest.mark.parametrize("asked", [False, True], ids=["by-the-cron", "at-a-look"])
def test_faults2_3_3_keys_and_fields_end_at_the_wall_time_that_is_stored(leap_ms: int, asked: bool):
    session = Session()
    session.do("SET k v PX 10000")
    session.do("HSET h f v g v")
    session.do("HPEXPIRE h 10000 FIELDS 1 f")
    look = (lambda: None) if asked else session.sweep
    move(session.clock, "leap", leap_ms, look)
    if leap_ms < 10_000:
        assert session.do("PTTL k") == 10_000 - leap_ms
        move(session.clock, "advance", 10_000 - leap_ms - 1, look)
        assert session.do("EXISTS k") == 1
        assert session.do("HLEN h") == 2
        move(session.clock, "advance", 1, look)
    if asked:
        assert session.do("EXISTS k") == 0
        assert session.do("HKEYS h") == [b"g"]
    assert session.state.keyspace[0].values.keys() == {b"h"}
    assert len(session.state.keyspace[0].values[b"h"]) == 1


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
def test_faults2_3_3_a_window_and_entry_ids_follow_the_wall_time_and_ids_never_go_back(leap_ms: int):
    session = Session()
    begin_ms = session.clock.now_ms()
    first = session.do("XADD s IDMP p i * f v")
    session.clock.leap(leap_ms)
    session.sweep()
    second = session.do("XADD s IDMP p i * f v")
    if leap_ms >= 100_000:
        assert second == b"%d-0" % (begin_ms + leap_ms)
    else:
        assert second == first
    third = session.do("XADD s * f v")
    assert third == (b"%d-0" % (begin_ms + leap_ms) if 0 < leap_ms < 100_000 else third)
    ids = [tuple(map(int, one[0].split(b"-"))) for one in session.do("XRANGE s - +")]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
def test_faults2_3_3_a_claim_comes_when_entries_are_idle_by_the_wall_time_whatever_it_did_meanwhile(leap_ms: int):
    session = Session()
    session.do("XGROUP CREATE s g $ MKSTREAM")
    session.do("XADD s 1-1 f v")
    session.do("XREADGROUP GROUP g ann STREAMS s >")
    session.clock.leap(leap_ms)
    client = session.connect()
    client.say("XREADGROUP GROUP g bob BLOCK 0 CLAIM 100000000 STREAMS s >")  # more than a day
    assert client.blocked
    session.clock.leap(-leap_ms)
    session.clock.advance(100_000_000 - 1)
    session.sweep()
    assert client.blocked
    session.clock._listeners.clear()  # the cron alone looks: no timer knows of a leap
    session.clock.leap(1)
    session.sweep()
    assert [row[0] for row in client.replies()[0][0][1]] == [b"1-1"]


@pytest.mark.parametrize("leap_ms", LEAPS_MS)
def test_faults2_3_3_what_replies_show_as_a_wall_time_is_one(leap_ms: int):
    server = Restartable(appendfsync="everysec")
    server.clock.leap(leap_ms)
    now_us = server.clock.now_us()
    seconds, micros = decode(server.send("TIME"))[0]
    assert int(seconds) * 1_000_000 + int(micros) == now_us
    server.rewrite()
    assert decode(server.send("LASTSAVE"))[0] == now_us // 1_000_000
    assert b"\r\nserver_time_usec:%d\r\n" % now_us in decode(server.send("INFO", "server"))[0]


def test_faults2_3_3_the_machines_clock_gives_both_readings():
    clock = Clock()
    first = clock.monotonic_us()
    assert first // 1000 <= clock.monotonic_ms() <= clock.monotonic_us() // 1000
    assert abs(clock.now_us() // 1000 - clock.now_ms()) < 60_000
