"""A journal with a byte that is not what was written: refused, or cut where it may be, and never another state."""

import pytest

from streamd.journal.journal import Journal
from streamd.journal.recovery import DamagedError, Loading, read_parts
from tests.crash.histories import SINGLE, play
from tests.crash.restartable import INCREMENT, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump


def grown(policy: str, rewritten: bool = False) -> tuple[Restartable, list]:
    """Return a server with a journal of about 4 KB, and the states that it went through."""
    server = Restartable(appendfsync=policy)
    states = [dump(server.engine)]
    for line in SINGLE:
        play(server, [line])
        states.append(dump(server.engine))
    if rewritten:
        server.rewrite()
    number = 0
    while sum(len(inode.data) for path, inode in server.disk.names.items() if path.endswith(".aof")) < 4_000:
        number += 1
        play(server, [f"XADD s IDMP p i{number} * number {number}"])
        states.append(dump(server.engine))
    return server, states


def flipped(disk: SimulatedDisk, path: str, place: int, mask: int) -> SimulatedDisk:
    after = disk.kill()
    after.names[path].data[place] ^= mask
    return after


def read(disk: SimulatedDisk) -> Loading:
    """Read a journal without applying it. Raises: DamagedError."""
    journal = Journal(disk, "data")
    journal.open()
    loading = Loading()
    for _ in read_parts(disk, journal.directory, journal.manifest, loading, lambda path, advice: None):
        pass
    return loading


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_what_was_synced_is_refused_when_a_byte_of_it_is_flipped(mask):
    server, states = grown("always")
    server.cron()  # nothing more comes: the journal notes how far it is synced
    size = len(server.disk.names[INCREMENT].data)
    note = server.disk.names[INCREMENT].data.rindex(b"#streamd synced")
    for place in range(size):
        disk = flipped(server.disk, INCREMENT, place, mask)
        if place < note:
            with pytest.raises(DamagedError) as refusal:
                read(disk)
            # In a run of several units those that match their digests are whole, whatever its header says.
            assert refusal.value.offset <= server.disk.names[INCREMENT].data.find(b"\n#", place) + 1
            assert refusal.value.path == INCREMENT
        else:  # the note itself is not synced, nor need it be
            after = Restartable(disk)
            assert after.persistence.cut is not None
            assert after.persistence.cut.offset <= place
            assert dump(after.engine) == states[-1]


def test_what_was_not_synced_is_cut_at_a_flipped_byte_and_never_read_as_something_else():
    started = len(Restartable(appendfsync="no").disk.names[INCREMENT].data)  # so much is synced at the start
    server, states = grown("no")
    for place in range(started, len(server.disk.names[INCREMENT].data)):
        after = Restartable(flipped(server.disk, INCREMENT, place, 0x10), appendfsync="no")
        assert after.persistence.cut is not None, place
        assert after.persistence.cut.offset <= place
        assert dump(after.engine) in states, place


@pytest.mark.parametrize("mask", [0x04])
def test_a_base_is_refused_when_a_byte_of_it_is_flipped_or_missing(mask):
    server, _ = grown("always", rewritten=True)
    base = next(path for path in server.disk.names if path.endswith(".base.aof"))
    for place in range(len(server.disk.names[base].data)):
        with pytest.raises(DamagedError, match=r"\.base\.aof is damaged at offset"):
            read(flipped(server.disk, base, place, mask))
        cut = server.disk.kill()
        del cut.names[base].data[place:]
        with pytest.raises(DamagedError, match=r"\.base\.aof is damaged at offset"):
            read(cut)
