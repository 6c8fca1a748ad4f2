"""Random histories of three clients are answered as redis-server answers them, but for what docs/differences.md lists.

A seeded author writes the histories, and not Hypothesis: that is ten times the requests in the same time, and a history
is plain words, so what shows a difference is cut down to a few lines within a second. `make differential` runs more.
"""

import re
from pathlib import Path

import pytest

from tests.differential.__main__ import USERS, compare, fresh_servers, rules_of
from tests.differential.allowances import ALLOWED, same
from tests.differential.histories import HISTORY_STEPS, as_text, shorten, write_and_run
from tests.differential.redis_process import needs_redis, running_redis
from tests.differential.replies import parse_all

STEPS = 10_000
DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"


@needs_redis
def test_random_histories_are_answered_as_redis_answers_them(tmp_path):
    with running_redis(tmp_path) as port:
        sent, seed, history, difference = compare(port, range(1, 1_000), STEPS)
    assert difference is None, f"seed {seed}\n{as_text(history)}\n{difference}"
    assert sent >= STEPS


@needs_redis
def test_the_rules_of_each_user_refuse_some_of_a_history_and_allow_some(tmp_path):
    seeds = [seed for seed in range(1, 16) if rules_of(seed)]
    assert {rules_of(seed) for seed in seeds} == set(USERS)
    with running_redis(tmp_path) as port:
        for seed in seeds:
            servers = fresh_servers(port, seed)
            _, sent, difference = write_and_run(servers, seed, HISTORY_STEPS)
            servers.close()
            refused = servers.session.state.stats.errors["NOPERM"]
            assert difference is None
            assert refused > 5, (seed, sent)
            assert refused < sent / 2, (seed, sent)


def test_what_may_differ_is_what_the_documentation_lists():
    table = DIFFERENCES.read_text().partition("\n## Between streamd and Redis 8.10.2")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| (.+?) \|", table, re.MULTILINE)) - {"what"} == ALLOWED


def test_a_history_is_cut_down_to_what_shows_the_difference():
    history = [
        (client, [[b"XADD", b"s", b"%d" % number, b"f", b"v"], [b"PING"]]) for client in (0, 1) for number in range(40)
    ]

    def shows(tried):
        said = [words for _, requests in tried for words in requests]
        return any(words[:1] == [b"XADD"] and b"7" in words for words in said) and [b"PING"] in said

    short = shorten(history, shows)
    assert sum(len(requests) for _, requests in short) == 2
    assert [b"XADD", b"7"] in short[0][1]


INFO = b"%%2\r\n$4\r\nname\r\n$1\r\nx\r\n$%d\r\n%b\r\n:%d\r\n"


@pytest.mark.parametrize(
    ("request_line", "theirs", "ours", "is_same"),
    [
        ("PTTL k", b":100000\r\n", b":99990\r\n", True),
        ("PTTL k", b":1000000\r\n", b":99990\r\n", False),
        ("PTTL k", b":-1\r\n", b":5\r\n", False),
        ("KEYS *", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\nb\r\n$1\r\na\r\n", True),
        ("KEYS *", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\nb\r\n$1\r\nb\r\n", False),
        ("XRANGE s - +", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\nb\r\n$1\r\na\r\n", False),
        ("XLEN s", b":1\r\n", b":2\r\n", False),
        ("XLEN s", b":1\r\n", b"$1\r\n1\r\n", False),
        ("XINFO CONSUMERS s g", b"*1\r\n" + INFO % (4, b"idle", 5), b"*1\r\n" + INFO % (4, b"idle", 900), True),
        ("XINFO CONSUMERS s g", b"*1\r\n" + INFO % (7, b"pending", 5), b"*1\r\n" + INFO % (7, b"pending", 6), False),
        ("XINFO GROUPS s", b"*1\r\n" + INFO % (3, b"lag", 5), b"*1\r\n" + INFO % (3, b"lag", 6), False),
        ("XINFO STREAM s", INFO % (15, b"radix-tree-keys", 5), INFO % (15, b"radix-tree-keys", 6), True),
        ("XINFO STREAM s", INFO % (6, b"length", 5), INFO % (6, b"length", 6), False),
        ("XPENDING s g", b"*1\r\n:1\r\n", b"*1\r\n:2\r\n", False),
        ("XREADGROUP", b"-UNBLOCKED the stream key no longer exists\r\n", b"*-1\r\n", False),
    ],
)
def test_only_what_is_listed_may_differ(request_line, theirs, ours, is_same):
    words = [word.encode() for word in request_line.split()]
    assert same(words, parse_all(theirs)[0], parse_all(ours)[0]) is is_same
