"""Limits of clients that have not logged in: they hold while that is so, for open connections as well."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.redis_process import running_redis
from tests.integration.process import ServerProcess
from tests.unit.net.test_connection import FakeServer

WIDE = b"*13\r\n$4\r\nMGET\r\n" + b"$1\r\nk\r\n" * 12
LONG = b"*2\r\n$4\r\nECHO\r\n$20000\r\n" + b"x" * 20_000 + b"\r\n"
LARGE = {"words": (WIDE, b"*12\r\n" + b"$-1\r\n" * 12), "bytes": (LONG, LONG[14:])}
REFUSED = {
    "words": b"-ERR Protocol error: unauthenticated multibulk length\r\n",
    "bytes": b"-ERR Protocol error: unauthenticated bulk length\r\n",
}
ENDS = ["CONFIG SET requirepass ''", "ACL SETUSER default nopass", "ACL SETUSER default on nopass resetkeys ~*"]


def words(line: str) -> bytes:
    parts = [b"" if word == "''" else word.encode() for word in line.split()]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def say(client, data: bytes, size: int = 1 << 20) -> bytes:
    """Return what a client is answered that sends `data`, in pieces of at most `size` bytes."""
    connection, transport = client
    before = len(transport.written)
    for at in range(0, len(data), size):
        connection.data_received(data[at : at + size])
    return bytes(transport.written[before:])


@pytest.fixture
def server() -> FakeServer:
    return FakeServer(requirepass="secret")


@pytest.fixture
def admin(server: FakeServer):
    client = server.connect()
    assert say(client, words("AUTH secret")) == b"+OK\r\n"
    return client


@pytest.mark.parametrize("size", [1 << 20, 1_000, 7])
@pytest.mark.parametrize("between", ["", "AUTH other word", "RESET"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", LARGE)
def test_faults2_3_2_small_limits_end_when_no_password_is_required_any_more(server, admin, kind, end, between, size):
    waiting = server.connect()
    assert say(waiting, b"PING\r\n").startswith(b"-NOAUTH")
    say(admin, words("ACL SETUSER other on >word +@all ~*"))
    assert say(admin, words(end)) == b"+OK\r\n"
    if between:
        assert say(waiting, words(between)) in (b"+OK\r\n", b"+RESET\r\n")
    request, reply = LARGE[kind]
    for _ in range(3):
        assert say(waiting, request, size) == reply
    assert not waiting[1].closed


@pytest.mark.parametrize("kind", LARGE)
def test_faults2_3_2_a_request_that_is_half_there_when_the_requirement_ends_is_taken_whole(server, admin, kind):
    request, reply = LARGE[kind]
    for at in range(1, 4):  # its head says no length yet that is too much
        waiting = server.connect()
        assert say(waiting, request[:at]) == b""
        say(admin, words("CONFIG SET requirepass ''"))
        assert say(waiting, request[at:]) == reply
        say(admin, words("CONFIG SET requirepass secret"))


@pytest.mark.parametrize("size", [1 << 20, 1_000, 7])
@pytest.mark.parametrize("kind", LARGE)
def test_faults2_3_2_reset_under_a_password_gives_the_small_limits_again(server, admin, kind, size):
    client = server.connect()
    request, reply = LARGE[kind]
    for _ in range(2):
        assert say(client, words("AUTH secret")) == b"+OK\r\n"
        assert say(client, request, size) == reply
        assert say(client, b"RESET\r\n") == b"+RESET\r\n"
    assert say(client, request, size) == REFUSED[kind]
    assert client[1].closed


def test_faults2_3_2_what_follows_reset_in_one_pipeline_is_nobodys(server):
    client = server.connect()
    assert say(client, words("AUTH secret") + words("RESET") + words("GET k")) == (
        b"+OK\r\n+RESET\r\n-NOAUTH Authentication required.\r\n"
    )
    half = words("AUTH secret") + words("RESET") + LONG[:1000]
    assert say(client, half) == b"+OK\r\n+RESET\r\n"
    assert say(client, LONG[1000:]) == REFUSED["bytes"]


@pytest.mark.parametrize("kind", LARGE)
def test_faults2_3_2_a_requirement_that_returns_holds_for_who_never_logged_in(server, admin, kind):
    never, waiting = server.connect(), server.connect()
    say(admin, words("CONFIG SET requirepass ''"))
    came_while_open = server.connect()
    request, reply = LARGE[kind]
    for client in (never, waiting, came_while_open):
        assert say(client, request) == reply
    assert say(waiting, b"RESET\r\n") == b"+RESET\r\n"  # a new connection at this moment, which has to say none
    say(admin, words("CONFIG SET requirepass other"))
    assert say(never, words("GET k")) == b"-NOAUTH Authentication required.\r\n"
    assert say(never, request) == REFUSED[kind]
    for client in (waiting, came_while_open, admin):
        assert say(client, request) == reply


@pytest.mark.parametrize("change", ["ACL SETUSER u -@all", "ACL SETUSER u resetkeys", "ACL SETUSER u off reset", ""])
def test_faults2_3_2_a_change_of_rights_holds_from_the_next_request_on(server, admin, change):
    say(admin, words("ACL SETUSER u on nopass +@all ~*"))
    client = server.connect()
    assert say(client, words("AUTH u x") + words("GET k")) == b"+OK\r\n$-1\r\n"
    say(admin, words(change or "ACL DELUSER u"))
    answered = say(client, words("GET k"))
    assert answered.startswith(b"-NOPERM") if change else (answered == b"" and client[1].closed)


# -- beside Redis -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["streamd", "redis"])
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    if request.param == "redis":
        with running_redis(tmp_path, request.getfixturevalue("newest_redis"), "--requirepass", "secret") as port:
            yield port
        return
    with ServerProcess(tmp_path, "--requirepass", "secret") as process:
        yield process.port


def test_faults2_3_2_each_change_has_the_effect_that_it_has_in_redis(port: int):
    clients: dict[str, socket.socket] = {}

    def talk(name: str, data: bytes) -> bytes:
        """Return the reply to one request, and the end of the connection as b''."""
        if name not in clients:
            clients[name] = socket.create_connection(("127.0.0.1", port), timeout=30)
        clients[name].sendall(data)
        reply = clients[name].recv(1 << 16)
        while len(reply) < 40 and reply[:1] == b"*":
            reply += clients[name].recv(1 << 16)
        return reply

    noauth = b"-NOAUTH Authentication required.\r\n"
    assert talk("admin", words("AUTH secret")) == b"+OK\r\n"
    assert talk("never", words("GET k")) == noauth
    assert talk("small", words("GET k")) == noauth
    assert talk("admin", words("CONFIG SET requirepass ''")) == b"+OK\r\n"
    assert talk("open", words("GET k")) == b"$-1\r\n"
    for name in ("never", "open", "admin"):
        assert talk(name, WIDE) == LARGE["words"][1]
    assert talk("admin", words("CONFIG SET requirepass again")) == b"+OK\r\n"
    assert talk("open", WIDE) == LARGE["words"][1]
    assert talk("never", words("GET k")) == noauth
    assert talk("small", WIDE) == REFUSED["words"]
    assert talk("open", words("RESET")) == b"+RESET\r\n"
    assert talk("open", words("GET k")) == noauth
    assert talk("open", WIDE) == REFUSED["words"]
    for sock in clients.values():
        sock.close()
