"""`python -m bench.proposal` in its smallest form, and the tables that the documents show of it."""

import json
import sys

import pytest

from bench import idempotent, proposal, small_memory
from bench.client import ask
from bench.measure import Sample
from bench.servers import Target, redis_binary
from scripts import tables_idempotence, tables_speed

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for a process's memory")
needs_client = pytest.mark.skipif(redis_binary("redis-benchmark") is None, reason="redis-benchmark is not on PATH")


@linux
@needs_client
def test_the_smallest_form_measures_each_kind_of_xadd_and_writes_no_document(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(proposal, "RESULTS", tmp_path)
    few = proposal.memory_rows(0.02)
    monkeypatch.setattr(proposal, "memory_rows", lambda part: few)
    monkeypatch.setattr(tables_speed, "main", lambda: pytest.fail("a part was left out"))
    words = ["--quick", "--sizes", "16", "--operations", "150", "--runs", "1", "--resident", "9000"]
    monkeypatch.setattr(sys, "argv", ["proposal", *words, "--kinds", "streamd", "--anywhere"])
    assert proposal.main() == 0
    found = json.loads((tmp_path / "proposal-partial.json").read_text())
    ways = found["sizes"]["16"]["streamd"]
    assert list(ways) == ["plain", "IDMP", "IDMPAUTO"]
    for figures in ways.values():
        assert figures["per_s"] > 0 < figures["mean_ms"] <= figures["p99_ms"] * 10
        assert 10 < figures["rss_mb"] < 500
    assert [row["wanted"] for row in found["memory"]] == [72, 136, 360, 1000]
    assert all(10 < row["figures"]["streamd"] < 10_000 for row in found["memory"])
    assert (found["about"]["operations"], found["about"]["resident"]) == (150, 9000)
    assert "| 16 B | pure |" in capsys.readouterr().out


def test_values_have_their_size_and_idempotent_ids_are_random():
    for size in proposal.SIZES:
        field, value = proposal.words_of("IDMP", size)[-2:]
        assert len(value) == size
        assert (value if size > 8 else field).endswith("__rand_int__")
    assert proposal.words_of("IDMP", 16)[2:5] == ("IDMP", "p", "__rand_int__")
    assert proposal.words_of("IDMPAUTO", 16)[2:5] == ("IDMPAUTO", "p", "*")


def test_of_ten_runs_the_middle_eight_count():
    assert proposal.middle([1000.0, *range(1, 9), -1000.0]) == 4.5
    assert proposal.middle([1.0, 2.0, 6.0]) == 3.0


FIGURES = {"per_s": 10_000.0, "mean_ms": 0.07, "p99_ms": 0.12, "rss_mb": 40.0}
WAYS = {"plain": FIGURES, "IDMP": FIGURES | {"per_s": 9_600.0}, "IDMPAUTO": FIGURES | {"rss_mb": 40.8}}


def test_the_table_says_how_far_below_a_plain_xadd_each_size_is():
    about = {"date": "now", "python": "3", "cpus": 2, "load": 0.1, "operations": 50_000, "runs": 10, "resident": 9_000}
    memory = [{"name": "5 x 1,000", "unit": "KB", "wanted": 360, "figures": {"streamd": 400.4}}]
    slower = WAYS | {"IDMP": FIGURES | {"per_s": 9_000.0}}
    sizes = {"16": {"streamd": WAYS}, "32": {"streamd": WAYS}, "4096": {"streamd": slower}}
    text = tables_idempotence.proposal({"about": about, "sizes": sizes, "memory": memory})
    assert "| 16 B | pure | 10,000/s, 70 µs, p99 120, 40.0 MB | 9,600/s (-4.0 %), 70 µs" in text
    assert "| IDMP: throughput below plain, the median of the sizes | ≤ 5.0 % | 4.0 % (4.0 to 10.0) |" in text
    assert "| IDMPAUTO: RSS above plain, the median of the sizes | ≤ 1.4 % | 2.0 % (2.0 to 2.0) |" in text
    assert "| memory: 5 x 1,000 | ≤ 360 KB | 400 KB |" in text


def test_the_table_of_memory_has_what_the_rows_of_windows_have():
    rows = [
        {"producers": 1_000, "iids": 100, "bytes": 16, "figures": {"streamd": 71.6, "compiled": 40.0}},
        {"producers": 100, "iids": 10_000, "bytes": 36, "figures": {"streamd": 90.0, "compiled": 60.0}},
        {"producers": 100, "iids": 10_000, "bytes": 16, "figures": {"streamd": 70.0, "compiled": 41.0}},
    ]
    entries = {
        f"memory: {name}, one entry per ms": {"figures": {"streamd": 69.8}}
        for name in ("64 random bytes", "JSON of about 90 bytes")
    }
    found = {"rows": rows, "stream": {"streamd": 1_987.0, "compiled": 2_004.0}}
    text = tables_idempotence.memory(entries, found)
    assert "| an entry with 64 random bytes | about 70 |" in text
    assert "a hundred of each producer | 72 (pure), 40 (compiled) |" in text
    assert "| an idempotent ID in larger windows | 70 to 90 (pure), 41 to 60 (compiled) |" in text
    assert "about 1,990 (pure), 2,000 (compiled)" in text
    assert "1,000 producers with 10,000 idempotent IDs of 36 bytes each take about 0.9 GB (pure), 0.6 GB" in text


@linux
@pytest.mark.parametrize("iid_bytes", [16, 20, None])
def test_windows_are_full_and_have_turned_over(iid_bytes):
    with Target("streamd") as target:
        assert small_memory.window_bytes(target, 2, 3, 50, 2.5, iid_bytes) > 0
        with target.connect() as sock:
            for key in ("s0", "s1"):
                facts = ask(sock, "XINFO", "STREAM", key)
                assert isinstance(facts, list)
                said = dict(zip(facts[::2], facts[1::2], strict=True))
                assert (said[b"iids-tracked"], said[b"pids-tracked"], said[b"length"]) == (150, 3, 0)
                assert said[b"iids-added"] == 3 * 175


def test_what_an_idempotent_id_adds_is_the_difference_of_a_rounds_two_figures(monkeypatch):
    costs_us = {"streamd": iter([3.0, 2.0, 5.0, 2.0, 4.0, 1.0]), "newest-redis": iter([4.0, 2.0, 4.0, 2.0, 4.0, 2.0])}

    class Fake:
        def __init__(self, kind):
            self.kind = kind

        def stop(self):
            del costs_us[self.kind]

    def work(target):
        return Sample(1.0, next(costs_us[target.kind]))

    monkeypatch.setattr(idempotent, "Target", Fake)
    monkeypatch.setattr(idempotent, "ROWS", (idempotent.Added("IDMP", work, work, 0.5, 0.65),))
    row, added = idempotent.run_idempotent(["streamd", "redis-server", "newest-redis"], "", 3)
    assert row["figures"] == {"streamd": 4.0, "newest-redis": 4.0}
    assert row["over_newest"] == 1.0
    assert row["wanted_text"] == "of Redis 8.10.2 <= 0.5, pure 0.65"
    assert added["figures"] == {"streamd": 3.0, "newest-redis": 2.0}
    assert added["over_newest"] == 1.5
    assert costs_us == {}
