"""A backup is a state that was, whatever is written, rewritten or broken while it is copied."""

import pytest

from streamd.durability.backups import BACKUPS_MAX, IDLE_MS_MAX
from tests.crash.restartable import DIRECTORY, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump
from tests.session import Error, decode


def ask(server, *words, client=None):
    reply = server.send(*(str(word) for word in words), client=client)
    return None if reply is None else decode(reply)[0]


def begin(server, client=None):
    assert ask(server, "JOURNAL", "BEGIN", 0, client=client) is None
    client = client or server.client
    before = len(server.replies[client])
    server.cron()
    (reply,) = server.replies[client][before:]
    return decode(reply)[0]


def restored(files: list[tuple[bytes, bytes]]) -> Restartable:
    """Return a server that has loaded the bytes of a base and an increment."""
    disk = SimulatedDisk()
    disk.make_directory(f"{DIRECTORY}/appendonlydir")
    lines = []
    for number, (name, data) in enumerate(files, 1):
        kind = "b" if b".base." in name else "i"
        lines.append(b"file %b seq %d type %b\n" % (name, number, kind.encode()))
        disk.open(f"{DIRECTORY}/appendonlydir/{name.decode()}", create=True).write_at(0, data)
    manifest = disk.open(f"{DIRECTORY}/appendonlydir/appendonly.aof.manifest", create=True)
    manifest.write_at(0, b"".join(lines))
    return Restartable(disk)


def write(server, number):
    server.send("XADD", "s", "IDMP", "p", str(number), "*", "n", str(number))
    server.send("SET", "last", str(number))
    server.clock.advance(1)


EVENTS = ["write", "rewrite", "mark", "read", "swap"]


@pytest.mark.parametrize("policy", ["always", "everysec"])
@pytest.mark.parametrize("first", EVENTS)
@pytest.mark.parametrize("second", EVENTS)
@pytest.mark.parametrize("third", EVENTS)
def test_the_copy_is_the_state_at_its_mark(policy, first, second, third):
    server = Restartable(appendfsync=policy)
    reader = server.connect()
    for number in range(3):
        write(server, number)
    files = begin(server, reader)
    assert [name.split(b".")[-2] for name, _ in files] == [b"base", b"incr"]
    base = ask(server, "JOURNAL", "READ", 0, 0, files[0][1], client=reader)
    ended = None
    for number, event in enumerate((first, second, third), 10):
        if event == "rewrite" and ended is None:
            ended = dump(server.engine)  # the files that are copied end here, and are as good a state
        match event:
            case "write":
                write(server, number)
            case "rewrite":
                server.rewrite()
            case "swap":
                server.send("SWAPDB", "0", "1")
            case "mark":
                ask(server, "JOURNAL", "MARK", client=reader)
            case "read":
                ask(server, "JOURNAL", "READ", 1, 0, 100, client=reader)
    wanted = ended or dump(server.engine)
    sizes = ask(server, "JOURNAL", "MARK", client=reader)
    write(server, 99)
    increment = b"".join(
        ask(server, "JOURNAL", "READ", 1, offset, min(64, sizes[1] - offset), client=reader)
        for offset in range(0, sizes[1], 64)
    )
    copy = restored([(files[0][0], base), (files[1][0], increment)])
    assert dump(copy.engine) == wanted
    assert ask(server, "JOURNAL", "END", client=reader) == 1
    assert ask(server, "JOURNAL", "END", client=reader) == 0


def test_a_begin_that_takes_too_long_is_null_and_goes_on_when_asked_again():
    server = Restartable(at_once=False)
    assert ask(server, "JOURNAL", "BEGIN", 1000) is None
    server.clock.advance(1000)
    server.engine.tick()
    server.engine.tick()
    while server.jobs:
        server.jobs[0].wait()
    assert server.replies[server.client][-1:] in ([b"$-1\r\n"], [b"*-1\r\n"])
    server.at_once = True
    server.cron()
    assert len(ask(server, "JOURNAL", "BEGIN", 1000)) == 2


def test_the_files_are_readable_though_a_rewrite_has_replaced_them_until_the_end():
    server = Restartable()
    reader = server.connect()
    write(server, 1)
    files = begin(server, reader)
    first = ask(server, "JOURNAL", "READ", 0, 0, 1000, client=reader)
    server.rewrite()
    assert not server.disk.exists(f"{DIRECTORY}/appendonlydir/{files[0][0].decode()}")
    assert ask(server, "JOURNAL", "READ", 0, 0, 1000, client=reader) == first


def test_who_closes_the_connection_or_asks_for_nothing_lets_go_of_the_files():
    server = Restartable()
    readers = [server.connect() for _ in range(BACKUPS_MAX)]
    for reader in readers:
        begin(server, reader)
    full = Error(f"ERR {BACKUPS_MAX} backups are under way; try again when one has ended")
    assert ask(server, "JOURNAL", "BEGIN", 0) == full
    server.engine.disconnect(readers[0])
    server.cron()
    assert len(begin(server)) == 2
    server.clock.advance(IDLE_MS_MAX + 1)
    server.cron()
    assert ask(server, "JOURNAL", "MARK", client=readers[1]).text.startswith("ERR this connection has no backup")


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("JOURNAL READ 0 0 1", "ERR this connection has no backup; begin one with JOURNAL BEGIN"),
        ("JOURNAL MARK", "ERR this connection has no backup; begin one with JOURNAL BEGIN"),
        ("JOURNAL BEGIN x", "ERR timeout is not an integer or out of range"),
        ("JOURNAL BEGIN -1", "ERR timeout is negative"),
    ],
)
def test_requests_without_a_backup_are_errors(request_, reply):
    assert ask(Restartable(), *request_.split()) == Error(reply)


@pytest.mark.parametrize("words", ["2 0 1", "-1 0 1", "0 -1 1", "0 0 0", "0 0 262145"])
def test_what_is_no_part_of_a_file_is_out_of_range(words):
    server = Restartable()
    begin(server)
    assert ask(server, "JOURNAL", "READ", *words.split()) == Error("ERR value is out of range")
    assert ask(server, "JOURNAL", "BEGIN", 0).text.startswith("ERR this connection has a backup already")


def test_without_a_journal_there_is_nothing_to_copy_and_its_end_ends_a_backup(engine):
    nothing = "ERR there is no journal to copy: CONFIG SET appendonly yes begins one"
    assert engine.do("JOURNAL BEGIN 0") == Error(nothing)
    server = Restartable()
    begin(server)
    server.turn_off()
    server.turn_on()
    server.cron()
    assert ask(server, "JOURNAL", "MARK").text.startswith("ERR this connection has no backup")


def test_a_rewrite_that_fails_fails_the_backup(monkeypatch):
    server = Restartable(appendfsync="everysec")

    def full(path, create=False):
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(server.disk, "open", full)
    assert ask(server, "JOURNAL", "BEGIN", 0).text.startswith("ERR Can't execute an AOF background rewriting: No space")
    assert ask(server, "PING") == "PONG"
