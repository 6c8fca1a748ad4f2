"""DUMP and MIGRATE's payload of a stream whose entries are in segment files."""

import pytest

from streamd.rdb import payload, streams
from streamd.rdb.payload import payload_of
from tests.cold.cold_server import ColdHost, ColdSession, evict, list_of, make_cold
from tests.session import Session, decode

ENTRIES = 6_000


def test_a_dump_in_slices_waits_for_its_blocks_and_is_as_of_its_decision():
    host = ColdHost()
    host.cool(b"s", ENTRIES)
    expected = payload_of(host.engine.state.keyspace[0].values[b"s"])
    evict(host.engine)
    reader, other = host.open(), host.open()

    host.receive(reader, [[b"DUMP", b"s"], [b"PING"]])
    host.settle(1)
    host.receive(other, [[b"DEL", b"s"]])
    while host.settle(1):
        evict(host.engine)

    payload, at = decode(data := host.written(reader))
    assert payload == expected
    assert data[at:] == b"+PONG\r\n"
    assert 1 < host.reader.count < 20
    assert host.engine.state.stats.internal_errors == 0


def test_the_payload_of_cold_entries_is_that_of_entries_in_memory():
    cold, plain = ColdSession(), Session()
    plain.send(*[["XADD", "s", f"{number}-0", "f", number] for number in range(1, 501)])
    cold.send(*[["XADD", "s", f"{number}-0", "f", number] for number in range(1, 501)])
    make_cold(cold.engine, b"s")
    evict(cold.engine)
    cold.replies()

    cold.send(["DUMP", "s"])
    assert cold.replies() == []  # it waits
    cold.read()

    assert cold.replies() == [payload_of(plain.state.keyspace[0].values[b"s"])]


@pytest.mark.interpreted(reason="another limit")
def test_no_payload_is_made_of_more_than_a_bulk_string_holds(monkeypatch):
    monkeypatch.setattr(streams, "PAYLOAD_BYTES_MAX", 300_000)
    cold = ColdSession()
    cold.cool(b"s", ENTRIES)

    cold.send(["DUMP", "s"])
    cold.read()

    [error] = cold.replies()
    assert "512 MB" in error.text


@pytest.mark.interpreted(reason="another limit")
@pytest.mark.parametrize("entries", [900, ENTRIES])
def test_no_block_is_read_of_a_stream_that_is_surely_too_large(monkeypatch, entries):
    monkeypatch.setattr(payload, "PAYLOAD_BYTES_MAX", 20_000)
    cold = ColdSession()
    cold.cool(b"s", entries)

    cold.send(["DUMP", "s"])

    [error] = cold.replies()
    assert "512 MB" in error.text
    assert cold.reader.count == 0


@pytest.mark.parametrize("entries", [900, ENTRIES])
def test_a_damaged_block_is_the_reply_to_a_dump(entries):
    cold = ColdSession()
    file = cold.cool(b"s", entries)
    cold.store.files._files.names[file.path].data[200] ^= 1

    cold.send(["DUMP", "s"], ["PING"])
    cold.read()

    error, pong = cold.replies()
    assert f"{file.path} is damaged at offset " in error.text
    assert pong == "PONG"


def test_a_copy_of_a_cold_stream_reads_no_block_and_outlives_it():
    cold = ColdSession()
    cold.cool(b"s")
    cold.send(["COPY", "s", "t"], ["XDEL", "t", "990-0"], ["DEL", "s"], ["XLEN", "t"])
    assert cold.replies() == [1, 1, 1, 999]
    assert cold.reader.count == 0
    cold.send(["XRANGE", "t", "-", "+", "COUNT", "1"], ["RENAME", "t", "u"], ["DUMP", "u"])
    cold.read()
    first, renamed, made = cold.replies()
    assert (len(first), renamed) == (1, "OK")
    cold.send(["RESTORE", "again", "0", made], ["XLEN", "again"])
    assert cold.replies() == ["OK", 999]
    assert isinstance(list_of(cold.engine, b"again").rows.stretches, list)
    assert not list_of(cold.engine, b"again").rows.stretches  # ordinary entries, in memory
