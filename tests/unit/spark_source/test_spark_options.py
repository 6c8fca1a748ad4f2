"""Options of the data source: every wrong value is one line that names the option, the value and what is allowed."""

import pickle

import pytest
import redis

from spark_source.connecting.failures import explained, given_up
from spark_source.errors import OptionError
from spark_source.noting.loops import place_of
from spark_source.settings.connection_options import _say_local, _say_retries_do_nothing
from spark_source.settings.option_values import SECRET
from spark_source.settings.options import NAMES, parse_moment_ms, parse_options

WRONG = {
    "url": ("http://here", "redis://"),
    "host": ("", "host name or an IP address"),
    "port": ("65536", "from 1 to 65535"),
    "username": ("", "not empty"),
    "password": ("", "not empty"),
    "passwordEnv": ("NO_SUCH_VARIABLE", "variable that is set"),
    "passwordFile": ("/no/such/file", "file that can be read"),
    "db": ("-1", "from 0 to"),
    "ssl": ("yes", "true | false"),
    "sslCa": ("/no/such/file", "file of certificates"),
    "sslCert": ("/no/such/file", "file of a certificate"),
    "sslKey": ("/no/such/file", "file of a private key"),
    "sslKeyPassword": ("", "not empty"),
    "sslCheckHostname": ("1", "true | false"),
    "sentinelUsername": ("", "not empty"),
    "sentinelPassword": ("", "not empty"),
    "sentinelPasswordEnv": ("NO_SUCH_VARIABLE", "variable that is set"),
    "sentinelPasswordFile": ("/no/such/file", "file that can be read"),
    "cluster": ("maybe", "auto | true | false"),
    "clientName": ("my job", "without blanks"),
    "timeout": ("1 fortnight", "30s"),
    "retries": ("-1", "from 0 to 1000"),
    "stream": ("a,,b", "separated by commas"),
    "streamPattern": ("", "not empty"),
    "streamRegex": ("(", "regular expression"),
    "log": ("{orders}", "name of a topic log"),
    "topicFilter": ("devices/#/d7", "topic filter such as devices/+/temperature"),
    "patternInterval": ("soon", "30s"),
    "startingOffsets": ("oldest", "earliest | latest | JSON"),
    "startingTimestamp": ('{"a": 1, "b": "yesterday"}', 'JSON such as {"orders": "2026-01-31T12:00:00Z"}'),
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
    "progressGroup": ("", "not empty"),
    "text": ("", "true | false"),
    "fields": ("list", "map | array"),
    "mode": ("dropmalformed", "permissive | failfast"),
    "streamColumn": ("", "not empty"),
    "allowSourceAsTarget": ("maybe", "true | false"),
    "valueFormat": ("avro", "text | json"),
    "fieldColumns": ("price", "some of _stream, _id, _ts, _seq, _corrupt"),
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
    "durabilityRows": ("0", "from 1 to 1000000"),
    "maxLen": ("-5", "at least 0"),
    "pipeline": ("0", "from 1 to 100000"),
}
SENTINELS = {"url": "redis+sentinel://there/orders"}
NEEDED = {
    "maxTriggerDelay": {"minEntriesPerTrigger": "1"},
    "topicFilter": {"log": "telemetry"},
    "sinkBatch": {"sinkId": "me"},
    "sslKeyPassword": {"sslCert": __file__, "sslKey": __file__},
    "sslCert": {"sslKey": __file__},
    "sslKey": {"sslCert": __file__},
    **dict.fromkeys(("sentinelUsername", "sentinelPassword", "sentinelPasswordEnv", "sentinelPasswordFile"), SENTINELS),
}


def test_every_option_has_a_wrong_value_here() -> None:
    assert set(WRONG) == set(NAMES)


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_value_is_one_line_with_the_option_and_what_is_allowed(name: str) -> None:
    value, allowed = WRONG[name]

    with pytest.raises(OptionError) as caught:
        parse_options({name: value, **NEEDED.get(name, {})})

    text = str(caught.value)
    repeated = "***" if value and name in SECRET else value
    assert text.startswith(f"{name}={repeated} is not allowed: give ")
    assert allowed in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"entrysPerPartition": "5"}, "unknown option entrysPerPartition: did you mean entriesPerPartition?"),
        ({"header": "x", "zzz": "x"}, "unknown option zzz: known are url, host"),
        ({"url": "redis://h", "host": "h"}, "url and host cannot be given together"),
        ({"stream": "a", "streamPattern": "b*"}, "stream and streamPattern cannot be given together"),
        ({"streamRegex": "a", "streamPattern": "b*"}, "streamPattern and streamRegex cannot be given together"),
        ({"streamRegex": "a(b"}, "missing ), unterminated subpattern at position 1"),
        ({"endingTimestamp": '{"a": "yesterday"}'}, '"yesterday" for stream a is no time'),
        ({"endingTimestamp": "{}"}, "endingTimestamp={} is not allowed"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "startingOffsets and startingTimestamp"),
        ({"maxTriggerDelay": "1m"}, "maxTriggerDelay needs minEntriesPerTrigger"),
        ({"minEntriesPerTrigger": "9", "maxEntriesPerTrigger": "8"}, "minEntriesPerTrigger=9 is more than"),
        ({"identity": "key"}, "identity=key needs idempotencyKey"),
        ({"identity": "position", "idempotencyKey": "a"}, "idempotencyKey cannot be used with identity=position"),
        ({"idempotencyScope": "stream"}, "idempotencyScope=stream cannot be used with identity=content"),
        ({"exactlyOnce": "marker", "idempotencyKey": "a"}, "identity=key cannot be used with exactlyOnce=marker"),
        ({"sinkBatch": "1"}, "sinkBatch needs sinkId"),
        ({"startingOffsets": '{"a": "12-x"}'}, '"12-x" for stream a is neither earliest, latest nor an entry ID'),
        (
            {"valueFormat": "JSON", "text": "true"},
            "text cannot be used with valueFormat=json, which has a column value",
        ),
        ({"password": "a", "passwordEnv": "HOME"}, "password and passwordEnv cannot be given together"),
        ({"sslCert": __file__}, "sslCert needs sslKey: a certificate and its private key go together"),
        ({"sslKeyPassword": "x"}, "sslKeyPassword needs sslKey, the file that it opens"),
        ({"redis.ssl_min_version": "TLSv1.3"}, "redis.ssl_min_version is for TLS: use rediss:// or set ssl=true"),
        ({"sentinelUsername": "a"}, "sentinelUsername is for Sentinel: give url as redis+sentinel://host/name"),
        ({**SENTINELS, "cluster": "true"}, "cluster=true cannot be used with redis+sentinel://"),
        ({"redis.socket_timeout": "0"}, "redis.socket_timeout=0 is not allowed: give seconds, more than 0"),
        ({"redis.socket_keepalive": "on"}, "redis.socket_keepalive=on is not allowed: give true | false"),
        ({"redis.sokcet_timeout": "1"}, "unknown option redis.sokcet_timeout: did you mean redis.socket_timeout?"),
        ({"redis.password": "hunter2"}, "redis.password cannot be given: use option password instead"),
        (
            {"redis.protocol": "3"},
            "redis.protocol cannot be given: it is the data source that decides it, leave it out",
        ),
    ],
)
def test_options_that_do_not_fit_together_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(given)

    assert str(caught.value).startswith(said) or said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("topic", "stream"),
        ("subscribe", "stream"),
        ("subscribePattern", "streamRegex"),
        ("assign", "stream"),
        ("maxOffsetsPerTrigger", "maxEntriesPerTrigger"),
        ("minOffsetsPerTrigger", "minEntriesPerTrigger"),
        ("maxRecordsPerPartition", "entriesPerPartition"),
        ("startingOffsetsByTimestamp", "startingTimestamp"),
        ("endingOffsetsByTimestamp", "endingTimestamp"),
        ("kafka.bootstrap.servers", "url"),
        ("kafka.group.id", "progressGroup"),
        ("groupIdPrefix", "progressGroup"),
        ("fetchOffset.numRetries", "timeout"),
        ("kafka.acks", "durability"),
        ("kafka.ssl.keystore.location", "url"),
        ("kafka.sasl.mechanism", "username"),
    ],
)
def test_an_option_of_kafka_is_answered_with_the_name_it_has_here(name: str, instead: str) -> None:
    assert instead in NAMES
    for given in (name, name.lower()):
        with pytest.raises(OptionError, match=rf"^option {given} is Kafka's: .*\b{instead}\b"):
            parse_options({given: "x"})


def test_what_kafka_has_and_streams_do_not_need_is_said_so() -> None:
    for name in ("includeHeaders", "kafka.fetch.max.bytes", "startingOffsetsByTimestampStrategy"):
        with pytest.raises(OptionError, match=rf"^option {name} is Kafka's: leave it out"):
            parse_options({name: "x"})


def test_the_option_retries_is_taken_and_said_once_to_do_nothing(caplog: pytest.LogCaptureFixture) -> None:
    _say_retries_do_nothing.cache_clear()
    for given in ("0", "9", "9"):
        parse_options({"retries": given})
    parse_options({})

    assert [record.message for record in caplog.records] == [
        "option retries does nothing any more, a task tries again until timeout: leave it out"
    ]


@pytest.mark.parametrize("given", [{"url": "redis://h"}, {"host": "h"}, {"port": "6379"}, {}])
def test_the_server_that_is_used_is_logged_once_where_none_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    monkeypatch.delenv("STREAMD_URL", raising=False)
    _say_local.cache_clear()
    for _ in range(3):
        parse_options(given)
    monkeypatch.setenv("STREAMD_URL", "redis://there")
    _say_local.cache_clear()
    parse_options({})

    line = "no server is named, so 127.0.0.1:6379 is used: give url, or set STREAMD_URL before Spark starts"
    assert caplog.messages == ([] if given else [line])


@pytest.mark.parametrize("name", ["username", "password", "sentinelPassword", "sslKeyPassword", "stream"])
def test_blanks_at_the_ends_of_passwords_and_names_are_kept(name: str) -> None:
    options = parse_options({name: " a b ", **NEEDED.get(name, {})})

    held = {
        "username": options.connection.username,
        "password": options.connection.password,
        "sentinelPassword": options.connection.sentinel_password,
        "sslKeyPassword": options.connection.ssl_key_password,
        "stream": options.write.stream,
    }
    assert held[name] == " a b "
    assert options.read.streams == ((" a b ",) if name == "stream" else ())


@pytest.mark.parametrize("name", ["streamPattern", "streamRegex", "streamColumn", "idempotencyKey"])
def test_blanks_at_the_ends_of_patterns_and_columns_are_kept(name: str) -> None:
    options = parse_options({name: " a "})

    assert " a " in (options.read.pattern, options.write.stream_column, *options.write.key_columns)


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": '{"s": "\u0665-4"}'},
        {"startingOffsets": '{"s": "5-\u0664"}'},
        {"startingTimestamp": "\u0665"},
        {"port": "\u0665"},
        {"timeout": "\u0665s"},
        {"maxBytesPerTrigger": "\u0665m"},
        {"url": "redis://h:\u0665"},
        {"url": "redis://h/\u0665"},
        {"redis.socket_timeout": "\u0665"},
        {"redis.socket_read_size": "\u0665"},
        {"durability": "replicas:1\u0665"},
    ],
)
def test_digits_that_are_not_ascii_are_no_number(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="is not allowed"):
        parse_options(given)


@pytest.mark.parametrize("name", [name for name in NAMES if "assword" in name])
def test_the_value_of_a_secret_is_in_no_error(name: str) -> None:
    """A password may have been given where the name of its variable or file belongs."""
    assert name in SECRET
    for value in ("hunter2", " "):
        for more in ({"timeout": "x"}, {name.removesuffix("Env").removesuffix("File"): "hunter2", "sslKey": "/none"}):
            with pytest.raises(OptionError) as caught:
                parse_options({name: value, **more})
            assert "hunter2" not in str(caught.value)


def test_a_host_with_a_user_is_refused_without_its_password() -> None:
    with pytest.raises(OptionError, match=r"^host=\*\*\*@there is not allowed: give a host name"):
        parse_options({"host": "redis://:hunter2@there"})


@pytest.mark.parametrize("url", ["redis://hunter2@there", "redis://hunter2:x@there"])
def test_the_user_of_an_url_is_in_no_error(url: str) -> None:
    options = parse_options({"url": url}).connection
    errors = (
        redis.AuthenticationError("WRONGPASS invalid username-password pair or user is disabled."),
        redis.exceptions.NoPermissionError("User hunter2 has no permissions to run the 'xadd' command"),
        redis.ResponseError("ACL failure for user 'hunter2'"),
        redis.ConnectionError("gone"),
    )
    shown = [str(explained(error, options)) for error in errors] + [
        str(given_up(errors[3], options, 1.0)),
        repr(options),
    ]

    assert not [text for text in shown if "hunter2" in text]
    assert "does not let in the user in url" in shown[0]
    named = parse_options({"host": "there", "username": "me"}).connection
    assert "does not let in user me" in str(explained(errors[0], named))


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


@pytest.mark.parametrize(
    ("url", "nodes", "more"),
    [
        ("redis://a", [("a", 6379)], {}),
        ("redis://a:1,b,[::1]:3/2", [("a", 1), ("b", 6379), ("::1", 3)], {"db": 2}),
        ("redis+sentinel://a,b:5/orders", [("a", 26379), ("b", 5)], {"master": "orders", "ssl": False}),
        ("rediss+sentinel://u:p@a/or%2Fders/4", [("a", 26379)], {"master": "or/ders", "db": 4, "ssl": True}),
        ("redis+sentinel://:p%2C@a/x", [("a", 26379)], {"username": None, "password": "p,"}),
    ],
)
def test_an_url_names_nodes_or_sentinels(url: str, nodes: list, more: dict) -> None:
    connection = parse_options({"url": url}).connection

    assert list(connection.nodes) == nodes
    assert {name: getattr(connection, name) for name in more} == more


@pytest.mark.parametrize(
    "url", ["redis+sentinel://a", "redis://a/b", "redis://a:0", "redis://a,", "redis://a/1/2", "a:1"]
)
def test_an_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match=r"^url=.* is not allowed: give redis://"):
        parse_options({"url": url})


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"port": "7000"}, "127.0.0.1:7000/0"),
        ({"url": "redis://LocalHost/3"}, "127.0.0.1:6379/3"),
        ({"url": "redis://b:2,localhost:1"}, "127.0.0.1:1,b:2/0"),
        ({"url": "redis+sentinel://b,A/orders/1"}, "orders@a:26379,b:26379/1"),
    ],
)
def test_a_server_is_the_same_place_however_its_nodes_are_written(given: dict[str, str], place: str) -> None:
    assert place_of(parse_options(given).connection) == place


def test_the_url_comes_from_the_environment_where_none_is_given(monkeypatch) -> None:
    monkeypatch.setenv("STREAMD_URL", "rediss://me:hunter2@there:7000/3")

    assert parse_options({}).connection.endpoint == "there:7000"
    assert parse_options({"port": "5"}).connection.endpoint == "127.0.0.1:5"
    assert parse_options({"url": "redis://here"}).connection.password is None
    monkeypatch.setenv("STREAMD_URL", "http://me:hunter2@there")
    with pytest.raises(OptionError, match=r"^STREAMD_URL=\*\*\*@there is not allowed: give redis://"):
        parse_options({})


def test_arguments_of_the_client_are_passed_on() -> None:
    given = {"ssl": "true", "REDIS.Socket_Timeout": "2.5", "redis.socket_keepalive": "False", "redis.ssl_ciphers": "x"}

    assert parse_options(given).connection.settings == (
        ("socket_keepalive", False),
        ("socket_timeout", 2.5),
        ("ssl_ciphers", "x"),
    )


def test_a_password_comes_from_the_environment_or_a_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MY_SECRET", "from-env")
    (tmp_path / "secret").write_text("from-file\n")

    assert parse_options({"passwordEnv": "MY_SECRET"}).connection.password == "from-env"
    assert parse_options({"passwordFile": str(tmp_path / "secret")}).connection.password == "from-file"


def test_a_password_is_in_no_text(tmp_path) -> None:
    more = {"sslCert": __file__, "sslKey": __file__, "sentinelPassword": "hunter3", "sslKeyPassword": "hunter4"}
    options = parse_options({"url": "redis+sentinel://me:hunter2@there/m", **more})

    assert "hunter" not in repr(options)
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
