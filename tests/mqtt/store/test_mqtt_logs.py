"""Which log takes a topic, and settings that do not fit."""

import pytest

from streamd.clients.mqtt.gateway.receiving import ContentRule
from streamd.clients.mqtt.store.logs import LogSettings, check_logs, parse_log


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", LogSettings("b", "a", 4, 9)),
        ("a/b/=c,shards=2", LogSettings("c", "a/b", 2, 9)),
        ("a=b,retention=60,shards=1", LogSettings("b", "a", 1, 60)),
    ],
)
def test_logs_of_the_command_line(text, found):
    assert parse_log(text, 4, 9) == found


@pytest.mark.parametrize("text", ["a", "=b", "a=", "a=b,shards", "a=b,x=1", "a=b c", "a/+=b", "$a=b", "a=b,shards=0"])
def test_logs_that_cannot_be(text):
    with pytest.raises(ValueError, match=r"--log"):
        parse_log(text, 4, 9)


@pytest.mark.parametrize(("one", "other"), [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_prefixes_that_overlap(one, other):
    with pytest.raises(ValueError, match="overlaps"):
        check_logs([LogSettings("x", one, 1, 1), LogSettings("y", other, 1, 1)])
    check_logs([LogSettings("x", "a", 1, 1), LogSettings("y", "ab", 1, 1)])
    with pytest.raises(ValueError, match="twice"):
        check_logs([LogSettings("x", "a", 1, 1), LogSettings("x", "b", 1, 1)])


@pytest.mark.parametrize("text", ["a", "a=", "a=0", "a=3601", "a=1.5", "=5", "a#=5"])
def test_rules_that_cannot_be(text):
    with pytest.raises(ValueError, match="--idempotent-content"):
        ContentRule(text)


def test_equal_messages_of_a_span_have_one_name():
    rule = ContentRule("a/+=10")
    names = {rule.iid(b"a/b", b"1", now_ms) for now_ms in (0, 9_999, 10_000)}
    assert len(names) == 2
    assert rule.iid(b"a/b", b"1", 0) != rule.iid(b"a/c", b"1", 0)
    assert rule.iid(b"a/b", b"1", 0) != rule.iid(b"a/b", b"2", 0)
