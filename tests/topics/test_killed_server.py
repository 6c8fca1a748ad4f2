"""kill -9 of the server, in the middle of everything."""

import pytest

from tests.differential.redis_process import needs_redis
from tests.topics.kills import run_kills


@pytest.mark.parametrize("kind", ["streamd", pytest.param("redis", marks=needs_redis)])
def test_what_was_published_and_what_was_seen_survives_the_servers_death(kind, tmp_path):
    result = run_kills(kind, tmp_path / "data", kills=2, publishers=3, topics=3, count=40, batch=6)
    assert result.kills == 2
    assert result.published == 360
    assert result.tried_again > 0
    assert result.faults == 0, str(result)
