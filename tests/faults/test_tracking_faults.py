"""CLIENT TRACKING BCAST with many prefixes, many keys and many clients."""

import random

import pytest

from streamd.base.prefixes import Prefixes, overlapping
from streamd.connected.tracking import KEYS_AT_ONCE
from tests.session import Error, Session, SessionClient

MANY = 3_500


def listening(engine: Session, *prefixes: str, options: str = "", protocol: int = 3) -> SessionClient:
    client = engine.connect(protocol)
    words = [word for prefix in prefixes for word in ("PREFIX", prefix)]
    assert client.execute(["CLIENT", "TRACKING", "ON", "BCAST", *words, *options.split()]) == "OK"
    return client


def change(engine: Session, client: SessionClient, keys: list[bytes]) -> None:
    """Have keys changed; nobody is told of it yet."""
    client.engine.run(client.client, [[b"MSET", *(word for key in keys for word in (key, b"v"))]])
    client.engine.end_turn()


def told(client: SessionClient) -> list[list[bytes]]:
    client.replies()
    pushes, client.pushes = client.pushes, []
    assert all(kind == b"invalidate" for kind, _ in pushes)
    return [keys for _, keys in pushes]


KEYS = [b"key:%05d" % number for number in range(MANY)]


def test_faults2_3_5_many_changes_are_told_in_messages_of_so_many_keys(engine):
    client, few = listening(engine), listening(engine, "key:00")
    change(engine, engine, KEYS)

    engine.engine.tick()

    parts = told(client)
    assert [key for part in parts for key in part] == KEYS
    assert [len(part) for part in parts] == [KEYS_AT_ONCE] * 3 + [MANY - 3 * KEYS_AT_ONCE]
    assert told(few) == [KEYS[:1000]]


def test_faults2_3_5_between_two_messages_somebody_looks_at_the_time(engine):
    clients = [listening(engine) for _ in range(200)]
    change(engine, engine, KEYS)
    tracking, out = engine.state.tracking, []

    while tracking.has_news:
        more = tracking.broadcast(lambda: True)
        out.append(sum(len(client.client.out) for client in clients))
        assert more is tracking.has_news

    steps = [after - before for before, after in zip([0, *out], out, strict=False)]
    assert max(steps) == 64
    assert sum(steps) == 4 * 200
    assert all([key for part in told(client) for key in part] == KEYS for client in clients)


@pytest.mark.interpreted("a method of the clock is replaced")
def test_faults2_3_5_a_tick_makes_a_slice_and_asks_for_another_turn(engine, clock):
    client = listening(engine)
    change(engine, engine, KEYS)
    wanted, looks = [], []
    engine.engine.want_turn = lambda: wanted.append(engine.state.tracking.has_news)

    def slow() -> int:
        looks.append(None)
        return 600 * len(looks)  # microseconds: two steps are a slice

    engine.clock.monotonic_us = slow
    while engine.state.tracking.has_news:
        engine.engine.tick()

    assert len(wanted) >= 3
    assert wanted == [True] * len(wanted)
    assert [key for part in told(client) for key in part] == KEYS


def test_faults2_3_5_a_key_that_changes_again_while_others_are_told_of_is_told_of_again(engine):
    client = listening(engine)
    change(engine, engine, KEYS)
    tracking = engine.state.tracking
    tracking.broadcast(lambda: True)
    tracking.broadcast(lambda: True)
    assert len(told(client)) == 1

    change(engine, engine, KEYS[:2])
    engine.engine.tick()

    parts = told(client)
    assert [key for part in parts for key in part] == KEYS[KEYS_AT_ONCE:] + KEYS[:2]


def test_faults2_3_5_who_goes_meanwhile_is_told_no_more_and_the_others_are(engine):
    clients = [listening(engine) for _ in range(150)]
    change(engine, engine, KEYS)
    tracking = engine.state.tracking
    for _ in range(2):
        tracking.broadcast(lambda: True)
    clients[100].disconnect()
    clients[3].do("CLIENT TRACKING OFF")
    told(clients[3])

    engine.engine.tick()

    assert [told(client) for client in (clients[100], clients[3])] == [[], []]
    assert [key for part in told(clients[149]) for key in part] == KEYS
    for client in clients:
        client.disconnect()
    assert not tracking.has_news
    change(engine, engine, KEYS)
    assert not tracking.has_news


def test_faults2_3_5_who_wants_no_own_changes_gets_those_of_others_in_every_message(engine):
    client, other = listening(engine, options="NOLOOP"), listening(engine, options="NOLOOP")
    change(engine, client, KEYS[::2])
    change(engine, other, KEYS[1::2])

    engine.engine.tick()

    assert sorted(key for part in told(client) for key in part) == KEYS[1::2]
    assert sorted(key for part in told(other) for key in part) == KEYS[::2]


@pytest.mark.interpreted("a method is replaced")
def test_faults2_3_5_whom_a_bug_may_have_kept_from_being_told_is_closed(monkeypatch):
    session = Session()
    client, reader = listening(session), session.connect(3)
    reader.do("CLIENT TRACKING ON")
    monkeypatch.setattr(Prefixes, "of", lambda self, text: 1 // 0)
    change(session, session, KEYS)

    session.engine.tick()

    assert (client.client.closed, reader.client.closed) == (True, False)
    assert session.state.stats.internal_errors == 1
    assert not session.state.tracking.has_news


# -- the prefixes -----------------------------------------------------------------------------------------------------


class CountedText(bytes):
    """A prefix that counts how often it is compared with another one."""

    compared = 0

    def startswith(self, *others: object) -> bool:
        CountedText.compared += 1
        return bytes.startswith(self, *others)


@pytest.mark.interpreted("a compiled comparison does not ask a subclass")
def test_faults2_3_5_that_many_prefixes_do_not_overlap_is_seen_by_comparing_neighbours():
    CountedText.compared = 0
    assert overlapping([CountedText(key) for key in KEYS]) == set()
    assert CountedText.compared <= 2 * MANY


@pytest.mark.parametrize("seed", range(30))
def test_faults2_3_5_which_prefixes_overlap_is_what_comparing_all_of_them_says(seed):
    chance = random.Random(seed)
    words = [bytes(chance.choices(b"ab", k=chance.randrange(6))) for _ in range(chance.randrange(9))]
    expected = {
        one
        for at, one in enumerate(words)
        for where, other in enumerate(words)
        if where != at and (one.startswith(other) or other.startswith(one))
    }
    assert overlapping(words) == expected


@pytest.mark.parametrize(
    ("before", "words", "which"),
    [
        (["a"], ["b", "ab", "c"], "'ab' overlaps with an existing prefix 'a'"),
        (["abc", "ab1"], ["b", "ab", "b"], "'b' overlaps with another provided prefix 'b'"),
        (["abc", "ab1"], ["ab", "b", "b"], "'ab' overlaps with an existing prefix 'ab1'"),
        ([], ["c", "ab", "d", "abc", "a"], "'ab' overlaps with another provided prefix 'abc'"),
        (["x"], ["x"], "'x' overlaps with an existing prefix 'x'"),
    ],
)
def test_faults2_3_5_the_first_prefix_that_overlaps_is_named(engine, before, words, which):
    client = listening(engine, *before) if before else engine.connect(3)
    request = ["CLIENT", "TRACKING", "ON", "BCAST", *(word for one in words for word in ("PREFIX", one))]
    text = f"ERR Prefix {which}. Prefixes for a single client must not overlap."
    assert client.execute(request) == Error(text)


@pytest.mark.parametrize("seed", range(20))
def test_faults2_3_5_the_prefixes_of_a_text_are_those_that_it_begins_with(seed):
    chance = random.Random(seed)
    table: Prefixes[int] = Prefixes()
    model: dict[bytes, int] = {}
    for number in range(60):
        word = bytes(chance.choices(b"ab", k=chance.randrange(8)))
        if word in model and chance.random() < 0.5:
            table.remove(word)
            del model[word]
        else:
            table.put(word, number)
            model[word] = number
        text = bytes(chance.choices(b"ab", k=chance.randrange(10)))
        assert dict(table.of(text)) == {one: value for one, value in model.items() if text.startswith(one)}
        assert len(table) == len(model)
