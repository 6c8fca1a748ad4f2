"""`streamd bench`: its rows, its bounds, and that nothing of it stays behind."""

import json

import pytest

from streamd.clients.terminal import load as module
from streamd.clients.terminal.asking import Source
from streamd.clients.terminal.load import LOADS, Loaded, NotThere

QUICK = ("--rounds", "1", "--seconds", "0.05", "--requests", "200")


@pytest.fixture(autouse=True)
def few_entries(monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 1_000)


def test_every_row_is_measured_and_no_key_stays(shell, client):
    result = shell("bench", *QUICK, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    is_streamd = found["servers"][0].startswith("streamd")
    for row in found["rows"]:
        if is_streamd or "IDMP" not in row["name"]:
            assert row["rate"] > 0
            assert 0 <= row["p50_ms"] <= row["p99_ms"]
            assert 0 <= row["client_busy"] <= 1
    assert [row["name"] for row in found["rows"]] == [load.name for load in LOADS]
    assert client.keys() == []


def test_both_servers_have_all_that_is_measured(shell):
    result = shell("bench", *QUICK)
    assert result.exit_code == 0
    lines = {line.partition("  ")[0]: line for line in result.stdout.splitlines()}
    assert len(lines) == 2 + len(LOADS)
    assert not [name for name, line in lines.items() if "does not have it" in line]


def test_a_second_server_is_measured_in_turn(shell, url):
    result = shell("bench", *QUICK, "--beside", url, "--only", "1 client, pipeline", "--json")
    (row,) = json.loads(result.stdout)["rows"]
    assert row["ratio"] > 0
    assert row["beside_rate"] > 0


def test_a_row_that_is_not_there_is_said_with_those_that_are(shell):
    result = shell("bench", "--only", "nonsense")
    assert result.exit_code == 2
    assert "XADD, 50 clients" in result.stderr


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_each_request_that_is_counted_was_done(url, client, load, monkeypatch):
    """What a run counts is what the server has: entries added, read and acknowledged."""
    done: list[float] = []
    seen: list[object] = []
    with Source(url, "test") as source, Loaded(source) as loaded:
        ask = source.ask

        def look_before_it_is_removed(*words):
            if words[0] == "DEL":
                for key in client.keys("*"):
                    seen.append((client.xlen(key), [one["pending"] for one in client.xinfo_groups(key)]))
            return ask(*words)

        monkeypatch.setattr(source, "ask", look_before_it_is_removed)
        try:
            measured = loaded.measure(load, 100 if not load.reads else 10, 30.0)
        except NotThere:
            assert "IDMP" in load.name
            return
        done.append(measured.rate)
    size = load.clients * load.pipeline
    requests = -(-100 // size) * size
    if load.name == "XADD IDMP, 50 clients, pipeline 16":
        requests = 100 // 16 * 16
    wanted = {True: (1_000, []), False: (requests, [])}[load.reads]
    if load.reads:
        pending = {"XRANGE": 0, "XREADG": 1_000, "XACK o": 0}[load.name[:6]]
        wanted = (1_000, [pending])
    assert seen[-1] == wanted


class Ticks:
    """A clock that goes on by half a second at each look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.5
        return self.now_s


def test_in_a_log_it_says_a_line_a_second_of_how_far_it_is(shell, monkeypatch):
    monkeypatch.setattr("streamd.clients.terminal.bench.monotonic", Ticks())
    result = shell("bench", *QUICK, "--rounds", "4", "--only", "XADD, 1 client", "--json")
    assert result.exit_code == 0, result.output
    said = result.stderr.splitlines()
    rows = len(json.loads(result.stdout)["rows"])
    assert said[0] == "bench: XADD, 1 client, round 2 of 4: 1 of 8 runs"
    assert rows == 2
    assert len(said) == 4  # eight runs, half a second each
