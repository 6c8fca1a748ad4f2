"""What a benchmark's table says of rows that were not measured again."""

import json

import pytest

from bench import table


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    return tmp_path


def test_rows_that_were_not_measured_again_are_kept_with_the_date_of_their_table(results):
    before = {"about": {"date": "2026-11-21 19:26 UTC"}, "rows": [{"name": "old", "ratio": 1.0}, {"name": "both"}]}
    (results / "long.json").write_text(json.dumps(before))
    rows = [{"name": "both", "ratio": 0.5}]

    kept = table.carried_over(rows, "long")

    assert kept == [{"measured": "2026-11-21", "name": "old", "ratio": 1.0}]
    assert "(of 2026-11-21)" in table.table_row(kept[0])
    table.write(rows + kept, "long", False, 0.0)
    assert [row["name"] for row in json.loads((results / "long.json").read_text())["rows"]] == ["both", "old"]
    # A row keeps the date of the table that measured it.
    assert table.carried_over([], "long")[1]["measured"] == "2026-11-21"


def test_without_a_table_before_nothing_is_kept():
    assert table.carried_over([{"name": "one"}], "long") == []


def test_a_curve_is_a_line_of_its_growth():
    row = {"name": "XADD by clients", "what": "CPU at 1,000 over 1", "growth": 0.5, "streamd_cpu_us": [2.0, 1.0]}
    assert table.table_row(row).startswith("| XADD by clients: CPU at 1,000 over 1 | 1 | 0.50 |")


def test_the_newest_redis_has_a_column_and_ratios_of_its_own():
    kinds = ("streamd", "compiled", "redis-server", "newest-redis")
    row = {"name": "XADD", "wanted": 1.0, "wanted_pure": 0.5, "wanted_newest": ">= 2.5", "ratio": 0.9}
    row |= {"over_newest": 0.8, "compiled_over_newest": 1.8, "newest_per_s": 1000.0, "newest_cpu_us": 2.5}
    cells = [cell.strip() for cell in table.table_row(row).split("|")[1:-1]]
    assert cells[:6] == ["XADD", ">= 1.0, pure 0.5, of Redis 8.10.2 >= 2.5", "0.90", "", "0.80", "1.80"]
    titles, under = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table._head())
    assert len(titles) == len(under) == len(cells)
    assert dict(zip(titles, cells, strict=True))["of Redis 8.10.2: pure"] == "0.80"
    assert [titles[at] for at, cell in enumerate(cells) if cell in ("1,000", "2.50")] == ["Redis 8.10.2"] * 2
    figures = {"name": "bytes", "unit": "B", "figures": dict.fromkeys(kinds, 5.0), "newest_ratio": None}
    assert table.table_row(figures).count("5.00 B") == len(kinds)


def test_a_row_of_two_workloads_shows_what_each_server_has_of_its_own():
    row = {"name": "beside", "wanted": 0.9, "ratio": 0.2, "redis_ratio": 0.88, "newest_ratio": 0.86}
    text = table.table_row(row)
    assert "| 0.20 |" in text
    assert text.index("0.88 of its own") < text.index("0.86 of its own")


def test_without_redis_only_streamd_has_figures():
    row = {"name": "bytes", "unit": "B", "wanted_text": "50 B, pure 72", "figures": {"streamd": 45.0, "compiled": 40.0}}
    assert table.table_row(row).startswith("| bytes | 50 B, pure 72 | 45.00 B | 40.00 B |")
