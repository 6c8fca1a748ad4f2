"""TLS and Unix sockets: who gets in, what is read again, and how connections end."""

import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import Config
from streamd.net.tls import make_context
from tests.integration.process import ServerProcess, run_cli
from tests.spark.deployments import Certificates, make_certificates


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates that somebody else vouches for."""
    return make_certificates(tmp_path_factory.mktemp("others"))


@pytest.fixture(params=[False, True], ids=["uvloop", "asyncio"])
def server(request: pytest.FixtureRequest, made: Certificates, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with TLS that wants certificates of its clients, and no port without."""
    with ServerProcess(tmp_path, *made.options(free_port()), pure=request.param) as process:
        yield process


def client_of(port: int, made: Certificates, **more: object) -> redis.Redis:
    options = {
        "ssl_ca_certs": str(made.ca),
        "ssl_certfile": str(made.client_cert),
        "ssl_keyfile": str(made.client_key),
        "ssl_password": made.client_key_password,
        **more,
    }
    return redis.Redis("localhost", port, ssl=True, socket_timeout=60, **options)  # type: ignore[arg-type]


def context_of(made: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(made.ca))
    context.load_cert_chain(made.client_cert, made.client_key, made.client_key_password)
    return context


def connect(port: int, made: Certificates) -> ssl.SSLSocket:
    """Return a connection after its handshake."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    return context_of(made).wrap_socket(plain, server_hostname="localhost")


def serial_at(port: int, made: Certificates) -> object:
    """Return the serial number of the certificate that a server shows."""
    with connect(port, made) as sock:
        return sock.getpeercert()["serialNumber"]  # type: ignore[index]


def test_redis_py_talks_tls_with_a_certificate_and_not_without(server: ServerProcess, made: Certificates):
    with client_of(server.port, made) as client:
        assert client.set("a", "1")
        assert client.get("a") == b"1"
    with (
        client_of(server.port, made, ssl_certfile=None, ssl_keyfile=None) as nobody,
        pytest.raises(redis.ResponseError, match="a client certificate is required at this port"),
    ):
        nobody.ping()


def test_who_does_not_speak_tls_is_not_answered(server: ServerProcess, made: Certificates):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as sock:
        sock.sendall(b"PING\r\n")
        try:
            assert b"PONG" not in sock.recv(100)
        except ConnectionResetError:
            pass
    with client_of(server.port, made) as client:
        assert client.ping()


def test_the_banner_names_the_files_that_redis_cli_needs(server: ServerProcess, made: Certificates):
    (line,) = [line for line in server.banner if "connect with" in line]
    assert line.endswith(f"-p {server.port} --tls --cacert {made.ca} --cert CLIENT.crt --key CLIENT.key")


def test_redis_cli_talks_tls(server: ServerProcess, made: Certificates):
    if shutil.which("redis-cli") is None:
        pytest.skip("there is no redis-cli")
    key = made.client_key.with_suffix(".open")
    password = ["-passin", f"pass:{made.client_key_password}"]
    subprocess.run(["openssl", "rsa", "-in", made.client_key, "-out", key, *password], check=True, capture_output=True)
    files = ["--cacert", made.ca, "--cert", made.client_cert, "--key", key, "--sni", "localhost"]

    words = ["redis-cli", "-p", server.port, "--tls", *files, "PING"]
    answered = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=30)

    assert answered.stdout.strip() == "PONG", answered.stderr


def test_a_huge_reply_arrives_whole(server: ServerProcess, made: Certificates):
    value = os.urandom(20_000_000)
    with client_of(server.port, made) as client:
        client.set("huge", value)
        assert client.get("huge") == value


def test_what_came_before_the_end_is_answered(server: ServerProcess, made: Certificates):
    sock = connect(server.port, made)
    sock.sendall(b"SET a 1\r\nGET a\r\n")
    got = b""
    while not got.endswith(b"$1\r\n1\r\n"):
        received = sock.recv(100)
        assert received
        got += received
    sock.unwrap().close()  # says that it has ended, and reads that the server has
    with client_of(server.port, made) as client:
        assert client.get("a") == b"1"
        assert len(client.client_list()) == 1


def test_cut_and_silent_handshakes_keep_nobody_out(server: ServerProcess, made: Certificates):
    silent = socket.create_connection(("127.0.0.1", server.port))
    for data in (b"\x16\x03\x01\x02\x00\x01", b"\x00" * 600, b""):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(data)
    with client_of(server.port, made) as client:
        assert client.ping()
        assert client.info("stats")["total_connections_received"] == 1
    silent.close()
    code, _, errors = server.stop()
    assert code == 0
    assert "Traceback" not in errors


def test_versions_before_1_2_are_not_spoken(server: ServerProcess, made: Certificates):
    context = context_of(made)
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="localhost")


def renew(made: Certificates) -> None:
    """Make another certificate for the server's key, where the old one was."""
    request = ["openssl", "req", "-new", "-key", made.key, "-subj", "/CN=server", "-out", "again"]
    sign = ["openssl", "x509", "-req", "-in", "again", "-CA", made.ca, "-CAkey", "ca.key", "-CAcreateserial"]
    for words in (request, [*sign, "-days", "2", "-extfile", "names", "-out", made.cert]):
        subprocess.run([str(word) for word in words], check=True, capture_output=True, cwd=made.ca.parent)


@pytest.mark.parametrize("way", ["signal", "config"])
def test_certificates_are_read_again_while_old_connections_go_on(server: ServerProcess, made: Certificates, way: str):
    before = serial_at(server.port, made)
    with client_of(server.port, made) as client:
        assert client.ping()
        renew(made)
        if way == "signal":
            server.process.send_signal(signal.SIGHUP)
        else:
            client.config_set("tls-auth-clients", "optional")
        while serial_at(server.port, made) == before:
            pass
        assert client.ping()


def test_a_certificate_that_does_not_fit_leaves_tls_as_it_was(
    server: ServerProcess, made: Certificates, others: Certificates
):
    with client_of(server.port, made) as client:
        with pytest.raises(redis.ResponseError, match=r"Unable to update TLS configuration\. Check server logs\."):
            client.config_set("tls-cert-file", str(others.cert))
        assert client.config_get("tls-cert-file") == {"tls-cert-file": str(made.cert)}
        assert client.ping()
    with client_of(server.port, made) as client:
        assert client.ping()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"tls_cert_file": ""}, "tls-cert-file is missing: a tls-port needs tls-cert-file and tls-key-file"),
        ({"tls_key_file": "/nowhere"}, "tls-key-file /nowhere: No such file or directory"),
        (
            {"tls_ca_cert_file": ""},
            "give tls-ca-cert-file, which says whose clients are let in, or tls-auth-clients no",
        ),
        ({"tls_ca_cert_file": "/nowhere"}, "tls-ca-cert-file /nowhere: No such file or directory"),
    ],
)
def test_what_is_missing_for_tls_is_said(made: Certificates, changes: dict[str, str], error: str):
    files = {"tls_cert_file": str(made.cert), "tls_key_file": str(made.key), "tls_ca_cert_file": str(made.ca)}

    with pytest.raises(ConfigError) as caught:
        make_context(Config(**{**files, **changes}))

    assert str(caught.value).startswith(error)


def test_a_key_may_be_locked_and_nobody_is_asked(made: Certificates):
    files = {"tls_cert_file": str(made.client_cert), "tls_key_file": str(made.client_key), "tls_auth_clients": "no"}

    make_context(Config(**files, tls_key_file_pass=made.client_key_password))
    with pytest.raises(ConfigError, match="are no pair of certificate and key") as caught:
        make_context(Config(**files, tls_key_file_pass="wrong"))

    assert "wrong" not in str(caught.value)


def test_a_start_without_certificates_says_what_to_give(tmp_path: Path):
    ended = run_cli("serve", "--dir", str(tmp_path), "--tls-port", str(free_port()), "--port", "0")

    assert ended.returncode == 2
    assert ended.stderr == "streamd: tls-cert-file is missing: a tls-port needs tls-cert-file and tls-key-file\n"


def test_a_tls_port_that_is_taken_is_named_as_such(tmp_path: Path, made: Certificates):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run_cli("serve", "--dir", str(tmp_path), *made.options(taken.getsockname()[1]))

    assert ended.returncode == 3
    assert ended.stderr.endswith("choose another with --tls-port or --bind\n")


# -- Unix sockets -----------------------------------------------------------------------------------------------------


def test_a_unix_socket_has_its_permissions_and_goes_with_the_server(tmp_path: Path):
    path = tmp_path / "s.sock"
    with ServerProcess(tmp_path / "data", "--unixsocket", str(path), "--unixsocketperm", "660") as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with redis.Redis(unix_socket_path=str(path)) as client:
            assert client.ping()
            assert client.client_info()["addr"] == f"{path}:0"
            assert client.config_get("unixsocketperm") == {"unixsocketperm": "660"}
        assert server.banner[-1] == f"Ready to accept connections on {path}"  # and no port
    assert not path.exists()


def test_a_socket_that_was_left_is_replaced_and_a_file_is_not(tmp_path: Path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "s.sock"))
    left.close()
    with ServerProcess(tmp_path / "data", "--unixsocket", str(tmp_path / "s.sock")):
        assert stat.S_IMODE((tmp_path / "s.sock").stat().st_mode) == 0o600
    (tmp_path / "file").write_text("mine")

    ended = run_cli("serve", "--dir", str(tmp_path / "data"), "--port", "0", "--unixsocket", str(tmp_path / "file"))

    assert ended.returncode == 3
    assert "Address already in use" in ended.stderr
    assert (tmp_path / "file").read_text() == "mine"


def shake_hands(server: ssl.SSLObject, client: ssl.SSLObject, sent: tuple[ssl.MemoryBIO, ssl.MemoryBIO], got) -> None:
    """Have both sides agree, in memory. Raises: ssl.SSLError."""
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
        for data, other in zip(sent, got, strict=True):
            other.write(data.read())


def test_certificates_made_as_the_document_says_satisfy_the_strictest_python(tmp_path: Path):
    """Since 3.13 Python looks at more of them than before."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    commands = [line for line in text.splitlines() if line.startswith(("openssl req", "openssl x509"))]
    assert len(commands) == 5
    for line in commands:
        subprocess.run(line, shell=True, check=True, capture_output=True, cwd=tmp_path)

    contexts = {}
    for purpose, name in ((ssl.Purpose.CLIENT_AUTH, "server"), (ssl.Purpose.SERVER_AUTH, "client")):
        context = contexts[name] = ssl.create_default_context(purpose, cafile=str(tmp_path / "ca.pem"))
        context.load_cert_chain(tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    bios = [ssl.MemoryBIO() for _ in range(4)]
    server = contexts["server"].wrap_bio(bios[0], bios[1], server_side=True)
    client = contexts["client"].wrap_bio(bios[2], bios[3], server_hostname="localhost")

    shake_hands(server, client, (bios[1], bios[3]), (bios[2], bios[0]))

    assert client.version() == server.version() == "TLSv1.3"
