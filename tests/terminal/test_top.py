"""`streamd top`: what it shows of a server, in a pipe, and the rates it reckons."""

import io
import re

from rich.console import Console

from streamd.clients import choosing
from streamd.clients.terminal.asking import Source
from streamd.clients.terminal.sampling import Sampler
from streamd.clients.terminal.top import view

QUICK = ("--interval", "0.1")


def row(text, *names):
    """Return the cells of the line that begins with these names."""
    (found,) = [line.split() for line in text.splitlines() if tuple(line.split()[: len(names)]) == names]
    return found


def test_a_view_shows_streams_groups_and_clients(shell, client):
    for number in range(3):
        client.xadd("orders", {"n": number}, id=f"{number + 1}-1")
    client.xadd("events", {"n": 1})
    client.set("no-stream", "x")
    client.xgroup_create("orders", "billing", "0")
    client.xreadgroup("billing", "ann", {"orders": ">"}, count=1)

    result = shell("top", "--count", "1", *QUICK)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert row(result.stdout, "orders")[1:5] == ["3", "0", "1", "3-1"]
    assert row(result.stdout, "events")[1] == "1"
    assert row(result.stdout, "billing", "orders")[2:] == ["2", "1", "0", "1"]
    assert "no-stream" not in result.stdout
    assert "streamd-top" in result.stdout
    assert "3 keys" in result.stdout


def test_each_view_comes_below_the_one_before(shell, client):
    client.xadd("orders", {"n": 1})
    assert shell("top", "--count", "3", *QUICK).stdout.count("Streams: 1") == 3


def test_streams_are_chosen_by_name_and_sorted(shell, client):
    for name, entries in (("a1", 1), ("b1", 2), ("a2", 3)):
        for _ in range(entries):
            client.xadd(name, {"f": "v"})
    shown = shell("top", "--count", "1", "--match", "a*", "--sort", "length", *QUICK).stdout
    assert shown.index("a2") < shown.index("a1")
    assert "b1" not in shown
    shown = shell("top", "--count", "1", "--sort", "name", *QUICK).stdout
    assert shown.index("a1") < shown.index("a2") < shown.index("b1")


def test_a_server_without_streams_is_said_to_have_none(shell):
    assert "no streams here" in shell("top", "--count", "1", *QUICK).stdout


def test_a_pattern_that_no_stream_matches_is_named(shell, client):
    client.xadd("orders", {"f": "v"})
    shown = shell("top", "--count", "1", "--match", "bills*", *QUICK).stdout
    assert "no stream is called bills*; leave out --match to see all" in shown
    assert "no streams here" not in shown


def test_rates_are_what_came_between_two_looks(url, client):
    seconds = iter((10.0, 14.0))
    client.xadd("orders", {"f": "v"})
    client.xgroup_create("orders", "billing", "0")
    client.xreadgroup("billing", "ann", {"orders": ">"}, count=1)
    with Source(url, "test") as source:
        sampler = Sampler(source, seconds=lambda: next(seconds))
        first = sampler.sample()
        assert first.streams[b"orders"].rate is None
        for _ in range(20):
            client.xadd("orders", {"f": "v"})
        client.xtrim("orders", maxlen=5)
        client.xadd("fresh", {"f": "v"})
        client.xreadgroup("billing", "ann", {"orders": ">"}, count=2)
        second = sampler.sample()
    assert second.streams[b"orders"].rate == 5.0
    assert second.groups[b"orders", b"billing"].read_rate == 0.5
    assert second.rates["total_commands_processed"] > 5


def test_a_stream_that_goes_or_begins_anew_shows_no_false_rate(url, client):
    with Source(url, "test") as source:
        sampler = Sampler(source)
        for _ in range(3):
            client.xadd("gone", {"f": "v"})
            client.xadd("anew", {"f": "v"})
        sampler.sample()
        client.delete("gone", "anew")
        client.set("gone", "a string now")
        client.xadd("anew", {"f": "v"})
        found = sampler.sample()
    assert b"gone" not in found.streams
    assert found.streams[b"anew"].rate is None


def test_of_ten_thousand_streams_it_shows_the_largest_and_the_furthest_behind_and_says_so(shell, client):
    pipeline = client.pipeline(transaction=False)
    for number in range(10_000):
        pipeline.xadd(f"s{number}", {"f": "v"}, id="1-1")
    for number in range(1, 30):
        pipeline.xadd("s9876", {"f": "v"}, id=f"2-{number}")
    pipeline.xgroup_create("s55", "slow", id="0")
    pipeline.execute()
    views = shell("top", "--count", "12", "--sort", "length", "--interval", "0.1").stdout
    shown = views[views.rindex("Streams: ") :]
    assert "Streams: 200, 156 more below of 10,000: the largest, and those furthest behind; --match chooses others" in (
        re.sub(r"\d+ more", "156 more", shown)
    )
    assert shown.splitlines()[2].startswith("s9876 ")
    assert row(shown, "slow", "s55")[2] == "1"


def test_one_client_and_one_key_are_not_several(shell, client):
    client.xadd("orders", {"f": "v"})
    client.connection_pool.disconnect()
    shown = shell("top", "--count", "1", *QUICK).stdout
    assert re.search(r" 1 key   1 client, 0 waiting", shown)


def test_names_of_streams_cannot_speak_to_the_terminal(shell, client):
    client.execute_command("XADD", b"\x1b[31m\nname", "*", "f", "v")
    shown = shell("top", "--count", "1", *QUICK).stdout
    assert r"\x1b[31m\nname" in shown


def test_on_a_narrow_terminal_names_are_cut_and_numbers_are_not(url, client):
    for number in range(5):
        client.xadd(f"a-stream-with-a-rather-long-name-{number}", {"f": "v"}, id="1234567890123-0")
    screen = Console(width=70, height=24, file=io.StringIO(), force_terminal=True, color_system=None)
    with Source(url, "test") as source:
        screen.print(view(Sampler(source).sample(), source.place, "rate", screen))
    lines = screen.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 70
    assert len([line for line in lines if "…" in line and "1234567890123-0" in line]) == 5


def test_at_sixty_columns_names_can_still_be_told_apart(url, client):
    names = [f"warehouse-{number}-orders" for number in range(3)]
    for name in names:
        client.xadd(name, {"f": "v"}, id="1234567890123-0")
        client.xgroup_create(name, f"{name}-group", "0")
    screen = Console(width=60, height=40, file=io.StringIO(), force_terminal=True, color_system=None)
    with Source(url, "test") as source:
        screen.print(view(Sampler(source).sample(), source.place, "rate", screen))
    shown = screen.file.getvalue()
    assert max(map(len, shown.splitlines())) <= 60
    assert [name for name in names if f"{name} " not in shown] == []
    assert "entries" in shown
    assert "lag" in shown
    assert "last ID" not in shown


def test_streams_among_many_other_keys_are_found_a_few_steps_at_each_look(url, client, monkeypatch):
    monkeypatch.setattr(choosing, "FIRST_LOOK_S", 0.0)
    monkeypatch.setattr(choosing, "STEPS", 1)
    monkeypatch.setattr(choosing, "KEYS_A_STEP", 10)
    client.mset({f"k{number}": "v" for number in range(200)})
    for number in range(5):
        client.xadd(f"s{number}", {"f": "v"})
    screen = Console(width=100, file=io.StringIO())
    with Source(url, "test") as source:
        sampler = Sampler(source)
        screen.print(view(sampler.sample(), source.place, "rate", screen))
        assert (
            "still being looked through" in screen.file.getvalue() or "no streams found yet" in screen.file.getvalue()
        )
        for _ in range(200):
            last = sampler.sample()
    assert len(last.streams) == 5
    assert last.walked
    assert last.found == 5
