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
