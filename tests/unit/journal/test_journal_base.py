"""What a rewritten base says of what is easily forgotten: released entries, and iids whose entries are deleted."""

from itertools import permutations

import pytest

from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump

IDS = ["1-0", "2-0", "3-0"]


def base_of(server: Restartable) -> bytes:
    (path,) = [path for path in server.disk.names if path.endswith(".base.aof")]
    return bytes(server.disk.names[path].data)


def nacked(server: Restartable) -> list[int]:
    return [entry_id >> 64 for entry_id in server.engine.state.keyspace[0].stream(b"s").groups[b"g"].pending.nacked]


@pytest.mark.parametrize("at_once_max", [0, 1_000], ids=["a snapshot", "at once"])
@pytest.mark.parametrize("order", [*permutations(IDS), ("2-0",)])
def test_released_entries_come_back_from_a_base_in_the_order_of_their_release(monkeypatch, order, at_once_max):
    monkeypatch.setattr("streamd.journal.rewrite._AT_ONCE_ENTRIES_MAX", at_once_max)
    server = Restartable()
    for entry_id in IDS:
        server.send("XADD", "s", entry_id, "f", "v")
    server.send("XGROUP", "CREATE", "s", "g", "0")
    server.send("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
    for number, entry_id in enumerate(order):
        words = ["FAIL", "SILENT", "FATAL"][number]
        assert server.send("XNACK", "s", "g", words, "IDS", "1", entry_id) == b":1\r\n"
    assert dump(server.restart().engine) == dump(server.engine)
    server.rewrite()
    again = server.restart()
    assert nacked(again) == nacked(server) == [int(entry_id[0]) for entry_id in order]
    assert dump(again.engine) == dump(server.engine)
    # Whoever reads next gets them in that order, with the same counts.
    claim = ["XREADGROUP", "GROUP", "g", "bob", "CLAIM", "0", "COUNT", "1", "STREAMS", "s", ">"]
    assert [again.send(*claim) for _ in IDS] == [server.send(*claim) for _ in IDS]


@pytest.mark.parametrize("deleted", range(8))
def test_redis_is_told_the_iids_of_entries_that_exist_and_a_note_says_those_of_deleted_ones(deleted):
    server = Restartable()
    ids = []
    for number in range(3):
        reply = server.send("XADD", "s", "IDMP", "p", f"iid{number}", "*", "f", "v")
        ids.append(reply.split(b"\r\n")[1])
    gone = [number for number in range(3) if deleted >> number & 1]
    for number in gone:
        server.send("XDEL", "s", ids[number])
    server.rewrite()
    text = base_of(server)
    for number in range(3):
        # Redis refuses XIDMPRECORD for an entry that is not there, and with it the whole file.
        command = b"XIDMPRECORD\r\n$1\r\ns\r\n$1\r\np\r\n$4\r\niid%d\r\n" % number
        assert (command in text) == (number not in gone)
    assert text.count(b"XIDMPIID") == len(gone)
    assert dump(server.restart().engine) == dump(server.engine)
