"""A start on any file is refused with a reason or brings back a prefix of what was written, and raises nothing else.

Input: a byte that chooses; even: the rest is the last increment. Odd: the rest is changes of a journal that a server
has written: three bytes of place and kind, then the bytes that go there.
"""

from functools import cache

from streamd.journal.loader import LoadError
from streamd.journal.recovery import DamagedError
from tests.crash.histories import SINGLE, play
from tests.crash.restartable import INCREMENT, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

WORDS = [b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n", b"*1\r\n", b"*0\r\n", b"$-1\r\n", b"#TS:1\r\n", b"\n",
         b"#streamd ", b"run ", b"mix ", b"note ", b"more ", b"synced ", b"end ", b"XADD", b"XCLAIM", b"XGROUP",
         b"IDMP", b"SELECT", b"MULTI", b"EXEC", b"DEL", b"RPUSH", b"XSETID", b"ZADD", b"HSET", b"RETRYCOUNT",
         b"99999999999999999999"]  # fmt: skip
BYTES_MAX = 4096


@cache
def written() -> tuple[bytes, SimulatedDisk, list]:
    """Return the increment of a server that did something of everything, its disk, and all states it went through."""
    server = Restartable(appendfsync="no")
    states = [dump(server.engine)]
    for line in SINGLE:
        play(server, [line])
        states.append(dump(server.engine))
    return bytes(server.disk.names[INCREMENT].data), server.disk, states


def changed(data: bytes, edits: bytes) -> bytes:
    """Return the data with at most four changes: overwritten, inserted, zeroes, cut; or bytes taken out, where the
    number of zeroes is odd.
    """
    for at in range(0, min(len(edits), 24), 6):
        edit = edits[at : at + 6]
        if len(edit) < 4:
            break
        place = int.from_bytes(edit[:2], "big") % (len(data) + 1)
        new = edit[3:]
        kind = edit[2] % 4
        if kind == 0:
            data = data[:place] + new + data[place + len(new) :]
        elif kind == 1:
            data = data[:place] + new + data[place:]
        elif kind == 2 and edit[3] % 2:
            data = data[:place] + data[place + 1 + int.from_bytes(edit[3:5], "big") // 2 :]
        elif kind == 2:
            data = data[:place] + bytes(min(1 + edit[3], len(data) - place)) + data[place + 1 + edit[3] :]
        else:
            data = data[:place]
    return data


def start(disk: SimulatedDisk) -> dict | None:
    """Return the state after a start, None if it is refused. Raises: what no start may raise."""
    try:
        server = Restartable(disk, appendfsync="no")
    except (DamagedError, LoadError):
        return None
    return dump(server.engine)


def check(data: bytes) -> None:
    """Raise AssertionError unless the start ends as it may."""
    if not 1 <= len(data) <= BYTES_MAX:
        return
    whole, disk, states = written()
    disk = disk.kill()
    if data[0] % 2:
        disk.names[INCREMENT].data = bytearray(changed(whole, data[1:]))
        found = start(disk)
        assert found is None or found in states, "a state that never was"
    else:
        disk.names[INCREMENT].data = bytearray(data[1:])
        found = start(disk)
        if found is not None:
            # Whatever it says, once it is taken it stays the same.
            assert start(disk.kill()) == found
