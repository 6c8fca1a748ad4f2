"""What clients choose, error codes and names of keys, never makes INFO or /metrics unreadable, or large."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamd.base.errors import CODE_CHARACTERS_MAX
from streamd.connected.state import ERROR_CODES_MAX
from streamd.engine.survey import GROUPS_MAX
from streamd.net.exposition import NAME_CHARACTERS_MAX, expose
from tests.session import Error, Session

# Error lines of scripts, and the code that statistics show.
CODES = [
    (b"\xffx y", "x"),
    (b"X:1\r\nrole:slave\r\nY z", "X_1"),
    (b"A\tB\7C\x7f z", "ABC"),
    (b"#Section z", "_Section"),
    ("\u2028line\u202e z".encode(), "line"),  # what ends a line, or turns it round, in Unicode
    (b"L" * 100_000 + b" z", "L" * CODE_CHARACTERS_MAX),
]


class Host:
    """A server without sockets."""

    measures = None

    def __init__(self, session: Session) -> None:
        self.engine = session.engine


def exposed(session: Session) -> str:
    pieces: list[str] = []
    for _ in expose(Host(session), pieces.append):
        pass
    "".join(pieces).encode()  # as it is sent
    return "".join(pieces)


def series(session: Session) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return all samples of /metrics; two with the same name and labels make Prometheus refuse all."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(exposed(session)):
        for sample in family.samples:
            at = (sample.name, tuple(sorted(sample.labels.items())))
            assert at not in found
            found[at] = sample.value
    return found


def codes_in_metrics(session: Session) -> dict[str, float]:
    rows = {labels: value for (name, labels), value in series(session).items() if name == "redis_errors_total"}
    return {dict(labels)["err"]: value for labels, value in rows.items()}


def raise_error(session: Session, line: bytes) -> Error:
    reply = session.execute([b"EVAL", b"return {err=ARGV[1]}", 0, line])
    assert isinstance(reply, Error)
    return reply


def info(session: Session) -> bytes:
    reply = session.execute([b"INFO", b"everything"])
    assert isinstance(reply, bytes)
    return reply


@pytest.mark.parametrize(("line", "code"), CODES, ids=range(len(CODES)))
def test_faults2_3_1_a_code_that_a_script_makes_is_one_printable_word_in_info_and_metrics(engine, line, code):
    before = info(engine).count(b"\n")
    raise_error(engine, line)
    assert engine.execute([b"INFO", b"errorstats"]) == f"# Errorstats\r\nerrorstat_{code}:count=1\r\n".encode()
    assert [row for row in info(engine).split(b"\r\n") if row.startswith(b"role:")] == [b"role:master"]
    assert info(engine).count(b"\n") <= before + 5  # the error's, and those of the commands EVAL and INFO
    assert codes_in_metrics(engine) == {code: 1}


def test_faults2_3_1_a_stranger_cannot_make_info_and_metrics_long(engine):
    for number in range(ERROR_CODES_MAX):
        raise_error(engine, b"CODE%d x" % number)
    sizes = len(info(engine)), len(exposed(engine))
    for number in range(3 * ERROR_CODES_MAX):
        raise_error(engine, b"MORE" * 40 + b"%d x" % number)
        raise_error(engine, b"OTHER%d x" % number)
    codes = codes_in_metrics(engine)
    assert len(codes) <= ERROR_CODES_MAX + 1
    assert sum(codes.values()) == 7 * ERROR_CODES_MAX  # what has no place of its own is counted, too
    assert codes["CODE0"] == 1
    grown = len(info(engine)) - sizes[0], len(exposed(engine)) - sizes[1]
    assert max(grown) < 300
    raise_error(engine, b"CODE0 x")
    assert codes_in_metrics(engine)["CODE0"] == 2

    engine.do("CONFIG RESETSTAT")
    assert codes_in_metrics(engine) == {}


@pytest.mark.parametrize(("line", "code"), CODES, ids=range(len(CODES)))
def test_faults2_3_1_monitor_has_a_printable_line_and_the_slow_log_short_words(engine, line, code):
    engine.do("CONFIG SET slowlog-log-slower-than 0")
    engine.do("SLOWLOG RESET")
    watcher = engine.connect()
    watcher.do("MONITOR")
    raise_error(engine, line)
    seen = watcher.received()
    assert seen.count(b"\r\n") == 1
    assert re.fullmatch(rb"\+[\x20-\x7e]+\r\n", seen)

    (entry,) = [one for one in engine.do("SLOWLOG GET") if one[3][0] == b"EVAL"]
    assert max(len(word) for word in entry[3]) <= 128 + len("... (100000 more bytes)")


NAMES = [
    *(b"s" * NAME_CHARACTERS_MAX + tail for tail in (b"", b"1", b"2", b"\xff", b"\xfe")),
    *(b"\xff", rb"\xff", b"a\nb", b"a b", b'a"b', rb"a\nb", b"a\\b", "é".encode(), b"\xc3", b"\xe9", b""),
]


def test_faults2_4_7_names_that_begin_alike_are_series_of_their_own(engine):
    for key in NAMES:
        engine.execute([b"XADD", key, b"*", b"f", b"v"])
        for group in NAMES[:GROUPS_MAX]:
            engine.execute([b"XGROUP", b"CREATE", key, group, b"0"])
    labels = [labels for name, labels in series(engine) if name == "redis_stream_length"]
    assert len(set(labels)) == len(NAMES)
    pending = [labels for name, labels in series(engine) if name == "redis_stream_group_messages_pending"]
    assert len(set(pending)) == len(NAMES) * GROUPS_MAX
    assert max(len(dict(one)["group"]) for one in pending) <= NAME_CHARACTERS_MAX


def test_faults2_4_7_a_key_that_looks_like_a_cut_name_has_a_series_of_its_own(engine):
    engine.execute([b"XADD", b"s" * 1_000, b"*", b"f", b"v"])
    (labels,) = [labels for name, labels in series(engine) if name == "redis_stream_length"]
    shown = dict(labels)["stream"]
    assert shown.startswith("s" * 100)
    assert len(shown) <= NAME_CHARACTERS_MAX
    engine.execute([b"XADD", shown.encode(), b"*", b"f", b"v"])
    assert len([labels for name, labels in series(engine) if name == "redis_stream_length"]) == 2
