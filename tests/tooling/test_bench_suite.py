"""`python -m bench`: its parts, those that are left out, and the servers that it starts."""

import json
import sys

import pytest

from bench import __main__ as suite
from bench import servers, table
from bench.measure import Result, Sample
from bench.workloads import Workload


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    return tmp_path


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["bench", *words])
    monkeypatch.setattr(suite, "redis_binary", lambda name: "redis-benchmark")
    monkeypatch.setattr(suite, "all_kinds", lambda: ["streamd"])
    measured: list[str] = []

    def one_row(part, kinds, arguments):
        measured.append(part)
        yield [{"name": f"row of {part}", "ratio": 2.0}]

    monkeypatch.setattr(suite, "_measured", one_row)
    assert suite.main() == 0
    return measured


def test_parts_that_are_left_out_keep_the_figures_of_the_table_before(results, monkeypatch, capsys):
    assert run(monkeypatch, "long") == list(suite.PARTS)
    left_out = ("mqtt", "spark")
    assert run(monkeypatch, "long", "--without", ",".join(left_out)) == [
        part for part in suite.PARTS if part not in left_out
    ]
    rows = {row["name"]: row for row in json.loads((results / "long.json").read_text())["rows"]}
    assert {name for name, row in rows.items() if "measured" in row} == {f"row of {part}" for part in left_out}
    assert len(rows) == len(suite.PARTS)
    assert "minutes: rates 0.0, pairs" in capsys.readouterr().out


def test_a_part_that_does_not_exist_is_an_error(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "long", "--without", "nonsense")
    assert "nonsense" in capsys.readouterr().err


def test_what_names_a_text_is_no_whole_table(results, monkeypatch):
    run(monkeypatch, "long", "--only", "x", "--without", "mqtt")
    assert not (results / "long.json").exists()
    names = [row["name"] for row in json.loads((results / "long-partial.json").read_text())["rows"]]
    assert names == [f"row of {part}" for part in suite.PARTS if part != "mqtt"]


def test_a_line_names_the_newest_redis_where_it_is_missing(monkeypatch, capsys):
    run(monkeypatch, "short")
    assert "Redis 8.10.2 is not in build: no column of it" in capsys.readouterr().out


def test_a_row_has_the_ratios_to_both_redis(capsys):
    samples = {kind: [Sample(rate, 2.0)] for kind, rate in zip(servers.KINDS, (50.0, 100.0, 100.0, 40.0), strict=True)}
    work = Workload("XADD", lambda target: Sample(1, 1), 1.0, least_pure=0.5, newest=">= 2.5")
    row = suite._row(Result("XADD", samples), work)
    assert (row["ratio"], row["compiled_ratio"]) == (0.5, 1.0)
    assert (row["over_newest"], row["compiled_over_newest"]) == (1.25, 2.5)
    assert row["newest_per_s"] == 40.0
    assert "wanted: >= 1.0, pure 0.5, of Redis 8.10.2 >= 2.5" in capsys.readouterr().out


def test_the_newest_redis_is_one_of_the_servers_where_it_was_made(tmp_path, monkeypatch):
    made = tmp_path / "redis-server"
    monkeypatch.setattr(servers.newest_redis, "BUILD", tmp_path)
    assert "newest-redis" not in servers.all_kinds()
    made.write_text("#!/bin/sh\necho Redis server v=8.10.2 sha=0\n")
    made.chmod(0o755)
    assert servers.all_kinds()[-1] == "newest-redis"
    assert servers.newest_binary() == made
    made.write_text("#!/bin/sh\necho Redis server v=7.0.15 sha=0\n")
    assert servers.newest_binary() is None
