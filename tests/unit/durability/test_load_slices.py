"""A load gives others a turn often enough, of whatever a journal consists: its work is counted, not timed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from unittest.mock import patch

import pytest

from streamd.connected.state import State
from streamd.durability.incoming import Incoming
from streamd.durability.replay import Replay
from streamd.engine.engine import Engine
from streamd.journal.file_reader import READ_BYTES
from streamd.journal.loader import Loader
from streamd.journal.record import encode_command
from streamd.journal.recovery import Loading, read_manifest, read_parts
from streamd.journal.words import bare_commands, bare_parts
from streamd.replication.taking_over import TakingOver
from streamd.resp.template import Column
from tests.crash.restartable import DIRECTORY, INCREMENT, Restartable
from tests.crash.simulated_disk import SimulatedDisk, SimulatedFile

JOURNAL = f"{DIRECTORY}/appendonlydir"
COUNT = 4_000
# Between two turns of others: commands, entries that are taken by columns, bytes read.
COMMANDS_MAX, ENTRIES_MAX, BYTES_MAX = 300, 6_000, 2 * READ_BYTES

Requests = list[list[bytes]]


def words(text: str) -> list[bytes]:
    return text.encode().split()


def each(*texts: str, count: int = COUNT) -> list[Requests]:
    """Return turns with one unit each: `#` stands for a number that counts up."""
    return [[words(text.replace("#", str(number))) for text in texts] for number in range(1, count + 1)]


def together(turns: list[Requests], at_once: int) -> list[Requests]:
    """Return turns with more of these in each."""
    parts = [turns[at : at + at_once] for at in range(0, len(turns), at_once)]
    return [[request for turn in part for request in turn] for part in parts]


def transaction(requests: Requests) -> Requests:
    return [[b"MULTI"], *requests, [b"EXEC"]]


SETS, STREAMS = each("SET k# v"), each("XADD s# 1-1 f v")
IDEMPOTENT = "XADD s IDMP p# i# * f v"
OF_ALL = [request for turn in SETS for request in turn]

# The turns of a server; whether it rewrites its journal then.
WRITTEN: dict[str, tuple[list[Requests], bool]] = {
    "SETs in runs of one": (SETS, False),
    "SETs in runs of seven": (together(SETS, 7), False),
    "SETs in runs of a hundred": (together(SETS, 100), False),
    "streams in runs of one": (STREAMS, False),
    "entries of one stream in runs of one": (each("XADD s #-1 f v"), False),
    "idempotent entries in runs of one": (each(IDEMPOTENT), False),
    "duplicates, of which notes tell": ([each(IDEMPOTENT)[0], *each("XADD s IDMP p1 i1 * f v")], False),
    "transactions": ([transaction(turn) for turn in each("SET k# v", "INCR n", "XADD s #-1 f v")], False),
    "one transaction": ([transaction(OF_ALL)], False),
    "one transaction with notes": ([transaction([*each(IDEMPOTENT)[0], *OF_ALL, *each(IDEMPOTENT)[0]])], False),
    "a base of streams": (together(STREAMS, 100), True),
    "a base of streams with windows": (together(each("XADD s# IDMP p i * f v"), 100), True),
    "a base of hashes": (together(each("HSET h# f v"), 100), True),
    "values of 100 KB": ([[[b"SET", b"k%d" % number, b"v" * 100_000]] for number in range(100)], False),
    "values that are copied": ([*together(each("RPUSH l v"), 100), *each("COPY l t REPLACE", count=200)], False),
}
FOREIGN: dict[str, Callable[[], Requests]] = {
    "commands of other software": lambda: OF_ALL,
    "a transaction of other software": lambda: transaction(OF_ALL),
    "transactions of other software": lambda: [
        request for at in range(0, COUNT, 3) for request in transaction(OF_ALL[at : at + 3])
    ],
}


def journal_of(turns: list[Requests], rewrites: bool) -> SimulatedDisk:
    server = Restartable(appendfsync="everysec")
    for requests in turns:
        server.run(*requests)
        server.end_turn()
    if rewrites:
        server.rewrite()
    server.persistence.close()
    return server.disk


def foreign_journal(requests: Requests) -> SimulatedDisk:
    disk = journal_of([], False)
    disk.names[INCREMENT].data[:] = b"".join(map(encode_command, requests))
    return disk


@pytest.fixture(params=[*WRITTEN, *FOREIGN, "comments of other software"])
def disk(request):
    shape = request.param
    if shape in WRITTEN:
        return journal_of(*WRITTEN[shape])
    if shape in FOREIGN:
        return foreign_journal(FOREIGN[shape]())
    disk = foreign_journal([])
    disk.names[INCREMENT].data[:] = b"#TS:1700000000\r\n" * COUNT
    return disk


class Work(NamedTuple):
    """The work between two turns of others: commands, entries that were taken by columns, bytes that were read."""

    commands: int
    entries: int
    bytes_read: int


class Counting:
    """The target of a load, and what it has taken since the last turn of others."""

    def __init__(self, state: State) -> None:
        self.replay = Replay(state)
        self.commands = self.entries = self.bytes_read = 0

    def apply(self, db_index: int, command: list[bytes]) -> str | None:
        self.commands += 1
        return self.replay.apply(db_index, command)

    def take_columns(self, db_index: int, places: Sequence[Column], count: int) -> bool:
        is_taken = self.replay.take_columns(db_index, places, count)
        self.entries += count * is_taken
        return is_taken

    def end(self) -> Work:
        work = Work(self.commands, self.entries, self.bytes_read)
        self.commands = self.entries = self.bytes_read = 0
        return work


def loaded(disk: SimulatedDisk) -> list[Work]:
    """Load a journal; return the work in front of each turn of others, and behind the last."""
    state = Engine().state
    counting, loading = Counting(state), Loading()
    loader = Loader(state.keyspace, counting)
    manifest = read_manifest(disk, JOURNAL, "appendonly.aof")
    assert manifest is not None
    found: list[Work] = []
    read_at = SimulatedFile.read_at

    def counted(file: SimulatedFile, offset: int, length: int) -> bytes:
        data = read_at(file, offset, length)
        counting.bytes_read += len(data)
        return data

    counting.replay.borrow()
    with patch.object(SimulatedFile, "read_at", counted):
        for piece in read_parts(disk, JOURNAL, manifest, loading, loader.begin_file):
            found += [counting.end() for _ in loader.take(piece)]
    counting.replay.finish()
    assert loading.cut is None
    return [*found, counting.end()]


def test_a_load_gives_others_a_turn_after_little_work_whatever_the_journal_consists_of(disk):
    found = loaded(disk)
    assert max(one.commands for one in found) <= COMMANDS_MAX
    assert max(one.entries for one in found) <= ENTRIES_MAX
    assert max(one.bytes_read for one in found) <= BYTES_MAX


@pytest.mark.parametrize("shape", ["a transaction of other software", "one transaction with notes"])
def test_others_get_turns_before_a_long_transaction_is_whole(shape):
    disk = foreign_journal(FOREIGN[shape]()) if shape in FOREIGN else journal_of(*WRITTEN[shape])
    found = loaded(disk)
    assert sum(one.commands for one in found) >= COUNT
    assert sum(not one.commands for one in found) >= COUNT // 600


def test_a_command_whose_time_is_up_to_values_that_are_there_ends_its_slice():
    found = loaded(journal_of(*WRITTEN["values that are copied"]))
    copies = found[-201:]
    assert [one.commands for one in copies[1:-1]] == [1] * 199


def test_comments_without_any_command_give_others_turns():
    disk = foreign_journal([])
    disk.names[INCREMENT].data[:] = b"#TS:1700000000\r\n" * COUNT
    assert len(loaded(disk)) >= COUNT // 256


def test_a_replica_that_takes_a_copy_gives_others_as_many_turns_as_a_start(disk):
    turns = len(loaded(disk))
    server = Restartable(appendfsync="everysec")
    incoming = received(server, disk)
    taking = TakingOver(server.engine.state, server.persistence.journal, incoming, server.persistence.cold)
    steps = 1
    while not taking.step(lambda: True):
        steps += 1
    assert steps == turns


def received(server: Restartable, disk: SimulatedDisk) -> Incoming:
    """Return the files of another server's journal, as they come from a primary."""
    manifest = read_manifest(disk, JOURNAL, "appendonly.aof")
    assert manifest is not None
    parts = manifest.parts()
    incoming = Incoming(server.persistence.journal, len(parts), 0, None)
    for part in parts:
        data = bytes(disk.names[f"{JOURNAL}/{part.name}"].data)
        incoming.begin_file(len(data))
        incoming.write(data)
    incoming.sync()
    return incoming


def test_the_parts_of_bytes_are_together_what_they_are_at_once():
    command = encode_command([b"SET", b"key", b"value"])
    for data in (b"", command, command * 20_000, command * 9_000 + b"#streamd", command * 9_000 + command[:-3]):
        parts = [*bare_parts(data)]
        commands, is_whole = bare_commands(data)
        assert [one for part, _ in parts for one in part] == commands
        assert all(one for _, one in parts[:-1])
        assert all(one for _, one in parts) == is_whole
        assert all(len(part) <= 4_096 for part, _ in parts)
        assert len(commands) == data.count(command)
