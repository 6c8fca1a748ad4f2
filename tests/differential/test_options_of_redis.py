"""Each option of Redis 8.10.2 is known, with its default and its values, in CONFIG SET and in a file."""

import pytest
import redis

from streamd.configuration.file import read_file
from streamd.configuration.foreign import FOREIGN, KEPT
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import ALIASES, OPTIONS
from tests.differential.redis_process import needs_redis, running_redis
from tests.session import Error, Session

pytestmark = needs_redis

# Values of each kind of option, good and bad.
VALUES = {
    "boolean": ["yes", "no", "YES", "maybe", "", "1"],
    "choice": ["", "bogus", "yes"],
    "filename": ["a/b", "x", "a b"],
    "integer": ["0", "1", "-1", "1.5", "", "x", "99", "100", "101", "65536", str(2**31), str(2**63 - 1), str(2**63)],
    "limits": [
        *("foo 1 1 1", "normal 0 0 0", "normal 1 1", "", "master 1 1 1", "slave 1mb 1kb 60 pubsub 0 0 0"),
        *("normal 0 0 -1", "normal x 0 0", "normal 0 0 x", "replica 256mb 64mb 60"),
    ],
    "memory": ["0", "1kb", "1MB", "-1", "x", "", "1tb", "1.5gb"],
    "percentiles": ["50 99", "0", "100", "100.1", "-1", "x", "", "99.9 x"],
    "saves": ["", "900", "900 1", "900 1 300", "900 1 300 10", "0 1", "900 -1", "x 1", "900 x", "-900 1"],
    "scores": ["0 200 800", "0 200", "0 200 2001", "-2000 0 2000", "x 0 0", "", "-2001 0 0"],
    "share": ["0", "1mb", "5%", "100%", "101%", "-5%", "x%", "x"],
}
# Another value changes the process of Redis, needs another option, or can be set at a start alone.
LEFT_OUT = {
    *("activedefrag", "jemalloc-bg-thread", "locale-collate", "oom-score-adj", "syslog-facility"),
    *("array-sparse-kmin", "array-sparse-kmax", "cluster-slot-stats-enabled", "key-memory-histograms"),
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    with (
        running_redis(tmp_path_factory.mktemp("redis")) as port,
        redis.Redis(port=port, decode_responses=True) as client,
    ):
        yield client


def test_every_option_of_redis_is_known(theirs):
    names = set(theirs.config_get("*"))
    assert len(names) == 228
    assert names - {*OPTIONS, *ALIASES, *FOREIGN} == set()


def test_defaults_of_options_that_are_passed_over_are_those_of_redis(theirs):
    defaults = theirs.config_get("*")
    foreign = {name: one.option for name, one in FOREIGN.items() if one.option is not None}
    given = {"enable-debug-command"}  # which the Redis of the tests has been given
    assert {
        name: (defaults[name], option.default)
        for name, option in foreign.items()
        if name not in given and option.parse(defaults[name]) != option.default
    } == {}


def texts():
    for name, one in sorted(FOREIGN.items()):
        if one.option is not None and name not in LEFT_OUT and not name.startswith("tls-"):
            for text in VALUES.get(one.option.kind, ()):
                yield name, text
    for text in VALUES["saves"]:
        yield "save", text


def test_values_are_refused_in_the_words_of_redis(theirs):
    ours = Session()
    differences = []
    for name, text in texts():
        try:
            theirs.config_set(name, text)
            expected = "OK"
        except redis.ResponseError as error:
            expected = f"ERR {error}"
        reply = ours.execute([b"CONFIG", b"SET", name.encode(), text.encode()])
        answer = reply.text if isinstance(reply, Error) else reply
        if answer != expected and "cannot be passed over" not in answer:
            differences.append((name, text, expected, answer))
    assert differences == []


def test_a_file_is_refused_for_the_values_for_which_redis_refuses_it(tmp_path):
    """What Redis refuses is seen in CONFIG SET above; a file refuses the same."""
    for name, text in texts():
        option = OPTIONS[name] if name in OPTIONS else FOREIGN[name].option
        assert option is not None
        try:
            option.parse(text)
            is_good = True
        except ConfigError:
            is_good = False
        (tmp_path / "redis.conf").write_text(f'{name} "{text}"\n')
        found = read_file(str(tmp_path / "redis.conf"))
        faults = [str(fault) for fault in found.faults if "cannot be passed over" not in str(fault)]
        assert (faults == []) == is_good, (name, text, faults)
        is_default = is_good and (name in KEPT or option.parse(text) == option.default)
        if is_good and name in FOREIGN and FOREIGN[name].danger is None:
            assert (name in found.passed_over) != is_default, (name, text)
