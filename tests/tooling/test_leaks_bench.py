"""The command that measures what stays of memory: it tells a server that gives back from one that does not."""

import shutil
import sys

import pytest

from bench import leaks
from bench.leak_entries import Beside
from bench.leak_shapes import MB, SHAPES, Shape
from bench.leaks import Memory, allowed_bytes
from bench.servers import Target

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for a process's memory")
TINY = [shape for shape in SHAPES if shape.name.startswith(("SCRIPT", "closed behind", "XREADGROUP"))]


@linux
def test_faults2_2_leaks_measures_each_shape_it_is_asked_for(monkeypatch, capsys):
    monkeypatch.setattr(leaks, "_SETTLING_BEFORE_S", 0)
    monkeypatch.setattr(leaks, "SHAPES", TINY)
    monkeypatch.setattr(sys, "argv", ["leaks", "--scale", "0.001"])
    assert leaks.main() == 0
    lines = capsys.readouterr().out.splitlines()
    if shutil.which("redis-server") is None:
        assert lines.pop(0) == "redis-server is not on PATH: each shape may leave 10 MB"
    names = [*(shape.name for shape in TINY), leaks.NAME]
    assert [line.partition(" x ")[2][:10] for line in lines[1:-1]] == [name[:10] for name in names]
    assert lines[-1] == "leaving more than they may: none"


@linux
def test_faults2_2_leaks_ends_with_1_where_memory_stays(monkeypatch, capsys):
    kept: list[bytearray] = []

    def keep(target: Target, count: int) -> list[object]:
        with target.connect() as sock:
            sock.sendall(b"SET k%d 12345\r\nSETRANGE k%d 30000000 x\r\n" % (len(kept), len(kept)))
            while b":" not in sock.recv(100):
                pass
        kept.append(bytearray())
        return []

    monkeypatch.setattr(leaks, "_SETTLING_BEFORE_S", 0)
    monkeypatch.setattr(leaks, "_SETTLING_S", 0)
    monkeypatch.setattr(leaks, "redis_binary", lambda name: None)
    monkeypatch.setattr(leaks, "SHAPES", [Shape("a value that stays", keep, 1)])
    monkeypatch.setattr(sys, "argv", ["leaks"])
    assert leaks.main() == 1
    assert "  too much" in capsys.readouterr().out


@linux
def test_leaks_ends_with_1_where_entries_with_names_take_more(monkeypatch, capsys):
    monkeypatch.setattr(leaks, "measure_beside", lambda kind, entries: Beside(1_000, 1_021))
    monkeypatch.setattr(sys, "argv", ["leaks", "--only", "beside plain"])
    assert leaks.main() == 1
    assert "+2.1%     2.0%  too much" in capsys.readouterr().out


def test_faults2_2_leaks_allows_what_redis_keeps_and_ten_megabytes():
    assert allowed_bytes(None) == 10 * MB
    assert allowed_bytes(Memory(5 * MB, 25 * MB)) == 30 * MB
    assert allowed_bytes(Memory(25 * MB, 5 * MB)) == 10 * MB


def test_faults2_2_leaks_is_part_of_the_long_suite(monkeypatch, capsys):
    from bench import long

    monkeypatch.setattr(long, "measure_leak", lambda kind, shape: Memory(0, MB) if kind == "streamd" else None)
    rows = long.run_leaks(["streamd", "redis-server"], "")
    left = [row["name"] for row in rows if row["name"].startswith("memory left")]
    assert left == [f"memory left: {shape.title()}" for shape in SHAPES]
    assert rows[0]["figures"] == {"streamd": 1.0}
    whole = [row for row in rows if row["name"] not in left]
    assert [row["name"] for row in whole] == ["memory: a server after 15 x 100,000 streams made and deleted"]
    assert (whole[0]["figures"], whole[0]["wanted_text"]) == ({"streamd": 1.0}, "70 MB")
