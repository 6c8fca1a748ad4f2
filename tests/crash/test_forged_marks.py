"""Whoever writes values cannot make a start refuse a torn end: what looks like a line of the journal counts for nothing
in a value, and what was synced is refused all the same.
"""

from contextlib import suppress

import pytest

from streamd.journal.file_reader import FileReader
from streamd.journal.formats import Beginning
from streamd.journal.record import encode_first_line, encode_run, encode_synced
from streamd.journal.recovery import DamagedError
from tests.crash.restartable import INCREMENT, Restartable
from tests.crash.sample_journal import JOURNAL
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump
from tests.crash.test_older_journals import SAMPLES, disk_of

FORGED_SALT = 0x0123456789ABCDEF


def forgeries(size: int) -> list[bytes]:
    """Return values that say that all of a file is on the disk, as far as whoever writes values can know how."""
    found = []
    for length in (size, size + 10, size + 60, size + 100, size + 200, 2**63):
        for salt in (0, FORGED_SALT):
            found.append(b"\n" + encode_synced(length, salt))
            found.append(b"\n" + encode_first_line(salt) + encode_synced(length, salt))
            found.append(b"\n" + encode_run([b"*1\r\n$4\r\nPING\r\n"], length, False, salt, length))
            found.append(b"\n" + Beginning(salt, False).run(b"*1\r\n$4\r\nPING\r\n", length, False, 0))
    return found


WITHOUT_SALT = [sample for sample in SAMPLES if int(sample.parent.name) < 2]


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_start_cuts_an_end_that_is_torn_within_a_value_of_forged_lines(policy):
    server = Restartable(appendfsync=policy)
    server.send("SET", "k", "before")
    size = len(server.disk.names[INCREMENT].data)
    for value in [*forgeries(size), b"".join(forgeries(size))]:
        torn = server.restart()
        torn.send("SET", "k", value * 2)
        disk = torn.disk.kill()
        del disk.names[INCREMENT].data[-4:]
        again = Restartable(disk, appendfsync=policy)
        assert again.send("GET", "k") == b"$6\r\nbefore\r\n"


def test_a_start_cuts_an_end_that_a_power_loss_garbled_though_values_say_that_it_was_synced():
    server = Restartable(appendfsync="no")
    server.send("SET", "k", "before")
    for number in range(len(forgeries(0))):
        garbled = server.restart()
        size = len(garbled.disk.names[INCREMENT].data)  # all that is synced
        value = forgeries(size)[number]
        garbled.run([b"SET", b"k", b"garbled"], [b"SET", b"j", value])
        garbled.end_turn()
        for place in (size + 12, size + 130):  # the header, the body
            disk = garbled.disk.kill()
            disk.names[INCREMENT].data[place] ^= 1
            again = Restartable(disk, appendfsync="no")
            assert again.send("GET", "k") in (b"$6\r\nbefore\r\n", b"$7\r\ngarbled\r\n")
            assert again.send("GET", "j") == b"$-1\r\n"


def test_two_files_have_two_salts_and_one_says_nothing_of_the_other():
    server = Restartable()
    server.send("SET", "k", "before")
    mark = encode_synced(60, server.persistence.journal.writer.salt)
    disk = SimulatedDisk()
    disk.next_salt = FORGED_SALT
    other = Restartable(disk)
    other.send("SET", "k", "before")
    assert other.persistence.journal.writer.salt != server.persistence.journal.writer.salt
    size = len(other.disk.names[INCREMENT].data)
    other.send("SET", "k", b"\n" + mark.replace(b"60", b"%d" % (size + 9)) * 2)
    del other.disk.names[INCREMENT].data[-4:]
    assert other.restart().send("GET", "k") == b"$6\r\nbefore\r\n"


@pytest.mark.parametrize("sample", WITHOUT_SALT, ids=lambda sample: f"{sample.parent.name}-{sample.name}")
def test_a_file_without_a_salt_gets_one_from_where_it_is_written_on(sample):
    disk = disk_of(sample)
    path = max(path for path in disk.names if path.startswith(JOURNAL) and path.endswith(".incr.aof"))
    old_bytes = len(disk.names[path].data)
    server = Restartable(disk)
    server.send("SET", "k", "before")
    server.cron()
    data = disk.names[path].data
    assert data[old_bytes:].startswith(b"#streamd journal 3 ")

    torn = server.restart()
    torn.send("SET", "k", b"".join(forgeries(len(data))))
    del torn.disk.names[path].data[-4:]
    assert torn.restart().send("GET", "k") == b"$6\r\nbefore\r\n"

    # What was synced is refused when it is damaged, in the older part and in the new one, their lines included.
    end = data.rindex(b"#streamd synced")
    for place in {0, 5, 17, 18, *range(30, old_bytes, 97), *range(old_bytes, end)}:
        damaged = server.disk.kill()
        damaged.names[path].data[place] ^= 1
        with suppress(DamagedError):
            assert dump(Restartable(damaged).engine) == dump(server.engine)  # it was the digest of a whole unit


def test_a_reader_says_the_salt_of_a_file():
    server = Restartable()
    reader = FileReader(server.disk.open(INCREMENT))
    assert [*reader.pieces()] != []
    assert reader.salt == server.persistence.journal.writer.salt != 0
