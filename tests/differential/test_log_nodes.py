"""The log deletes and trims by nodes exactly as Redis 8.10.2 does."""

import random
from itertools import starmap

import pytest
import redis

from streamd.stream.entry_id import ID_MAX, format_id, parse_id
from streamd.stream.log.entry_log import Log
from streamd.stream.wire.entry_encoder import encode_entry
from tests.differential.redis_process import needs_redis, running_redis

pytestmark = needs_redis


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with (
        running_redis(tmp_path_factory.mktemp("redis"), None, "--stream-node-max-bytes", "0") as port,
        redis.Redis(port=port, protocol=2) as client,
    ):
        for command in ("XRANGE", "XREVRANGE"):
            client.response_callbacks.pop(command)
        yield client


def trim_words(strategy, threshold, approximate, limit):
    words = [strategy, "~" if approximate else "=", threshold]
    return words if limit is None else [*words, "LIMIT", limit]


@pytest.mark.parametrize("seed", range(24))
def test_random_histories_end_as_those_of_redis(server, seed):
    choose = random.Random(seed)
    server.delete("s")
    log = Log()
    ids = []
    last = 0
    for step in range(400):
        if step % 50 == 0:
            node_max = choose.choice([1, 2, 3, 4, 7, 100, 0])
            server.config_set("stream-node-max-entries", node_max)
            log.node_max_entries = node_max
        kind = choose.random()
        if kind < 0.6:
            last += choose.choice([1, 2, 1 << 64, 7 << 64])
            fields = [b"f", b"v%d" % step] * choose.choice([1, 1, 1, 2])
            server.execute_command("XADD", "s", format_id(last), *fields)
            log.append(last, fields)
            ids.append(last)
        elif kind < 0.8 and ids:
            deleted = choose.choice([log.first_id, log.last_id, *choose.choices(ids, k=2), ids[-1]]) or ids[-1]
            assert log.delete(deleted) == server.xdel("s", format_id(deleted))
        else:
            approximate = choose.random() < 0.7
            limit = choose.choice([None, 0, 1, 3, 5, 10, 50]) if approximate else None
            # Redis's own limit when none is said.
            examined = (100 * log.node_max_entries or 10_000) if approximate and limit is None else limit or 0
            if choose.random() < 0.5:
                maxlen = max(len(log) - choose.choice([0, 1, 2, 3, 5, 8, 20]), 0)
                reply = server.execute_command("XTRIM", "s", *trim_words("MAXLEN", maxlen, approximate, limit))
                assert log.trim_to_length(maxlen, approximate, examined) == reply
            else:
                min_id = (log.first_id or 0) + choose.choice([0, 1, 2, 1 << 64, 9 << 64, 30 << 64])
                if choose.random() < 0.3:
                    min_id = (log.last_id or 0) + choose.choice([0, 1])
                reply = server.execute_command(
                    "XTRIM", "s", *trim_words("MINID", format_id(min_id), approximate, limit)
                )
                assert log.trim_before(min_id, approximate, examined) == reply
        assert len(log) == server.xlen("s")
        if step % 10 == 0:
            start, end = sorted(choose.choices([0, ID_MAX, *ids], k=2))
            count = choose.choice([None, 1, 3])
            for command, ends, reverse in (("XRANGE", (start, end), False), ("XREVRANGE", (end, start), True)):
                words = [] if count is None else ["COUNT", count]
                reply = server.execute_command(command, "s", *map(format_id, ends), *words)
                expected = [(parse_id(entry_id), fields) for entry_id, fields in reply]
                entries, parts = log.encode_parts(start, end, count, reverse)
                assert (entries, b"".join(parts)) == (len(expected), b"".join(starmap(encode_entry, expected)))
                if not reverse:
                    assert list(log.iterate(start, end))[:count] == expected
                    assert log.ids_between(start, end, count) == [entry_id for entry_id, _ in expected]
