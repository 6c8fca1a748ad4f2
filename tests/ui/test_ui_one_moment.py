"""All figures of a page are of one moment, however busy the server is meanwhile; also where a page is live."""

import re

import pytest

from streamd.clients.ui.source import Source
from tests.ui.test_ui_pages import fill, ids, text_of


def facts(reply):
    """Return the figures above a stream's entries."""
    (shown,) = re.findall(r'<dl class="facts" id="facts">.*?</dl>', reply.text, re.DOTALL)
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", shown))


@pytest.fixture
def busy(client, monkeypatch):
    """Write and deliver an entry before each request of the page."""
    send = Source._send

    def after_an_entry(source, requests):
        client.xadd("s", {"f": "v"})
        client.xreadgroup("g", "ann", {"s": ">"}, count=1)
        return send(source, requests)

    fill(client, "s", 3)
    client.xgroup_create("s", "g", id="0")
    monkeypatch.setattr(Source, "_send", after_an_entry)


def test_the_figures_of_a_stream_and_its_entries_are_of_one_moment(busy, page):
    for address in ("/stream?key=s", "/tail?key=s&after=0-1"):
        reply = page.get(address)
        assert facts(reply)["Entries"] == str(len(ids(reply)))
        assert facts(reply)["Last ID"] == ids(reply)[0]


def test_the_figures_of_a_group_its_consumers_and_its_pending_entries_are_of_one_moment(busy, page):
    reply = page.get("/group?key=s&group=g")
    pending = len(ids(reply))
    assert f"Pending {pending} " in text_of(reply)
    assert re.search(rf"ann {pending} \d", text_of(reply))


def test_a_live_stream_gets_all_its_figures_with_the_entries(client, page):
    fill(client, "s", 3)
    opened = facts(page.get("/stream?key=s"))
    client.xadd("s", {"blob": "x" * 100_000}, id="1800000000000-0")
    live = facts(page.get("/tail?key=s&after=1700000003000-0"))
    assert live["Entries"] == "4"
    assert live["Last ID"] == "1800000000000-0"
    assert live["Memory"] != opened["Memory"]
    assert live.keys() == opened.keys()
    assert live == facts(page.get("/stream?key=s"))


def test_figures_are_asked_for_in_a_transaction_or_without_one_by_a_user_who_may_not(client, page_of, monkeypatch):
    for number in range(120):
        client.xadd(f"s{number}", {"f": "v"})
    rules = {"all": ["+@all"], "no-multi": ["+@all", "-multi", "-exec"], "no-memory": ["+@all", "-memory|usage"]}
    seen, send = {}, Source._send

    def noting(source, requests):
        names.append([request[0] for request in requests])
        return send(source, requests)

    monkeypatch.setattr(Source, "_send", noting)
    try:
        for name, commands in rules.items():
            client.execute_command("ACL", "SETUSER", name, "on", ">p", "~*", "resetchannels", "-@all", *commands)
            names = []
            seen[name] = facts(page_of(client, user=name).get("/stream?key=s7"))
            several = [asked for asked in names if len(asked) > 1]
            assert ["MULTI", "XINFO STREAM", "MEMORY USAGE", "XREVRANGE", "EXEC"] in several
            assert name == "no-memory" or all(asked[0] == "MULTI" for asked in several)
    finally:
        client.execute_command("ACL", "DELUSER", *rules)
    assert seen["all"] == seen["no-multi"] != seen["no-memory"]
    assert seen["no-memory"] == {**seen["all"], "Memory": "–"}
