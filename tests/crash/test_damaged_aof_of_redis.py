"""An AOF that Redis wrote: only an end of file inside a command is torn, and all else is damage, as for Redis.

(Redis does not look at the two bytes behind a word, nor at what stands behind the digits of a number; streamd does.)
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
import redis

from streamd.base.filesystem import READ_BYTES
from streamd.durability import check, fixing
from streamd.journal.file_reader import FileReader
from streamd.journal.parsing import Parsed
from streamd.journal.record import encode_command
from streamd.journal.recovery import DamagedError
from tests.crash.restartable import DIRECTORY, INCREMENT, Restartable
from tests.differential.redis_process import judge, needs_redis
from tests.unit.durability.test_unloadable_journal import disk_of, trial

JOURNAL = f"{DIRECTORY}/appendonlydir"
ENTRIES = 40
COMMANDS = [encode_command([b"XADD", b"s", b"%d-1" % number, b"f", b"value"]) for number in range(1, ENTRIES + 1)]
WHOLE = encode_command([b"SELECT", b"0"]) + b"".join(COMMANDS)
AT = WHOLE.index(COMMANDS[20])
COMMAND = COMMANDS[20]
MULTI = encode_command([b"MULTI"])


def changed(old: bytes, new: bytes) -> bytes:
    """Return the file with a change in its 21st command."""
    assert old in COMMAND
    return WHOLE[:AT] + COMMAND.replace(old, new, 1) + WHOLE[AT + len(COMMAND) :]


# The file, and how many entries are served; None: the start is refused.
CASES: dict[str, tuple[bytes, int | None]] = {
    "whole": (WHOLE, ENTRIES),
    "a command is missing": (WHOLE[:AT] + WHOLE[AT + len(COMMAND) :], ENTRIES - 1),
    "torn": (WHOLE[: AT + 20], 20),
    "torn in its first byte": (WHOLE + b"*", ENTRIES),
    "torn within MULTI": (WHOLE[:AT] + MULTI + WHOLE[AT:], 20),
    "bytes are missing": (WHOLE[: AT + 7] + WHOLE[AT + 180 :], None),
    "the first bytes are missing": (WHOLE[9:], None),
    "two bytes are missing": (WHOLE[:AT] + WHOLE[AT + 2 :], None),
    "line ends were converted": (WHOLE.replace(b"\r\n", b"\n"), None),
    "zeroes": (WHOLE[:AT] + bytes(100) + WHOLE[AT + 100 :], None),
    "zeroes behind it": (WHOLE + bytes(100), None),
    "a byte behind it": (WHOLE + b"x", None),
    "a line end behind it": (WHOLE + b"\r\n", None),
    "a text instead of a number": (WHOLE + b"*x", None),
    "a longer word": (changed(b"$5\r\n", b"$6\r\n"), None),
    "a shorter word": (changed(b"$5\r\n", b"$4\r\n"), None),
    "a length of no number": (changed(b"$5\r\n", b"$x\r\n"), None),
    "a length below 0": (changed(b"$5\r\n", b"$-1\r\n"), None),
    "a length that no memory has": (changed(b"$5\r\n", b"$9000000000000\r\n"), None),
    "a length of too many digits": (changed(b"$5\r\n", b"$" + b"1" * 25 + b"\r\n"), None),
    "a length beyond the end of the file": (changed(b"$5\r\n", b"$9000\r\n"), 20),
    "a length far beyond the end of the file": (changed(b"$5\r\n", b"$90000000\r\n"), 20),
    "more words": (changed(b"*5\r\n", b"*6\r\n"), None),
    "many more words": (changed(b"*5\r\n", b"*5000000000\r\n"), None),
    "no words": (changed(b"*5\r\n", b"*0\r\n"), None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_start_serves_or_refuses_what_redis_serves_or_refuses(name: str):
    data, entries = CASES[name]
    disk = disk_of(data)
    report = check.examine(disk, JOURNAL, loader=trial())
    if entries is None:
        assert not report.would_start
        with pytest.raises(DamagedError):
            Restartable(disk)
        assert bytes(disk.names[INCREMENT].data) == data
        return
    assert report.would_start
    server = Restartable(disk)
    assert server.send("XLEN", "s") == b":%d\r\n" % entries
    cut = server.persistence.cut
    assert (cut is None) == report.is_whole
    if cut is not None:
        assert cut.kept is not None
        assert bytes(disk.names[cut.kept].data) == data[cut.offset :]
        last = report.lines()[-1]
        assert f" with the {report.files[0].commands} commands before that" in last
        assert f", and keeps these {len(data) - cut.offset} bytes in {INCREMENT}.cut-TIME" in last


def test_check_says_what_is_still_legible_in_what_a_start_would_cut():
    disk = disk_of(CASES["a length beyond the end of the file"][0])
    (line,) = [line for line in check.examine(disk, JOURNAL).lines() if line.startswith("From the fault on")]
    assert f"still legible in these: {ENTRIES - 21} records, {ENTRIES - 21} of them entries" in line


@pytest.mark.parametrize(("name", "asks"), [("torn", False), ("a length beyond the end of the file", True)])
def test_fix_asks_before_it_cuts_more_than_a_torn_command(name: str, asks: bool):
    asked = []
    place = fixing.Place(disk_of(CASES[name][0]), DIRECTORY, JOURNAL, loaders=trial)
    report = fixing.fix(place, lambda known, question: asked.append(question) is None)
    assert (len(asked), report.is_mended) == (asks, True)


@needs_redis
@pytest.mark.parametrize("name", CASES)
def test_redis_serves_or_refuses_the_same(name: str, tmp_path: Path):
    data, entries = CASES[name]
    directory = tmp_path / "appendonlydir"
    directory.mkdir()
    (directory / "appendonly.aof.1.incr.aof").write_bytes(data)
    (directory / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
    words = [str(judge()), "--port", "0", "--unixsocket", str(tmp_path / "socket"), "--dir", str(tmp_path)]
    with subprocess.Popen([*words, "--appendonly", "yes", "--save", ""], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        is_ready = any("Ready to accept" in line for line in process.stdout)
        try:
            assert is_ready == (entries is not None)
            if is_ready:
                assert redis.Redis(unix_socket_path=str(tmp_path / "socket")).xlen("s") == entries
        finally:
            process.terminate()


PARTS: dict[str, Callable[[bytes], bytes]] = {
    "its beginning is missing": lambda data: data[data.index(b"#streamd", 1) :],
    "its first line is missing": lambda data: data[data.index(b"\n") + 1 :],
    "a byte of its first line is damaged": lambda data: data[:20] + b"x" + data[21:],
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_streamds_behind_that_of_redis_is_damaged_where_it_does_not_begin_as_it_should(name: str):
    server = Restartable(disk_of(WHOLE), appendfsync="no")
    for number in range(3):
        server.send("SET", f"k{number}", "v")
    disk = server.disk.kill()
    data = bytes(disk.names[INCREMENT].data)
    assert data.startswith(WHOLE)
    disk.names[INCREMENT].data = bytearray(WHOLE + PARTS[name](data[len(WHOLE) :]))
    with pytest.raises(DamagedError):
        Restartable(disk, appendfsync="no")


EXEC = encode_command([b"EXEC"])
FAULTS: dict[str, tuple[bytes, bytes]] = {
    "the end of a transaction is missing": (EXEC, b""),
    "a length is beyond the end of the file": (b"$5\r\nvalue", b"$90000000\r\nvalue"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_looks_torn_is_damaged_where_a_part_of_streamds_stands_behind_it(name: str):
    server = Restartable(disk_of(WHOLE + MULTI + encode_command([b"SET", b"in", b"it"]) + EXEC), appendfsync="always")
    server.send("SET", "acknowledged", "v")
    disk = server.disk.kill()
    data = bytes(disk.names[INCREMENT].data)
    disk.names[INCREMENT].data = bytearray(data.replace(*FAULTS[name], 1))
    with pytest.raises(DamagedError):
        Restartable(disk, appendfsync="always")
    assert not check.examine(disk, JOURNAL, loader=trial()).would_start


def test_a_length_beyond_the_end_of_the_file_is_known_without_reading_the_rest():
    begin = CASES["a length far beyond the end of the file"][0][: AT + 100]
    disk = disk_of(begin + bytes(8 * READ_BYTES))
    reader = FileReader(file := disk.open(INCREMENT))
    with patch.object(file, "read_at", wraps=file.read_at) as reads:
        assert sum(len(piece.commands) for piece in reader.pieces() if isinstance(piece, Parsed)) == 21
    assert reader.trouble is not None
    assert (reader.trouble.offset, reader.trouble.torn) == (AT, True)
    assert sum(length for _, length in [call.args for call in reads.call_args_list]) <= 2 * READ_BYTES
