"""Connections of a URL, `redis+sentinel://` among them: what it names, which are refused, what is tried again."""

import asyncio

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.ports import free_port
from streamd.clients.sentinels import NoPrimaryError, Sentinels, async_pool, pool
from streamd.clients.server_url import without_password
from streamd.clients.terminal.failing import Unreachable, explained
from streamd.testing import EmbeddedServer
from tests.integration.process import run_cli


def test_a_url_names_sentinels_and_the_primary_with_its_user_and_database():
    found = Sentinels("redis+sentinel://ann:p%40@a,b:1,[::1]:7/my%20name/2?socket_timeout=3")

    assert (found.name, found.is_tls) == ("my name", False)
    assert found.places == [("a", 26_379), ("b", 1), ("::1", 7)]
    assert found.settings == {"username": "ann", "password": "p@", "db": 2, "socket_timeout": 3.0}
    assert Sentinels("rediss+sentinel://a/n?ssl_ca_certs=ca.pem").is_tls


def test_sentinels_have_a_user_of_their_own():
    url = "redis+sentinel://ann:p@a/n?sentinel_username=bob&sentinel_password=q"
    found = Sentinels(url)

    asking = found._asking()
    assert (asking["username"], asking["password"]) == ("bob", "q")
    assert (found.settings["username"], found.settings["password"]) == ("ann", "p")
    assert without_password(url) == "redis+sentinel://a/n?sentinel_username=...&sentinel_password=..."


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://a",
        "redis+sentinel://a/",
        "redis+sentinel:///n",
        "redis+sentinel://a/n/x",
        "redis+sentinel://a:99999/n",
        "redis+sentinel://a:x/n",
        "unix+sentinel://a/n",
    ],
)
def test_a_url_that_names_none_is_refused(url: str):
    with pytest.raises(ValueError, match="Sentinels are named as redis"):
        pool(url)


def test_without_a_primary_a_command_ends_at_once_with_one_line():
    place = f"redis+sentinel://127.0.0.1:{free_port()}/mymaster"
    for words, name in ((["tail", "s"], place), (["top"], place), (["topics", "info"], place)):
        ran = run_cli(*words, "--url", name)
        assert ran.returncode == 3, ran.stderr
        assert "no Sentinel names a primary mymaster" in ran.stderr
        assert len(ran.stderr.splitlines()) == 1
    ran = run_cli("backup", "--url", place.replace("//", "//ann:secret@"), "nowhere")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (3, 1)
    assert "secret" not in ran.stderr


def test_the_lack_of_a_primary_counts_as_an_unreachable_server():
    assert isinstance(explained(NoPrimaryError("no Sentinel names it"), "x"), Unreachable)
    assert not issubclass(NoPrimaryError, redis.ConnectionError)  # which would be tried again for a minute


def test_a_connection_that_was_lost_while_nobody_used_it_is_made_anew():
    with EmbeddedServer() as server, redis.Redis.from_pool(pool(server.url)) as client:
        for _ in range(3):
            client.ping()
            server.client().client_kill_filter(_type="normal", skipme=True)
            assert client.ping()


def test_a_connection_of_asyncio_that_was_lost_is_made_anew():
    async def main() -> None:
        with EmbeddedServer() as server:
            async with redis.asyncio.Redis.from_pool(async_pool(server.url)) as client:
                for _ in range(3):
                    await client.ping()
                    server.client().client_kill_filter(_type="normal", skipme=True)
                    assert await client.ping()

    asyncio.run(main())


def test_a_client_says_how_often_its_own_requests_are_sent_again():
    connections = pool("redis://127.0.0.1:1", retry=Retry(NoBackoff(), 7))
    assert connections.make_connection().retry.get_retries() == 7
