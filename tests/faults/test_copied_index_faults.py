"""The index of a field's values while a stream is copied: each of the two has its own."""

import random

import pytest

from tests.session import Session

ENTRIES = 1_000


@pytest.fixture
def session() -> Session:
    session = Session()
    session.do("CONFIG SET stream-node-max-entries 50")
    fill(session, "s", range(1, ENTRIES + 1))
    return session


def fill(session: Session, key: str, numbers: range) -> None:
    session.send(*(["XADD", key, f"{at}-1", "t", f"v{at % 7}", "u", f"w{at % 11}"] for at in numbers))
    session.replies()


def search(session: Session, key: str, field: str, value: str) -> list[bytes]:
    """Return the IDs of all entries that match, in as many requests as it takes."""
    found, start, before = [], "-", None
    while True:
        behind, entries = session.do(f"XFILTER {key} {start} + COUNT 1000 FIELD {field} EQ {value}")
        found += [one[0] for one in entries]
        if behind in (before, b"0-0", None):
            return found
        start, before = f"({behind.decode()}", behind


def stream(session: Session, key: bytes):
    return session.state.keyspace[0].values[key]


def noted(session: Session, key: bytes) -> list[object]:
    return [segment.noted_by for segment in stream(session, key).log._sealed.segments if segment is not None]


def expected(value: str, numbers: range = range(1, ENTRIES + 1)) -> list[bytes]:
    size = 7 if value[0] == "v" else 11
    return [b"%d-1" % at for at in numbers if at % size == int(value[1:])]


@pytest.mark.parametrize("way", ["COPY s c", "COPY s c DB 0 REPLACE"])
def test_faults2_4_8_a_copy_has_an_index_of_its_own(session: Session, way: str):
    assert search(session, "s", "t", "v3") == expected("v3")
    session.do(way)
    assert search(session, "c", "t", "v3") == expected("v3")
    assert stream(session, b"c").field_index is not stream(session, b"s").field_index
    assert set(noted(session, b"s")) == {stream(session, b"s").field_index}
    assert set(noted(session, b"c")) == {stream(session, b"c").field_index}


def test_faults2_4_8_searches_of_the_copy_for_another_field_cost_the_original_nothing(session: Session):
    search(session, "s", "t", "v3")
    index = stream(session, b"s").field_index
    session.do("COPY s c")
    search(session, "c", "t", "v3")
    for _ in range(30):
        assert search(session, "c", "u", "w5") == expected("w5")
        assert index.rivals == 0
        assert search(session, "s", "t", "v3") == expected("v3")
        assert stream(session, b"s").field_index is index
        assert set(noted(session, b"s")) == {index}, "none of them is looked through again"
    assert stream(session, b"c").field_index.field == b"u"
    assert set(noted(session, b"c")) == {stream(session, b"c").field_index}


def test_faults2_4_8_what_is_learned_of_one_is_not_known_of_the_other(session: Session):
    search(session, "s", "t", "v3")
    session.do("COPY s c")
    values = len(stream(session, b"s").field_index._values)
    session.send(*(["XADD", "c", "*", "t", f"new{at}", "u", "w"] for at in range(ENTRIES)))
    session.replies()
    search(session, "c", "t", "new7")
    assert len(stream(session, b"s").field_index._values) == values


def test_faults2_4_8_a_rewrite_that_shares_the_segments_leaves_the_index(session: Session):
    search(session, "s", "t", "v3")
    index = stream(session, b"s").field_index
    kept = stream(session, b"s").snapshot()
    assert search(session, "s", "t", "v3") == expected("v3")
    assert stream(session, b"s").field_index is index
    assert kept.log._sealed.segments[0] is stream(session, b"s").log._sealed.segments[0], "still shared"


@pytest.mark.parametrize("seed", range(20))
def test_faults2_4_8_both_find_what_they_hold_whatever_happens_to_each(session: Session, seed: int):
    chance = random.Random(seed)
    held = {"s": list(range(1, ENTRIES + 1))}
    for _ in range(30):
        key = chance.choice(list(held))
        kind = chance.choice(["copy", "search", "search", "search", "delete", "trim", "add"])
        if kind == "copy":
            target = chance.choice([name for name in "sabc" if name != key])
            session.do(f"COPY {key} {target} REPLACE")
            held[target] = held[key][:]
        elif kind == "delete" and held[key]:
            gone = chance.sample(held[key], min(len(held[key]), chance.choice((1, 30, 200))))
            session.do(f"XDEL {key} " + " ".join(f"{at}-1" for at in gone))
            held[key] = [at for at in held[key] if at not in set(gone)]
        elif kind == "trim":
            length = chance.randint(0, len(held[key]))
            session.do(f"XTRIM {key} MAXLEN {length}")
            held[key] = held[key][len(held[key]) - length :]
        elif kind == "add":
            last = int(session.do(f"XINFO STREAM {key}")[7].split(b"-")[0])
            fill(session, key, range(last + 1, last + 120))
            held[key] += range(last + 1, last + 120)
        else:
            field, size = chance.choice((("t", 7), ("u", 11)))
            number = chance.randrange(size)
            found = search(session, key, field, f"{'v' if field == 't' else 'w'}{number}")
            assert found == [b"%d-1" % at for at in held[key] if at % size == number]
    assert session.state.stats.internal_errors == 0
