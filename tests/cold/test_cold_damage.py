"""Segment files that are damaged: a start refuses them, or reads name file and offset; other streams are served."""

import pytest

from streamd.base.errors import CommandError
from streamd.journal.recovery import DamagedError
from tests.cold.cold_restartable import PLACE, ColdRestartable
from tests.crash.simulated_disk import Inode, SimulatedDisk

NAME = PLACE + "appendonly.aof.1.seg"


@pytest.fixture(scope="module")
def server() -> ColdRestartable:
    server = ColdRestartable()
    server.cool(entries=60)
    server.fill(b"other", 5)
    server.rewrite()
    return server


def found(server: ColdRestartable, disk: SimulatedDisk) -> str:
    """Return what a start says, or what reading all says; "" if all is as it was."""
    before = server.seen()
    try:
        again = server.restart(disk)
    except DamagedError as error:
        return str(error)
    assert again.send("XLEN", "s") == b":60\r\n"
    assert again.send("XRANGE", "other", "-", "+") == server.send("XRANGE", "other", "-", "+")
    try:
        assert again.seen() == before
    except CommandError as error:
        return str(error)
    return ""


def test_a_flipped_byte_is_never_served(server):
    size = len(server.disk.names[NAME].data)
    faults = []
    for at in range(0, size, 11):
        disk = server.disk.kill()
        disk.names[NAME].data[at] ^= 0x10
        faults.append(found(server, disk))
    named = [fault for fault in faults if f"{NAME} is damaged at offset " in fault]
    assert len(named) + faults.count("") == len(faults)
    assert faults.count("") < 5  # bytes between two blocks


def test_a_file_that_was_cut_is_refused(server):
    size = len(server.disk.names[NAME].data)
    for length in (*range(0, size, 53), size - 1):
        disk = server.disk.kill()
        del disk.names[NAME].data[length:]
        assert f"{NAME} is damaged at offset " in found(server, disk)


def test_a_name_without_bytes_is_an_orphan(server):
    disk = server.disk.kill()
    disk.names[PLACE + "appendonly.aof.2.seg"] = Inode()
    again = server.restart(disk)
    assert again.segments() == [NAME]
    again.cool(b"t", 60, 1000)
    assert again.segments() == [NAME, PLACE + "appendonly.aof.3.seg"]
