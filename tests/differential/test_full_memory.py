"""While memory is full, transactions take and refuse what they take and refuse in Redis 8.10.2."""

from pathlib import Path

from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.differential.test_commands_table import requests
from tests.integration.process import ServerProcess

REQUESTS = Path(__file__).with_name("full_memory.txt")


@needs_redis
def test_replies_are_those_of_redis(tmp_path: Path):
    with running_redis(tmp_path) as port, ServerProcess(tmp_path / "streamd", "--appendonly", "no") as server:
        theirs, ours = RawClient(port), RawClient(server.port)
        got = [(words, theirs.ask(words), ours.ask(words)) for words in requests(REQUESTS)]
        theirs.close()
        ours.close()
    assert [row for row in got if row[1] != row[2]] == []
