"""kill -9 of the server, in the middle of everything; `make topics-long` does it to redis-server, too."""

from tests.topics.kills import run_kills


def test_what_was_published_and_what_was_seen_survives_the_servers_death(tmp_path):
    result = run_kills("streamd", tmp_path / "data", kills=2, publishers=3, topics=3, count=40, batch=6)
    assert result.kills == 2
    assert result.published == 360
    assert result.tried_again > 0
    assert result.faults == 0, str(result)
