"""Options of TLS that are changed one behind the other: new connections follow the last."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.ports import free_port
from tests.integration.process import ServerProcess
from tests.spark.deployments import Certificates, make_certificates

# A reload takes some milliseconds, and a handshake as long.
HANDSHAKES_MAX = 300


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=[False, True], ids=["uvloop", "asyncio"])
def ports(request: pytest.FixtureRequest, made: Certificates, tmp_path: Path) -> Iterator[tuple[int, int]]:
    """The ports of a server without TLS and with it."""
    port, tls_port = free_port(), free_port()
    words = ["--port", str(port), *made.options(tls_port, "no")]
    with ServerProcess(tmp_path, *words, pure=request.param) as process:
        yield port, tls_port
        code, _, errors = process.stop()
        assert (code, "Traceback" in errors) == (0, False), errors


def version_at(tls_port: int, made: Certificates) -> str | None:
    context = ssl.create_default_context(cafile=str(made.ca))
    with (
        socket.create_connection(("127.0.0.1", tls_port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as sock,
    ):
        return sock.version()


def test_faults2_4_4_the_last_of_two_changes_of_tls_options_in_one_pipeline_holds(ports, made: Certificates):
    port, tls_port = ports
    for number, version in enumerate(["TLSv1.2", "TLSv1.3", "TLSv1.2"]):
        assert version_at(tls_port, made) == ("TLSv1.3", "TLSv1.2")[number % 2]
        with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
            first = ("optional", "no")[number % 2]
            sock.sendall(f"CONFIG SET tls-auth-clients {first}\r\nCONFIG SET tls-protocols {version}\r\n".encode())
            got = b""
            while len(got) < len(b"+OK\r\n" * 2):
                got += sock.recv(100)
            assert got == b"+OK\r\n" * 2

        for _ in range(HANDSHAKES_MAX):
            if version_at(tls_port, made) == version:
                break
        else:
            raise AssertionError(f"connections are not encrypted with {version}")
