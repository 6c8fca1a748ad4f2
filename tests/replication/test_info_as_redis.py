"""INFO replication, ROLE and CLIENT LIST of a pair, beside a pair of Redis 8.10.2: the same lines in the same order."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from tests.replication.clusters import nodes, wait_until
from tests.spark.servers import redis_server

pytestmark = pytest.mark.redis


@contextmanager
def pair_of_redis(program: Path, place: Path) -> Iterator[tuple[int, int]]:
    """Run a primary and its replica; yield their ports."""
    for name in ("primary", "replica"):
        (place / name).mkdir()
    delay = ["--repl-diskless-sync-delay", "0", "--dir"]
    with (
        redis_server(*delay, str(place / "primary"), program=str(program)) as primary,
        redis_server(
            "--replicaof", "127.0.0.1", str(primary), *delay, str(place / "replica"), program=str(program)
        ) as replica,
    ):
        yield primary, replica


def lines(port: int) -> list[str]:
    """Return the names of the lines of INFO replication, but for what streamd adds at the end."""
    with redis.Redis(port=port) as client:
        names = list(client.info("replication"))
    while names[-1].startswith("streamd_"):
        del names[-1]
    return names


def shapes(port: int) -> list[object]:
    """Return ROLE without what differs between any two servers, and the flags and last commands of links."""
    with redis.Redis(port=port) as client:
        role = client.execute_command("ROLE")
        links = [
            (one["flags"], one["cmd"] if one["flags"] == "S" else "")
            for one in client.client_list()
            if one["flags"] in ("S", "M")
        ]
    return [role[0], [type(one) for one in role], links]


def test_lines_roles_and_links_are_those_of_redis(newest_redis: Path, tmp_path: Path):
    (tmp_path / "redis").mkdir()
    with pair_of_redis(newest_redis, tmp_path / "redis") as theirs, nodes(tmp_path, 1) as both:
        ours = [one.port for one in both]
        with redis.Redis(port=theirs[1]) as client:
            wait_until(lambda: client.info("replication")["master_link_status"] == "up", "Redis is linked")
        for mine, its in zip(ours, theirs, strict=True):
            with redis.Redis(port=mine) as one, redis.Redis(port=its) as other:
                wait_until(lambda one=one, other=other: bool(one.role()) and bool(other.role()), "both answer")
            wait_until(lambda mine=mine, its=its: shapes(mine) == shapes(its), "the links are shown alike")
            assert lines(mine) == lines(its)
