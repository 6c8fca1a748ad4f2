"""Options of the data source: every wrong value is one line that names the option, the value and what is allowed."""

import pickle

import pytest

from spark_source.errors import OptionError
from spark_source.options import NAMES, parse_moment_ms, parse_options

WRONG = {
    "url": ("http://here", "redis://"),
    "host": ("", "not empty"),
    "port": ("65536", "from 1 to 65535"),
    "username": ("", "not empty"),
    "password": ("", "not empty"),
    "passwordEnv": ("NO_SUCH_VARIABLE", "variable that is set"),
    "passwordFile": ("/no/such/file", "file that can be read"),
    "db": ("-1", "from 0 to"),
    "ssl": ("yes", "true | false"),
    "sslCa": ("/no/such/file", "file of certificates"),
    "cluster": ("maybe", "auto | true | false"),
    "timeout": ("1 fortnight", "30s"),
    "retries": ("-1", "from 0 to 1000"),
    "stream": ("a,,b", "separated by commas"),
    "streamPattern": ("", "not empty"),
    "patternInterval": ("soon", "30s"),
    "startingOffsets": ("oldest", "earliest | latest | JSON"),
    "startingTimestamp": ("yesterday", "ISO 8601"),
    "endingOffsets": ("{", "earliest | latest | JSON"),
    "endingTimestamp": ("-1", "ISO 8601"),
    "maxEntriesPerTrigger": ("0", "at least 1"),
    "minEntriesPerTrigger": ("1_000", "at least 1"),
    "maxTriggerDelay": ("x", "15m"),
    "maxBytesPerTrigger": ("0", "64m"),
    "entriesPerPartition": ("2.5", "at least 1"),
    "minPartitions": ("0", "from 1 to 100000"),
    "pageSize": ("1000001", "from 1 to 1000000"),
    "failOnDataLoss": ("1", "true | false"),
    "filterPushdown": ("on", "true | false"),
    "trimOnCommit": ("no", "true | false"),
    "text": ("", "true | false"),
    "fields": ("list", "map | array"),
    "mode": ("dropmalformed", "permissive | failfast"),
    "streamColumn": ("", "not empty"),
    "allowSourceAsTarget": ("maybe", "true | false"),
    "exactlyOnce": ("always", "auto | idmp | marker | none"),
    "identity": ("hash", "content | key | position"),
    "idempotencyKey": ("a,a", "separated by commas"),
    "idempotencyScope": ("query", "batch | stream"),
    "sinkId": ("", "not empty"),
    "sinkBatch": ("", "not empty"),
    "windowSeconds": ("86401", "from 1 to 86400"),
    "windowMaxSize": ("10001", "from 1 to 10000"),
    "windowSetup": ("never", "auto | check | force"),
    "onWindowExpired": ("ignore", "fail | continue"),
    "onRowsChanged": ("ignore", "fail | continue"),
    "durability": ("replicas:0", "none | fsync | replicas:N"),
    "maxLen": ("-5", "at least 0"),
    "pipeline": ("0", "from 1 to 100000"),
}
NEEDED = {"maxTriggerDelay": {"minEntriesPerTrigger": "1"}, "sinkBatch": {"sinkId": "me"}}


def test_every_option_has_a_wrong_value_here() -> None:
    assert set(WRONG) == set(NAMES)


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_value_is_one_line_with_the_option_and_what_is_allowed(name: str) -> None:
    value, allowed = WRONG[name]

    with pytest.raises(OptionError) as caught:
        parse_options({name: value, **NEEDED.get(name, {})})

    text = str(caught.value)
    assert text.startswith(f"{name}={value} is not allowed: give ")
    assert allowed in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"entrysPerPartition": "5"}, "unknown option entrysPerPartition: did you mean entriesPerPartition?"),
        ({"topic": "x"}, "unknown option topic"),
        ({"url": "redis://h", "host": "h"}, "url and host cannot be given together"),
        ({"stream": "a", "streamPattern": "b*"}, "stream and streamPattern cannot be given together"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "startingOffsets and startingTimestamp"),
        ({"maxTriggerDelay": "1m"}, "maxTriggerDelay needs minEntriesPerTrigger"),
        ({"minEntriesPerTrigger": "9", "maxEntriesPerTrigger": "8"}, "minEntriesPerTrigger=9 is more than"),
        ({"identity": "key"}, "identity=key needs idempotencyKey"),
        ({"identity": "position", "idempotencyKey": "a"}, "idempotencyKey cannot be used with identity=position"),
        ({"idempotencyScope": "stream"}, "idempotencyScope=stream cannot be used with identity=content"),
        ({"exactlyOnce": "marker", "idempotencyKey": "a"}, "identity=key cannot be used with exactlyOnce=marker"),
        ({"sinkBatch": "1"}, "sinkBatch needs sinkId"),
        ({"startingOffsets": '{"a": "12-x"}'}, '"12-x" for stream a is neither earliest, latest nor an entry ID'),
        ({"password": "a", "passwordEnv": "HOME"}, "password and passwordEnv cannot be given together"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(given)

    assert str(caught.value).startswith(said) or said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_come_in_any_case_and_sparks_own_are_let_through() -> None:
    options = parse_options({"STREAM": "a, b", "checkpointlocation": "/x", "path": "y", "queryName": "q", "port": "1"})

    assert options.read.streams == ("a", "b")
    assert options.connection.port == 1


def test_defaults() -> None:
    options = parse_options({"stream": "orders"})

    assert (options.connection.host, options.connection.port) == ("127.0.0.1", 6379)
    assert options.read.fail_on_data_loss
    assert options.write.exactly_once == "auto"
    assert options.write.identity == "content"
    assert (options.write.window_s, options.write.window_size) == (86_400, 10_000)


def test_an_url_gives_all_of_the_connection(tmp_path) -> None:
    connection = parse_options({"url": "rediss://me:p%40ss@there:7000/3"}).connection

    assert (connection.host, connection.port, connection.db, connection.ssl) == ("there", 7000, 3, True)
    assert (connection.username, connection.password) == ("me", "p@ss")


def test_a_password_comes_from_the_environment_or_a_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MY_SECRET", "from-env")
    (tmp_path / "secret").write_text("from-file\n")

    assert parse_options({"passwordEnv": "MY_SECRET"}).connection.password == "from-env"
    assert parse_options({"passwordFile": str(tmp_path / "secret")}).connection.password == "from-file"


def test_a_password_is_in_no_text(tmp_path) -> None:
    options = parse_options({"url": "redis://me:hunter2@there"})

    assert "hunter2" not in repr(options)
    for url in ("redis://me:hunter2@there:99999999/x", "redis:/me:hunter2@there", "redis://me:hun/hunter2@there/q"):
        with pytest.raises(OptionError) as caught:
            parse_options({"url": url})
        assert "hunter2" not in str(caught.value)
        assert "hun/" not in str(caught.value)


def test_options_can_be_pickled() -> None:
    options = parse_options({"stream": "a", "startingOffsets": '{"a": "5"}'})

    assert pickle.loads(pickle.dumps(options)) == options
    assert options.read.starting == {"a": "5-0"}


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14 22:13:20.5", 1_700_000_000_500),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_a_moment_is_milliseconds_or_iso_8601(text: str, ms: int) -> None:
    assert parse_moment_ms(text) == ms


def test_a_key_makes_the_identity_key() -> None:
    assert parse_options({"idempotencyKey": "a,b"}).write.identity == "key"
