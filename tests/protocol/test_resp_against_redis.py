"""Redis 8.10.2 accepts and refuses the requests of the table as the decoder does."""

import socket
import subprocess

import hiredis
import pytest

from bench.ports import free_port
from streamd.base.limits import BEFORE_AUTH
from streamd.resp.decoder import Decoder
from tests.differential.redis_process import judge, needs_redis
from tests.protocol.request_table import ACCEPTED, REFUSED

pytestmark = needs_redis

QUIT = b"*1\r\n$4\r\nQUIT\r\n"
BEFORE_THE_PASSWORD = [
    b"*10\r\n" + b"$1\r\na\r\n" * 10,
    b"*11\r\n",
    b"*2147483647\r\n",
    b"*2147483648\r\n",
    b"*1\r\n$16384\r\n" + b"a" * 16384 + b"\r\n",
    b"*1\r\n$16385\r\n",
    b"*1\r\n$536870912\r\n",
    b"*1\r\n$536870913\r\n",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    port = free_port()
    words = f"{judge()} --port {port} --bind 127.0.0.1 --appendonly no --save".split()
    process = subprocess.Popen([*words, ""], cwd=tmp_path_factory.mktemp("redis"), stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert any(b"Ready to accept connections" in line for line in process.stdout), "redis-server did not start"
        yield port
    finally:
        process.kill()
        process.communicate()


def answers(port, data):
    """Return the replies to some bytes, up to the end of the connection."""
    reader = hiredis.Reader()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(data)
        try:
            while received := connection.recv(65536):
                reader.feed(received)
        except ConnectionResetError:  # it had not read all of what it refused
            pass
    return list(iter(reader.gets, False))


@pytest.mark.parametrize(("data", "requests"), ACCEPTED, ids=lambda value: repr(value)[:40])
def test_redis_sees_the_same_requests(server, data, requests):
    replies = answers(server, data + QUIT)

    assert len(replies) == len(requests) + 1
    for request, reply in zip(requests, replies, strict=False):
        if request[0] == b"ECHO":
            assert reply == request[1]
        elif request[0] == b"PING":
            assert reply == b"PONG"


# Of a length of more than 16,384 digits Redis 8.10 waits for the rest for ever: docs/differences.md.
ANSWERED = [one for one in REFUSED if one[2] != "too big bulk count string"]


@pytest.mark.parametrize(("data", "requests", "error"), ANSWERED, ids=lambda value: repr(value)[:40])
def test_redis_answers_malformed_input_with_the_same_error(server, data, requests, error):
    replies = answers(server, data)

    assert len(replies) == len(requests) + 1
    expected = f"ERR Protocol error: {error}".encode("utf-8", "surrogateescape")
    assert str(replies[-1]).encode("utf-8", "surrogateescape") == expected.decode("utf-8", "replace").encode()


def test_redis_refuses_the_same_lengths_before_the_password(server):
    password = b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$11\r\nrequirepass\r\n$%d\r\n%b\r\n"
    assert answers(server, password % (1, b"x") + QUIT) == [b"OK", b"OK"]
    try:
        for data in BEFORE_THE_PASSWORD:
            decoder = Decoder(BEFORE_AUTH)
            decoder.feed(data)
            accepted = decoder.take()
            reply = str(answers(server, data + QUIT)[0])
            if decoder.error is None:
                assert len(accepted) == 1
                assert not reply.startswith("ERR Protocol error"), data[:40]
            else:
                assert reply == str(decoder.error), data[:40]
    finally:
        answers(server, b"AUTH x\r\n" + password % (0, b"") + QUIT)
