"""Two consumers go through their histories of cold entries at once, with less memory than these take."""

from tests.cold.cold_server import ColdSession, evict, make_cold
from tests.session import Session

ENTRIES = 3_000


def filled(session):
    session.send(["CONFIG", "SET", "stream-node-max-entries", 10])
    session.send(*[["XADD", "s", f"{number}-0", "f", "x" * 300] for number in range(1, ENTRIES + 1)])
    session.send(["XGROUP", "CREATE", "s", "g", 0])
    for consumer in ("one", "two"):
        session.send(["XREADGROUP", "GROUP", "g", consumer, "COUNT", ENTRIES // 2 - 20, "STREAMS", "s", ">"])
    session.replies()


def test_histories_of_two_consumers_end_though_each_needs_more_blocks_than_there_is_room_for():
    cold, plain = (
        ColdSession(limit_bytes=120_000),
        Session(),
    )
    gone = [f"{number}-0" for number in range(1, ENTRIES - 50, 2)]
    for session in (cold, plain):
        filled(session)
    make_cold(cold.engine, b"s")
    for session in (cold, plain):
        session.send(["XDEL", "s", *gone])
    cold.read()
    cold.replies()
    plain.replies()
    evict(cold.engine)
    requests = [
        ["XREADGROUP", "GROUP", "g", "one", "STREAMS", "s", "0"],
        ["XREADGROUP", "GROUP", "g", "two", "COUNT", 700, "STREAMS", "s", "2000"],
        ["XREADGROUP", "GROUP", "g", "one", "COUNT", 40, "STREAMS", "s", "500"],
        ["XREADGROUP", "GROUP", "g", "two", "STREAMS", "s", "0"],
    ]
    first, second = cold.connect(), cold.connect()
    first.send(*requests[::2])
    second.send(*requests[1::2])
    while cold.read(1):
        evict(cold.engine)

    expected = [plain.execute(request) for request in requests]
    assert first.replies() == expected[::2]
    assert second.replies() == expected[1::2]
    assert cold.state.blocked.reading == 0
    assert cold.state.stats.internal_errors == 0
    assert all(not one.pins for one in cold.store.cache._blocks.values())
