"""How many words a request may say that it has, and how long they may be, as redis-server has it."""

import socket

import pytest

from tests.differential.redis_process import needs_redis, running_redis
from tests.integration.process import ServerProcess

pytestmark = needs_redis

COUNTS = [
    "9", "10", "11", "1048575", "1048576", "2147483648", "-1", "-2147483649", "0", "9223372036854775807",
    "9223372036854775808", "99999999999999999999", "abc", "", "+1", "01",
]  # fmt: skip
LENGTHS = ["16384", "16385", "536870912", "536870913", "2147483648", "-1", "abc", "", "00"]
# Which redis-server waits for.
MORE_THAN_BEFORE_7 = ["1048577", "1000000000", "2147483647"]
INVALID = b"-ERR Protocol error: invalid multibulk length\r\n"


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    with (
        running_redis(tmp_path_factory.mktemp("redis")) as redis_port,
        ServerProcess(tmp_path_factory.mktemp("streamd"), "--appendonly", "no") as server,
    ):
        for port in (redis_port, server.port):
            answer_to(port, b"CONFIG SET requirepass pw\r\n")
        yield redis_port, server.port


def answer_to(port: int, data: bytes, password: bool = False) -> bytes:
    """Return all that is answered until the connection ends; nothing: it waited for more."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall((b"AUTH pw\r\n" if password else b"") + data)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while more := client.recv(65_536):
                answer += more
        except ConnectionResetError:
            pass
        return answer.removeprefix(b"+OK\r\n") if password else answer


@pytest.mark.parametrize("password", [False, True])
@pytest.mark.parametrize("header", [f"*{one}" for one in COUNTS] + [f"*1\r\n${one}" for one in LENGTHS])
def test_a_header_is_answered_as_redis_answers_it(ports, header, password):
    theirs, ours = (answer_to(port, f"{header}\r\n".encode(), password) for port in ports)
    assert ours == theirs


@pytest.mark.parametrize("count", MORE_THAN_BEFORE_7)
def test_more_words_than_any_request_has_are_refused_where_redis_waits_for_them(ports, count):
    """docs/differences.md says so; before AUTH the answer is the same."""
    header = f"*{count}\r\n".encode()
    theirs, ours = (answer_to(port, header) for port in ports)
    assert ours == theirs == b"-ERR Protocol error: unauthenticated multibulk length\r\n"
    assert [answer_to(port, header, password=True) for port in ports] == [b"", INVALID]
