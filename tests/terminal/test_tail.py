"""`streamd tail`: which entries it prints, from where, and what it says of groups."""

import json
import threading

import pytest

from streamd.clients.terminal import tail as module


def lines_of(result):
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def ids_of(result):
    return [line.split()[0] for line in lines_of(result)]


def write(client, *ids):
    for entry_id in ids:
        client.xadd("orders", {"n": entry_id}, id=entry_id)


def test_without_more_words_the_last_ten_entries_are_printed(shell, client):
    write(client, *(f"{n}-1" for n in range(1, 15)))
    assert ids_of(shell("tail", "orders", "--no-follow")) == [f"{n}-1" for n in range(5, 15)]
    assert ids_of(shell("tail", "orders", "--no-follow", "--count", "12")) == [f"{n}-1" for n in range(3, 15)]
    assert ids_of(shell("tail", "orders", "--count", "2")) == ["13-1", "14-1"]


def test_a_line_is_id_time_and_fields(shell, client, monkeypatch):
    client.xadd("orders", {"order": "o-1", "cents": "4990"}, id="1000000000123-0")
    (line,) = lines_of(shell("tail", "orders", "--no-follow"))
    entry_id, day, time, *fields = line.split()
    assert (entry_id, fields) == ("1000000000123-0", ["order=o-1", "cents=4990"])
    assert day.startswith("2001-09-")
    assert time.endswith(".123")


@pytest.mark.parametrize("pages", [1, 3, 200])
@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ("earliest", ["1-1", "2-0", "2-5", "7-0", "9-0"]),
        ("2", ["2-0", "2-5", "7-0", "9-0"]),
        ("2-1", ["2-5", "7-0", "9-0"]),
        ("7-0", ["7-0", "9-0"]),
        ("10-0", []),
        ("latest", []),
    ],
)
def test_it_begins_at_an_id_or_the_first_after_it(shell, client, monkeypatch, pages, start, wanted):
    monkeypatch.setattr(module, "PAGE", pages)
    write(client, "1-1", "2-0", "2-5", "7-0", "9-0")
    assert ids_of(shell("tail", "orders", "--from", start, "--no-follow")) == wanted


def test_it_begins_so_long_ago_by_the_servers_clock(shell, client):
    now_ms = client.time()[0] * 1_000
    write(client, f"{now_ms - 600_000}-0", f"{now_ms - 60_000}-0", f"{now_ms - 2_000}-0")
    for start, count in (("1h", 3), ("5m", 2), ("30s", 1), ("0.1s", 0)):
        assert len(ids_of(shell("tail", "orders", "--from", start, "--no-follow"))) == count


@pytest.mark.parametrize("start", ["yesterday", "5 m", "1-2-3", "-1", "5x", "9" * 30])
def test_a_beginning_that_makes_no_sense_is_said_in_one_line(shell, client, start):
    write(client, "1-1")
    result = shell("tail", "orders", "--from", start, "--no-follow")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("start", ["latest", "1-1", "3-1"])
def test_it_goes_on_with_what_comes(shell, client, start):
    write(client, "1-1", "2-1")
    wanted = {"latest": ["3-0", "3-1", "4-0"], "1-1": ["1-1", "2-1", "3-0"], "3-1": ["3-1", "4-0", "5-0"]}[start]

    def write_when_it_waits():
        while client.info("clients")["blocked_clients"] != 1:
            pass
        write(client, "3-0", "3-1", "4-0", "5-0")

    writer = threading.Thread(target=write_when_it_waits)
    writer.start()
    found = ids_of(shell("tail", "orders", "--from", start, "--count", "3"))
    writer.join()
    assert found == wanted


def test_an_empty_stream_has_nothing_to_print(shell, client):
    client.xgroup_create("orders", "g", mkstream=True)
    for start in ("earliest", "5m", "latest"):
        assert lines_of(shell("tail", "orders", "--from", start, "--no-follow")) == []
    assert lines_of(shell("tail", "orders", "--no-follow")) == []


def test_json_keeps_every_byte_and_every_field(shell, client):
    client.execute_command("XADD", "orders", "1-1", "f", b"\xff\x9b\x1b[31m", "g", "ä")
    client.execute_command("XADD", "orders", "1-2", "f", "1", "f", "2")
    one, two = map(json.loads, lines_of(shell("tail", "orders", "--no-follow", "--json")))
    assert one["fields"]["f"].encode("utf-8", "surrogateescape") == b"\xff\x9b\x1b[31m"
    assert one["fields"]["g"] == "ä"
    assert one["time"].startswith("19")
    assert two["pairs"] == [["f", "1"], ["f", "2"]]
    assert shell("tail", "orders", "--no-follow", "--json").stdout.isascii()


def test_what_an_entry_holds_cannot_speak_to_the_terminal(shell, client):
    client.execute_command("XADD", "orders", "1-1", b"\x1b]0;title\x07", b"two\nlines \xc2\x9b31m \xff")
    (line,) = lines_of(shell("tail", "orders", "--no-follow"))
    assert line.isprintable()
    assert r"\x1b]0;title\x07=two\nlines \x9b31m \xff" in line


def test_an_id_of_no_calendar_has_no_time(shell, client):
    write(client, "18446744073709551614-3")
    assert lines_of(shell("tail", "orders", "--no-follow")) == ["18446744073709551614-3  n=18446744073709551614-3"]


def test_a_group_is_told_of_and_nothing_is_taken_from_it(shell, client):
    write(client, "1-1", "2-1", "3-1", "4-1")
    client.xgroup_create("orders", "billing", "0")
    client.xgroup_create("orders", "audit", "$")
    client.xreadgroup("billing", "ann", {"orders": ">"}, count=3)
    client.xack("orders", "billing", "2-1")
    before = client.xinfo_groups("orders")

    found = [json.loads(line) for line in lines_of(shell("tail", "orders", "--no-follow", "--json", "--group"))]
    assert [one["groups"]["billing"]["state"] for one in found] == ["pending", "done", "pending", "waiting"]
    assert {one["groups"]["audit"]["state"] for one in found} == {"done"}
    assert found[0]["groups"]["billing"]["consumer"] == "ann"
    assert found[0]["groups"]["billing"]["delivery_count"] == 1

    lines = lines_of(shell("tail", "orders", "--no-follow", "--group", "billing"))
    assert "[billing: pending with ann for" in lines[0]
    assert [line.endswith("[billing: waiting]") for line in lines] == [False, False, False, True]
    assert "audit" not in lines[0]
    assert client.xinfo_groups("orders") == before


@pytest.mark.parametrize("count", [499, 500, 501, 1_100])
def test_pending_entries_are_found_beyond_one_page(shell, client, monkeypatch, count):
    monkeypatch.setattr(module, "PAGE", 2_000)
    pipeline = client.pipeline(transaction=False)
    for number in range(1, count + 1):
        pipeline.xadd("orders", {"f": "v"}, id=f"{number}-1")
    pipeline.execute()
    client.xgroup_create("orders", "billing", "0")
    client.xreadgroup("billing", "ann", {"orders": ">"}, count=count)
    found = lines_of(shell("tail", "orders", "--from", "earliest", "--no-follow", "--group", "billing"))
    assert sum("pending with ann" in line for line in found) == count
