"""TLS to streamd and to Debian's redis-server: who vouches for whom, and what is said when nobody does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from spark_source.connecting import tls
from spark_source.connecting.connection import Reply, Server, Session
from spark_source.errors import StreamdError
from spark_source.settings.options import parse_options
from tests.spark.deployments import Certificates, make_certificates
from tests.spark.servers import client, old_redis_server, redis_server, streamd_server
from tests.spark.test_connections import EXPECTED, round_trip

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=["streamd", "redis"])
def port(request: pytest.FixtureRequest, made: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that wants to see a client's certificate."""
    port = free_port()
    options = made.options(port)
    if request.param == "redis":
        with old_redis_server(*options):  # (Redis 8.10.2 as it can be had here knows no TLS.)
            yield port
    else:
        with streamd_server(tmp_path_factory.mktemp("encrypted"), *options):
            yield port


def mine(made: Certificates) -> dict[str, object]:
    return {"sslCert": made.client_cert, "sslKey": made.client_key, "sslKeyPassword": made.client_key_password}


def test_rows_come_and_go_with_certificates_of_both_sides(made: Certificates, port: int) -> None:
    given = {"url": f"rediss://localhost:{port}", "sslCa": made.ca, "redis.ssl_min_version": "TLSv1.3", **mine(made)}

    assert round_trip(**given) == EXPECTED


def test_the_name_in_the_certificate_counts_unless_it_is_not_to(made: Certificates, port: int) -> None:
    given = {"url": f"rediss://127.0.0.1:{port}", "sslCa": made.ca, **mine(made)}

    with pytest.raises(StreamdError, match=r"is for another name \(IP address mismatch.*\): use that one, or set ssl"):
        round_trip(**given)
    assert round_trip(**given, sslCheckHostname="false") == EXPECTED


def said_by(timeout: str = "5s", **given: object) -> str:
    """Return what is said of a connection that does not come about."""
    options = parse_options({"timeout": timeout, **{name: str(value) for name, value in given.items()}})
    with pytest.raises(StreamdError) as caught:
        Server(options.connection).patiently(lambda session: session.call("PING"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_does_not_fit_is_said_at_once_with_what_to_do(made: Certificates, port: int) -> None:
    here = f"localhost:{port}"
    there = {"url": f"rediss://{here}"}

    assert said_by(**there, sslCa=made.ca) == f"{here} wants a client certificate: give sslCert and sslKey"
    assert said_by(**there, **mine(made)).startswith(f"the certificate of {here} is not trusted (")
    wrong = {**mine(made), "sslKeyPassword": "wrong", "sslCa": made.ca}
    assert said_by(**there, **wrong).endswith("give a pair in PEM form, or correct sslKeyPassword")
    locked = {"sslCert": made.client_cert, "sslKey": made.client_key, "sslCa": made.ca}
    assert said_by(**there, **locked).endswith("give a pair in PEM form, or correct sslKeyPassword"), "and asks nobody"
    assert said_by(url=f"redis://{here}") == f"{here} speaks only TLS: use rediss:// or set ssl=true"


@pytest.mark.parametrize("server", ["redis_port", "streamd_port"])
def test_a_plain_port_has_no_tls(server: str, request: pytest.FixtureRequest) -> None:
    port = request.getfixturevalue(server)

    assert said_by("1s", url=f"rediss://127.0.0.1:{port}").startswith(f"there is no TLS at 127.0.0.1:{port}: use redis")


def test_a_connection_that_worked_and_breaks_is_not_taken_for_one_without_tls(
    redis_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To knock with TLS at a plain port takes two seconds, in which a task would stand still."""
    asked: list[str] = []
    monkeypatch.setattr(tls, "trouble", lambda text, options: asked.append(text))
    server = Server(parse_options({"port": str(redis_port), "clientName": "breaks"}).connection)
    broken = [redis.ConnectionError("Connection closed by server.")]

    def once_more(session: Session) -> Reply:
        session.call("PING")
        if broken:
            raise broken.pop()
        return session.call("PING")

    assert server.patiently(once_more) == b"PONG"
    assert len(asked) == 1, "nothing had worked yet"
    broken = [redis.ConnectionError("Connection closed by server.")]
    assert server.patiently(once_more) == b"PONG"
    assert len(asked) == 1


def test_the_client_has_the_name_it_is_given(tmp_path: Path) -> None:
    with redis_server() as port, client(port) as other:
        settings = {"port": str(port), "clientName": "orders-job", "redis.socket_timeout": "7"}
        server = Server(parse_options(settings).connection)
        with server.session() as session:
            assert session.connection.socket_timeout == 7.0
            known = next(one for one in other.client_list() if one["name"] == "orders-job")
        assert known["cmd"] != "NULL"
