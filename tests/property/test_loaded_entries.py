"""Entries that a start takes from the journal a column at a time are those that it would take one by one."""

from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from streamd.base.clock import ManualClock
from streamd.base.errors import CommandError, InvalidStreamId
from streamd.catalog.applying import Applying, CannotApply
from streamd.commands.stream import xadd
from streamd.durability.replay import Replay
from streamd.engine.engine import Engine
from streamd.journal import loader as loading
from streamd.journal.alike import template_of_piece
from streamd.journal.file_reader import Bare
from streamd.journal.loader import Loader
from streamd.journal.record import encode_command
from streamd.journal.words import bare_commands
from streamd.stream.entry_id import parse_id
from tests.crash.state_dump import dump
from tests.session import Session

PIECES = st.lists(st.tuples(st.sampled_from([0, 1, 1, 1, 1, 5, 1 << 64]), st.integers(1, 120)), min_size=1, max_size=6)
SPOILS = st.sampled_from([None, b"5", b"x-1", b"1-2-3", b"", b"-", b"007-9", b"1-1", b"9" * 30 + b"-1"])


def texts_of(first_seq: int, pieces: list[tuple[int, int]]) -> list[bytes]:
    """Return IDs that grow by a step for so many of them, then by another one."""
    entry_id, texts = 1_700_000_000_000 << 64 | first_seq, []
    for step, count in pieces:
        for _ in range(count if step else 1):
            texts.append(b"%d-%d" % (entry_id >> 64, entry_id & (1 << 64) - 1))
            entry_id += step
    return texts


def one_by_one(texts: list[bytes]) -> list[int]:
    try:
        ids = [*map(parse_id, texts)]
    except InvalidStreamId:
        return []
    return ids if all(a < b for a, b in pairwise(ids)) else []


@given(st.sampled_from([0, 5, 95, 990, 99_999, (1 << 64) - 50]), PIECES, st.integers(0, 200), SPOILS)
def test_ids_read_together_are_those_read_each(first_seq, pieces, place, spoil):
    texts = texts_of(first_seq, pieces)
    if spoil is not None:
        texts[place % len(texts)] = spoil
    assert xadd._rising_ids(texts) == one_by_one(texts)


RECORDS = st.lists(
    st.tuples(
        st.sampled_from([b"s", b"s", b"s", b"t"]),
        st.sampled_from([[b"f", b"v"], [b"f", b"v"], [b"f", b"w", b"g", b""], [b"f"], [b"IDMP", b"p"]]),
        st.integers(1, 30),
    ),
    min_size=1,
    max_size=8,
)


@given(RECORDS, st.booleans())
def test_records_taken_together_leave_what_they_leave_each(runs, goes_back):
    pieces: list[list[list[bytes]]] = []
    number = 0
    for key, fields, count in runs:
        if goes_back and len(pieces) == 3:
            number = 0
        named = fields[0] == b"IDMP"
        pieces.append([])
        for _ in range(count):
            number += 1
            entry_id = b"1700000000000-%d" % number
            words = [b"IDMP", b"p", b"i%d" % number, entry_id, b"f", b"v"] if named else [entry_id, *fields]
            pieces[-1].append([b"XADD", key, *words])
    states = []
    for together in (True, False):
        engine = Engine(ManualClock(1_700_000_000_000))
        applying = Applying(engine.state)
        refused = []
        for piece in pieces:
            if not (together and xadd.apply_columns(applying, [*zip(*piece, strict=True)], len(piece))):
                refused += [words for words in piece if not is_applied(applying, words)]
        states.append((dump(engine), refused))
    assert states[0] == states[1]


def is_applied(applying: Applying, words: list[bytes]) -> bool:
    try:
        xadd.apply_entry(applying, words)
    except (CannotApply, CommandError, IndexError):
        return False
    return True


def loaded(engine: Engine, pieces: list[list[list[bytes]]]) -> None:
    """Load pieces of a file as a start does."""
    replay = Replay(engine.state)
    loader = Loader(engine.state.keyspace, replay)
    loader.begin_file("file", "")
    replay.borrow()
    for piece in pieces:
        for _ in loader.take(Bare(b"".join(map(encode_command, piece)), 0)):
            pass
    replay.finish()
    assert loader.commands == sum(map(len, pieces))


KINDS = st.lists(
    st.tuples(
        st.sampled_from([b"s", b"s", b"s", b"t"]),
        st.sampled_from([b"", b"", b"one", b"each"]),
        st.sampled_from([1, 1, 12, 300, 1_100]),
        st.integers(1, 30),
    ),
    min_size=1,
    max_size=8,
)


@given(KINDS, st.integers(0, 1_000))
def test_pieces_of_a_file_leave_what_their_records_leave_each(kinds, number):
    pieces: list[list[list[bytes]]] = []
    for key, iids, size, count in kinds:
        pieces.append([])
        for _ in range(count):
            number += 1
            pid = b"p%d" % (number % 7) if iids == b"each" else b"p"
            named = [b"IDMP", pid, b"i%d" % number] if iids else []
            value = b"%d" % (number % 10) * size
            pieces[-1].append([b"XADD", key, *named, b"1700000000000-%d" % number, b"f", value])
    together, each = (Engine(ManualClock(1_700_000_000_000)) for _ in range(2))
    loaded(together, pieces)
    applying = Applying(each.state)
    assert all(is_applied(applying, words) for piece in pieces for words in piece)
    assert dump(together) == dump(each)


def test_a_piece_like_the_one_before_is_not_taken_apart_record_by_record():
    pieces = [
        [[b"XADD", b"s", b"1700000000000-%d" % n, b"f", b"%03d" % n] for n in range(at, at + 50)] for at in (100, 150)
    ]
    with patch.object(loading, "bare_commands", wraps=bare_commands) as apart:
        loaded(Engine(ManualClock(1_700_000_000_000)), pieces)
    assert apart.call_count == 1


WORDS = st.lists(st.tuples(st.binary(max_size=6), st.booleans()), min_size=1, max_size=6)


@given(WORDS, st.integers(1, 12), st.integers(0, 500), st.binary(max_size=2))
def test_records_cut_by_columns_are_those_that_a_parser_finds(words, count, place, spoil):
    records = [[word[:-1] + b"%d" % (n % 10) if is_own else word for word, is_own in words] for n in range(count)]
    data = b"".join(map(encode_command, records))
    template = template_of_piece(records, len(data))
    if template is None:
        return
    place %= len(data)
    data = data[:place] + spoil + data[place + len(spoil) :]
    alike = template.cut(data)
    if alike is not None:
        rows = zip(*[[one] * alike.count if isinstance(one, bytes) else one for one in alike.columns()], strict=True)
        assert [list(row) for row in rows] == parsed(data)


def parsed(data: bytes) -> list[list[bytes]] | None:
    commands, is_whole = bare_commands(data)
    return commands if is_whole else None


ACKNOWLEDGED = st.lists(st.lists(st.integers(1, 66), min_size=1, max_size=30), max_size=6)


@given(ACKNOWLEDGED, st.sampled_from([b"g", b"g", b"none"]), st.sampled_from([b"", b"", b"x", b"g"]))
def test_acknowledgements_taken_together_leave_what_they_leave_each(runs, group, odd):
    states = []
    for together in (True, False):
        session = Session()
        session.execute(["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"])
        for number in range(1, 61):
            session.execute(["XADD", "s", f"{number}-0", "f", "v"])
        session.execute(["XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"])
        replay, problems = Replay(session.engine.state), []
        replay.borrow()
        for numbers in runs:
            piece = [[b"XACK", b"s", group, b"%d-0" % number] for number in numbers]
            if odd:
                piece[-1][2 if odd == b"g" else 3] = odd
            if not (together and replay.take_columns(0, [*zip(*piece, strict=True)], len(piece))):
                problems += [replay.apply(0, words) for words in piece]
        replay.finish()
        states.append((dump(session.engine), [problem for problem in problems if problem]))
    assert states[0] == states[1]


def test_acknowledgements_of_one_group_are_taken_together():
    session = Session()
    session.execute(["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"])
    replay = Replay(session.engine.state)
    assert replay.take_columns(0, [b"XACK", b"s", (b"g",) * 3, (b"1-0", b"2-0", b"3-0")], 3)
    assert not replay.take_columns(0, [b"XACK", b"s", (b"g", b"g", b"h"), (b"1-0", b"2-0", b"3-0")], 3)
