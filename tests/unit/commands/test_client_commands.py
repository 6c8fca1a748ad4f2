"""Commands about connections: logging in, names, lists, pausing, unblocking, leaving."""

import pytest

from streamd.configuration.server_options import Config
from streamd.connected.monitor import redacted
from tests.session import Error, Session


@pytest.fixture
def locked(clock):
    """A server with a password, and its first client, which has not said it."""
    session = Session(clock, Config(requirepass="secret"))
    yield session
    assert session.state.stats.internal_errors == 0


# -- logging in -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", ["PING", "GET k", "MULTI", "CLIENT ID", "COMMAND", "SUBSCRIBE x"])
def test_without_the_password_nothing_is_answered(locked, request_):
    assert locked.do(request_) == Error("NOAUTH Authentication required.")


def test_what_does_not_exist_is_named_so_even_without_the_password(locked):
    assert locked.do("NOSUCH a").text.startswith("ERR unknown command 'NOSUCH', with args beginning with: 'a'")
    assert locked.do("GET").text.startswith("ERR wrong number of arguments")


@pytest.mark.parametrize("request_", ["AUTH secret", "AUTH default secret", "HELLO 2 AUTH default secret"])
def test_the_password_opens_the_door(locked, request_):
    locked.do(request_)
    assert locked.do("PING") == "PONG"


@pytest.mark.parametrize("request_", ["AUTH wrong", "AUTH default wrong", "AUTH someone secret", "HELLO 3 AUTH a b"])
def test_a_wrong_password_does_not(locked, request_):
    assert locked.do(request_) == Error("WRONGPASS invalid username-password pair or user is disabled.")
    assert locked.client.protocol == 2
    assert locked.do("PING") == Error("NOAUTH Authentication required.")


def test_hello_says_what_it_needs_before_it_says_anything_else(locked):
    assert locked.do("HELLO 3").text.startswith("NOAUTH HELLO must be called with the client already authenticated")
    assert locked.client.protocol == 2


def test_reset_logs_out(locked):
    locked.do("AUTH secret")
    assert locked.do("RESET") == "RESET"
    assert locked.do("PING") == Error("NOAUTH Authentication required.")


# -- HELLO, RESET -----------------------------------------------------------------------------------------------------


def test_hello_changes_the_protocol_of_its_own_reply(engine):
    assert engine.raw(["HELLO", "3"]).startswith(b"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n")
    assert engine.raw(["HELLO", "2"]).startswith(b"*14\r\n")
    assert engine.raw(["HELLO"]).startswith(b"*14\r\n")


def test_hello_that_fails_changes_nothing(engine):
    engine.do("HELLO 3 SETNAME first")
    engine.execute(["HELLO", "2", "SETNAME", "second", "FOO"])
    assert engine.do("CLIENT GETNAME") == b"first"
    assert engine.client.protocol == 3


def test_reset_ends_everything_that_was_begun(engine):
    engine.do("HELLO 3 SETNAME foo")
    engine.do("SELECT 3")
    engine.send(["SUBSCRIBE", "x"], ["WATCH", "k"], ["MULTI"])
    engine.replies()
    assert engine.do("RESET") == "RESET"
    client = engine.client
    assert (client.protocol, client.name, client.transaction, client.watched) == (2, b"", None, set())
    assert engine.connect().do("PUBSUB CHANNELS") == []
    assert engine.do("DBSIZE") == 0
    assert client.quick is engine.engine.quick


# -- CLIENT LIST and KILL ---------------------------------------------------------------------------------------------


def fields(line: bytes) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.decode().split(" "))


def test_a_client_is_shown_with_what_it_does(engine, clock):
    other = engine.connect(protocol=3)
    other.client.address = "10.0.0.1:5"
    other.do("CLIENT SETNAME worker")
    other.do("CLIENT SETINFO LIB-NAME redis-py")
    other.do("CLIENT SETINFO LIB-VER 8.0")
    other.do("SELECT 2")
    other.send(["SUBSCRIBE", "x"], ["PSUBSCRIBE", "y*"], ["MULTI"], ["GET", "k"])
    clock.advance(3_500)
    other.send(["SET", "k", "v"])
    clock.advance(1_000)
    shown = fields(engine.do(f"CLIENT LIST ID {other.client.id}").rstrip(b"\n"))
    expected = {"addr": "10.0.0.1:5", "name": "worker", "age": "4", "idle": "1", "flags": "Px", "db": "2", "sub": "1"}
    expected |= {"psub": "1", "multi": "2", "cmd": "set", "resp": "3", "lib-name": "redis-py", "lib-ver": "8.0"}
    assert {name: shown[name] for name in expected} == expected


def test_a_blocked_client_is_shown_as_such(engine):
    other = engine.connect()
    other.send(["XREAD", "BLOCK", "0", "STREAMS", "s", "$"])
    shown = fields(engine.do(f"CLIENT LIST ID {other.client.id}").rstrip(b"\n"))
    assert (shown["flags"], shown["cmd"]) == ("b", "xread")
    assert b"blocked_clients:1\r\n" in engine.do("INFO clients")


def test_the_list_holds_all_or_those_of_a_kind(engine):
    other = engine.connect()
    other.do("SUBSCRIBE x")
    assert engine.do("CLIENT LIST").count(b"\n") == 2
    assert b"cmd=subscribe" in engine.do("CLIENT LIST TYPE pubsub")
    assert b"cmd=client|list" in engine.do("CLIENT LIST TYPE normal")
    assert engine.do("CLIENT INFO").startswith(b"id=%d " % engine.client.id)


@pytest.mark.parametrize(
    ("filters", "killed"),
    [
        ("ID 2", {2}),
        ("ID 1", set()),
        ("ID 1 SKIPME no", {1}),
        ("ADDR a:2", {2}),
        ("LADDR l:1", {2, 3}),
        ("TYPE pubsub", {3}),
        ("TYPE normal", {2}),
        ("USER default", {2, 3}),
        ("USER default SKIPME no", {1, 2, 3}),
        ("MAXAGE 10", {2}),
        ("MAXAGE 10 TYPE pubsub", set()),
        ("a:3", {3}),
    ],
)
def test_clients_that_match_every_filter_are_closed(engine, clock, filters, killed):
    second = engine.connect()
    clock.advance(60_000)
    third = engine.connect()
    third.do("SUBSCRIBE x")
    gone = set()
    for number, one in enumerate((engine, second, third), 1):
        one.client.address, one.client.local_address = f"a:{number}", "l:1" if number > 1 else "l:2"
        one.client.created_ms = clock.monotonic_ms() - (60_000 if number == 2 else 0)
        one.client.kill = lambda number=number: gone.add(number)
    reply = engine.do(f"CLIENT KILL {filters}")
    if engine.client.close_soon:
        gone.add(1)
    assert gone == killed
    assert reply == ("OK" if filters == "a:3" else len(killed))


# -- CLIENT UNBLOCK, PAUSE, REPLY -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "reply"),
    [("", None), ("TIMEOUT", None), ("ERROR", Error("UNBLOCKED client unblocked via CLIENT UNBLOCK"))],
)
def test_a_blocked_client_can_be_unblocked_by_another(engine, reason, reply):
    other = engine.connect()
    other.send(["XREAD", "BLOCK", "0", "STREAMS", "s", "$"], ["PING"])
    assert engine.do(f"CLIENT UNBLOCK {other.client.id} {reason}") == 1
    assert other.replies() == [reply, "PONG"]
    assert engine.do(f"CLIENT UNBLOCK {other.client.id}") == 0


def test_a_pause_holds_commands_back_until_its_time_is_up(engine, clock):
    other = engine.connect()
    engine.do("CLIENT PAUSE 100")
    other.send(["SET", "k", "v"], ["GET", "k"])
    assert other.replies() == []
    clock.advance(99)
    assert other.replies() == []
    clock.advance(1)
    assert other.replies() == ["OK", b"v"]


def test_a_pause_of_writes_lets_reads_pass(engine, clock):
    other, writer = engine.connect(), engine.connect()
    engine.do("CLIENT PAUSE 100 WRITE")
    writer.send(["SET", "k", "v"])
    assert other.do("GET k") is None
    assert other.do("MULTI") == "OK"
    assert other.do("GET k") == "QUEUED"
    assert other.do("EXEC") == [None]
    assert engine.do("CLIENT UNBLOCK 3") == 0
    assert engine.do("CLIENT UNPAUSE") == "OK"
    assert writer.replies() == ["OK"]
    assert engine.client.quick


@pytest.mark.parametrize(
    ("script", "waits"),
    [("return 1", True), ("#!lua\nreturn 1", True), ("#!lua flags=no-writes\nreturn 1", False), ("#!x\nreturn", False)],
)
def test_a_pause_of_writes_holds_scripts_back_that_may_write(engine, script, waits):
    if not script.startswith("#!x"):
        sha = engine.execute(["SCRIPT", "LOAD", script])
    clients = [engine.connect() for _ in range(4)]
    engine.do("CLIENT PAUSE 100 WRITE")
    clients[0].send(["EVAL", script, "0"])
    clients[1].send(["MULTI"], ["EVAL", script, "0"], ["EXEC"])
    clients[2].send(["EVAL_RO", "return 1", "0"])
    if not script.startswith("#!x"):
        clients[3].send(["EVALSHA", sha, "0"])
    assert clients[0].blocked == clients[1].blocked == waits
    assert not clients[2].blocked
    assert clients[3].blocked == waits
    engine.do("CLIENT UNPAUSE")
    assert not any(client.blocked for client in clients)


def test_a_pause_is_never_made_shorter_by_another(engine, clock):
    other = engine.connect()
    engine.do("CLIENT PAUSE 100 WRITE")
    engine.do("CLIENT PAUSE 10 WRITE")
    other.send(["SET", "k", "v"])
    clock.advance(50)
    assert other.replies() == []
    clock.advance(50)
    assert other.replies() == ["OK"]


def test_who_goes_while_paused_leaves_nothing_behind(engine, clock):
    other = engine.connect()
    engine.do("CLIENT PAUSE 100 WRITE")
    other.send(["SET", "k", "v"])
    other.disconnect()
    clock.advance(100)
    assert engine.do("GET k") is None
    assert engine.state.blocked.count == 0


def test_after_a_pause_that_nobody_met_requests_are_quick_again(engine, clock):
    engine.do("CLIENT PAUSE 100")
    assert not engine.client.quick
    clock.advance(100)
    engine.sweep()
    assert engine.client.quick
    assert engine.connect().client.quick


@pytest.mark.parametrize("mode", ["SKIP", "OFF"])
@pytest.mark.parametrize("end", ["entry", "time"])
def test_who_wants_no_reply_gets_none_from_a_blocking_command(engine, clock, mode, end):
    reader = engine.connect()
    reader.send(["CLIENT", "REPLY", mode], ["XREAD", "BLOCK", "50", "STREAMS", "s", "$"], ["PING"])
    if end == "entry":
        engine.do("XADD s * f v")
    else:
        clock.advance(50)
    assert not reader.blocked
    assert reader.replies() == (["PONG"] if mode == "SKIP" else [])
    reader.send(["CLIENT", "REPLY", "ON"], ["PING"])
    assert reader.replies() == ["OK", "PONG"]


def test_a_reply_is_left_out_also_if_its_request_was_held_back_by_a_pause(engine, clock):
    other = engine.connect()
    other.send(["CLIENT", "REPLY", "SKIP"])
    engine.do("CLIENT PAUSE 100")
    other.send(["SET", "k", "v"], ["GET", "k"])
    clock.advance(100)
    assert other.replies() == [b"v"]


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("more", [[], ["NOACK"]])
def test_a_client_that_was_killed_gets_nothing_of_what_comes_in_the_same_breath(engine, in_transaction, more):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    reader = engine.connect()
    reader.send(["XREADGROUP", "GROUP", "g", "ann", "BLOCK", "0", *more, "STREAMS", "s", ">"], ["SET", "k", "v"])
    requests = [["CLIENT", "KILL", "ID", reader.client.id], ["XADD", "s", "1-1", "f", "v"]]
    engine.send(*([["MULTI"], *requests, ["EXEC"]] if in_transaction else requests))
    engine.replies()
    assert reader.received() == b""
    assert engine.do("XPENDING s g") == [0, None, None, None]
    read = engine.do("XREADGROUP GROUP g bob STREAMS s >")
    assert read == [[b"s", [[b"1-1", [b"f", b"v"]]]]]
    assert engine.do("GET k") is None
    assert b"id=%d " % reader.client.id not in engine.do("CLIENT LIST")


def test_what_comes_behind_quit_is_not_executed(engine):
    engine.send(["SET", "a", "1"], ["QUIT"], ["SET", "b", "1"])
    engine.send(["SET", "c", "1"])
    assert engine.replies() == ["OK", "OK"]
    assert engine.connect().do("EXISTS a b c") == 1


@pytest.mark.parametrize(
    ("requests", "replies"),
    [
        (["CLIENT REPLY OFF", "PING", "NOSUCH", "CLIENT REPLY ON", "PING"], ["OK", "PONG"]),
        (["CLIENT REPLY SKIP", "PING", "PING"], ["PONG"]),
        (["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING", "PING"], ["PONG"]),
        (["CLIENT REPLY SKIP", "CLIENT REPLY ON", "PING"], ["OK", "PONG"]),
        (["CLIENT REPLY OFF", "CLIENT REPLY SKIP", "PING", "PING"], []),
        (["CLIENT REPLY OFF", "RESET", "PING"], ["RESET", "PONG"]),
        (["CLIENT REPLY SKIP", "RESET", "PING"], ["PONG"]),
    ],
)
def test_replies_are_sent_or_not_as_the_client_asked(engine, requests, replies):
    engine.send(*(request.split() for request in requests))
    assert engine.replies() == replies


def test_pushes_come_although_replies_are_off(engine):
    engine.send(["CLIENT", "REPLY", "OFF"], ["SUBSCRIBE", "x"])
    engine.connect().do("PUBLISH x hi")
    assert engine.replies() == [[b"subscribe", b"x", 1], [b"message", b"x", b"hi"]]


# -- MONITOR ----------------------------------------------------------------------------------------------------------


def test_monitor_shows_what_others_do_without_their_passwords(engine):
    monitor, other = engine.connect(), engine.connect()
    other.client.address = "1.2.3.4:5"
    assert monitor.do("MONITOR") == "OK"
    other.execute(["SELECT", "1"])
    other.execute(["SET", "k", b'a"\\\n\x00\xff'])
    other.do("AUTH name secret")
    other.do("HELLO 2 SETNAME x AUTH name secret")
    other.do("CONFIG GET port")
    assert monitor.replies() == [
        '1000000000.000000 [1 1.2.3.4:5] "SELECT" "1"',
        '1000000000.000000 [1 1.2.3.4:5] "SET" "k" "a\\"\\\\\\n\\x00\\xff"',
        '1000000000.000000 [1 1.2.3.4:5] "AUTH" "(redacted)" "(redacted)"',
        '1000000000.000000 [1 1.2.3.4:5] "HELLO" "2" "SETNAME" "x" "AUTH" "(redacted)" "(redacted)"',
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ACL DRYRUN bob AUTH ann pw", "ACL DRYRUN bob AUTH * *"),
        ("acl dryrun bob hello 3 auth ann pw", "acl dryrun bob hello 3 auth * *"),
        ("ACL DRYRUN bob ACL DRYRUN eve ACL SETUSER ann >pw", "ACL DRYRUN bob ACL DRYRUN eve ACL SETUSER * *"),
        ("COMMAND GETKEYS AUTH pw", "COMMAND GETKEYS AUTH *"),
        ("COMMAND getkeysandflags CONFIG SET requirepass pw", "COMMAND getkeysandflags CONFIG SET requirepass *"),
        ("ACL DRYRUN bob GET pw", "ACL DRYRUN bob GET pw"),
        ("ACL DRYRUN bob", "ACL DRYRUN bob"),
        ("COMMAND GETKEYS", "COMMAND GETKEYS"),
    ],
)
def test_a_password_in_a_request_about_a_request_is_shown_to_nobody(line, shown):
    found = redacted(line.encode().split())
    assert b" ".join(found).decode() == shown.replace("*", "(redacted)")


def test_nobody_takes_the_slow_path_when_the_last_monitor_has_left(engine):
    monitor = engine.connect()
    monitor.do("MONITOR")
    assert not engine.client.quick
    assert not engine.connect().client.quick
    monitor.disconnect()
    assert engine.client.quick
    assert engine.connect().client.quick
