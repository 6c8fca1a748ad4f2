"""`XADD k IDMP p i * f v` in an append-only file, as Redis 8.10.2 records a duplicate: counted, and nothing added."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from streamd.durability import check
from streamd.journal.loader import LoadError
from streamd.journal.record import encode_command, encode_note, encode_select
from tests.crash.restartable import DIRECTORY, Restartable
from tests.integration.process import ServerProcess, run_cli
from tests.unit.durability.test_unloadable_journal import disk_of, resp, trial
from tests.written_journals import file_of

ENTRIES = ["XADD k IDMP p i 5-1 f v", "XADD k 5-2 f w"]
DUPLICATES = [
    "XADD k IDMP p i * f v",
    "XADD k IDMP p never-seen * f v",
    "XADD k IDMP never-seen i * f v w x",
    "XADD k IDMPAUTO p * f v",
    "xadd k idmp p i * f v",
    "xadd k Idmpauto p * f v",
    "XADD k NOMKSTREAM MAXLEN ~ 1 LIMIT 5 IDMP p i * f v",
    "XADD k IDMP p * * f v",
    "XADD k IDMP p 6-1 * f v",
]


def run(*units: bytes) -> bytes:
    return file_of(*(units[at : at + 100] for at in range(0, len(units), 100)))


def runs(*units: bytes) -> bytes:
    return file_of(*([unit] for unit in units))


def mix(*units: bytes) -> bytes:
    """Return a run with a note in it."""
    note = encode_note(0, (b"DEFAULTS", b"100", b"100"))
    return file_of([b"".join([note, *units])], notes=True)


def large(*units: bytes) -> bytes:
    return run(*units, encode_command([b"SET", b"large", bytes(300_000)]))


def foreign(*units: bytes) -> bytes:
    return encode_select(0) + b"#TS:1700000000\r\n" + b"".join(units)


def transaction(*units: bytes) -> bytes:
    return foreign(resp("MULTI"), *units, resp("EXEC"))


WAYS = [run, runs, mix, large, foreign, transaction]


def shown(server: Restartable) -> tuple[int, int, int]:
    """Return how many entries there are, how many iids were recorded, and how many duplicates were answered."""
    stream = server.engine.state.keyspace[0].values[b"k"]
    return len(stream), stream.idmp.iids_added, stream.idmp.iids_duplicates


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("line", DUPLICATES)
def test_faults2_4_6_a_star_behind_a_name_counts_a_duplicate_in_every_loading_path(write, line: str):
    for count in (1, 9, 300):  # alone, as a column, and more than one slice
        server = Restartable(disk_of(write(*map(resp, ENTRIES), *[resp(line)] * count, resp("XADD k 7-1 f v"))))
        assert shown(server) == (3, 1, count)
        assert shown(server.restart()) == (3, 1, count)
        server.rewrite()
        assert shown(server.restart()) == (3, 1, count)


@pytest.mark.parametrize("write", WAYS)
def test_faults2_4_6_between_runs_of_entries_too_and_by_a_reload(write):
    entries = [f"XADD k IDMP p i{number} 6-{number} f v" for number in range(1, 41)]
    lines = [line for entry in entries for line in (entry, "XADD k IDMP p i1 * f v")]
    server = Restartable(disk_of(write(*map(resp, [*ENTRIES, *entries, *lines[1::2]]))))
    assert shown(server) == (42, 41, 40)
    server = Restartable(disk_of(write(*map(resp, [*ENTRIES, *lines]))))
    assert shown(server) == (42, 41, 40)
    server.send("DEBUG", "LOADAOF")
    assert shown(server) == (42, 41, 40)
    report = check.examine(server.disk.kill(), f"{DIRECTORY}/appendonlydir", loader=trial())
    assert report.is_whole


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("count", [1, 20])
def test_faults2_4_6_a_star_without_a_name_is_refused_with_file_and_offset(write, count: int):
    data = write(*map(resp, ENTRIES), *[resp("XADD k * f v")] * count)
    disk = disk_of(data)
    with pytest.raises(LoadError) as refusal:
        Restartable(disk)
    place = data.index(resp("XADD k * f v"))
    assert f"appendonly.aof.1.incr.aof cannot be loaded at offset {place}: `XADD k *`: it has no ID" in str(
        refusal.value
    )


# -- as Redis writes it -----------------------------------------------------------------------------------------------


@contextmanager
def redis_on(program: Path, directory: Path) -> Iterator[redis.Redis]:
    port = free_port()
    words = [str(program), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""]
    words += ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--auto-aof-rewrite-percentage", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("Ready to accept" in line for line in process.stdout)
            client = redis.Redis(port=port)
            yield client
            client.close()
        finally:
            process.terminate()
            process.communicate()


def seen(client: redis.Redis) -> dict[bytes, tuple]:
    found = {}
    for key in sorted(client.keys()):
        info = client.xinfo_stream(key)
        counted = {name: info[name] for name in ("length", "last-generated-id", "iids-duplicates", "iids-tracked")}
        found[key] = counted, client.xrange(key)
    return found


def write_duplicates(client: redis.Redis) -> None:
    for line in (
        "XADD k IDMP p i * f v",
        "XADD k IDMP p i * f v",
        "XADD k IDMPAUTO p * f v",
        "XADD k IDMPAUTO p * f v",
        "xadd k MAXLEN ~ 5 idmp p i * f v",
        "XADD empty IDMP p i * f v",
        "XADD empty IDMP p i * f v",
    ):
        client.execute_command(*line.split())
    client.xtrim("empty", maxlen=0)
    client.execute_command("XADD", "empty", "IDMP", "p", "i", "*", "f", "v")
    with client.pipeline(transaction=True) as transaction:
        for _ in range(3):
            transaction.execute_command("XADD", "k", "IDMP", "p", "i", "*", "f", "v")
        transaction.execute()
    client.eval("for i = 1, 4 do redis.call('XADD', 'k', 'IDMP', 'p', 'i', '*', 'f', 'v') end", 0)


def test_faults2_4_6_the_file_of_redis_8_10_makes_what_redis_had(newest_redis: Path, tmp_path: Path):
    with redis_on(newest_redis, tmp_path) as client:
        write_duplicates(client)
        before = seen(client)
        files = b"".join(path.read_bytes() for path in (tmp_path / "appendonlydir").glob("*.incr.aof"))
    assert len(re.findall(rb"(?i)XADD\r\n\$\d+\r\n\w+\r\n[^\n]*\n[^*]*\$1\r\n\*\r\n\$1\r\nf\r\n", files)) >= 12
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        assert seen(redis.Redis(port=server.port)) == before
    assert run_cli("check", str(tmp_path)).returncode == 0


def test_faults2_4_6_a_name_that_a_rewrite_forgot_adds_no_entry_though_redis_adds_one(
    newest_redis: Path, tmp_path: Path
):
    with redis_on(newest_redis, tmp_path) as client:
        first = client.execute_command("XADD", "k", "IDMP", "p", "i", "*", "f", "v")
        client.xadd("k", {"other": "1"})
        client.xdel("k", first)
        client.bgrewriteaof()
        while (info := client.info("persistence"))["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]:
            client.ping()
        assert client.execute_command("XADD", "k", "IDMP", "p", "i", "*", "f", "v") == first
        assert client.xlen("k") == 1
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port)
        assert client.xlen("k") == 1
        assert client.xinfo_stream("k")["iids-duplicates"] == 1
