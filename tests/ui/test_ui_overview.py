"""The overview of a server, its groups by lag, tables that sort, and bounds where there are very many streams."""

import re
from html import unescape

import pytest

from streamd.clients import choosing
from streamd.clients.ui import overview, streams
from streamd.clients.ui.source import Source
from tests.ui.test_ui_pages import fill, text_of


def names(reply, path="stream"):
    """Return the streams, or the groups, that the rows of a page are about."""
    return re.findall(rf'<th scope="row"><a href="/{path}\?[^"]*">([^<]*)</a>', reply.text)


def column(reply, label):
    """Return the address that sorts by a column."""
    return unescape(re.search(rf'<a href="([^"]*)">{label}</a></th>', reply.text)[1])


@pytest.fixture
def shop(client):
    """Three streams of different sizes, and three groups."""
    for key, entries in (("carts", 3), ("orders", 20), ("mails", 7)):
        fill(client, key, entries)
        client.xgroup_create(key, f"{key}-readers", id="0")
    client.xreadgroup("orders-readers", "ann", {"orders": ">"}, count=18)
    return client


@pytest.fixture
def user(client):
    """Make users of the page, by ACL rules."""
    made = []

    def make(*rules):
        made.append("ann")
        client.execute_command("ACL", "SETUSER", "ann", "reset", "on", ">p", *rules)
        return "ann"

    yield make
    for name in made:
        client.execute_command("ACL", "DELUSER", name)


def test_the_overview_comes_first_with_streams_memory_clients_and_who_is_furthest_behind(shop, page):
    seen = text_of(page.get("/"))
    assert "Overview Live Streams 3 " in seen
    assert re.search(r"Memory \d+(\.\d)? [kMG]B Clients \d+ Furthest behind mails-readers of mails, 7 entries", seen)
    assert names(page.get("/")) == ["orders", "mails", "carts"]
    assert names(page.get("/"), "group") == ["mails-readers", "carts-readers", "orders-readers"]


def test_entries_per_second_are_those_since_the_last_look(shop):
    now_s = 100.0
    source = Source(f"redis://127.0.0.1:{shop.connection_pool.connection_kwargs['port']}")
    survey = overview.Overview(source, streams.Rates(), seconds=lambda: now_s)
    assert survey.look().is_average
    for key in ("orders", "mails", "mails"):
        for _ in range(20):
            shop.xadd(key, {"f": "v"})
    now_s = 102.0
    look = survey.look()
    assert (look.rate, look.is_average) == (30.0, False)
    now_s = 102.5
    assert survey.look() is look  # several readers share it
    source.close()


def test_an_overview_of_an_empty_server_says_how_to_begin(page):
    assert "XADD orders" in text_of(page.get("/"))
    assert "No consumer group" in text_of(page.get("/groups/all"))


def test_the_groups_of_all_streams_come_the_furthest_behind_first(shop, page):
    reply = page.get("/groups/all")
    assert names(reply, "group") == ["mails-readers", "carts-readers", "orders-readers"]
    assert "mails-readers mails 7 0 0" in text_of(reply)
    assert "orders-readers orders 2 18 1" in text_of(reply)
    assert names(page.get(column(reply, "Pending")), "group")[0] == "orders-readers"


def test_columns_sort_and_sort_the_other_way_round(shop, page):
    for address in ("/", "/streams"):
        up = page.get(column(page.get(address + "?sort=-length"), "Entries"))
        assert names(up) == ["carts", "mails", "orders"]
        assert 'class="number" aria-sort="ascending"' in up.text
        down = page.get(column(up, "Entries"))
        assert names(down) == ["orders", "mails", "carts"]
        assert 'class="number" aria-sort="descending"' in down.text
        assert names(page.get(column(down, "Stream"))) == ["carts", "mails", "orders"]
    assert names(page.get("/?sort=-lag")) == ["mails", "carts", "orders"]
    assert page.get("/?sort=nonsense").status_code == 200


def test_every_table_with_heads_that_sort_can_be_sorted_by_each(shop, page):
    shop.execute_command("CONFIG", "SET", "slowlog-log-slower-than", 0)
    addresses = ["/", "/streams", "/groups/all", "/groups?key=orders", "/slow-log", "/idempotence"]
    for address in [*addresses, "/group?key=orders&group=orders-readers"]:
        reply = page.get(address)
        for link in re.findall(r'<th scope="col"[^>]*aria-sort="\w+"><a href="([^"]*)"', reply.text):
            assert page.get(unescape(link)).status_code == 200, link
    shop.execute_command("CONFIG", "SET", "slowlog-log-slower-than", 10_000)


def test_nothing_is_shown_that_the_user_of_the_page_may_not_read(shop, page_of, user):
    shop.xadd("orders-secret", {"f": "v"})
    rules = "+multi +exec +ping +time +scan +type +xinfo +xlen +xrange +xrevrange +xpending +memory|usage +command"
    page = page_of(shop, user=user("~orders", "resetchannels", "-@all", *rules.split(), "+client|setname"))
    for address in ("/", "/streams", "/streams?match=mails", "/groups/all", "/idempotence"):
        reply = page.get(address)
        assert reply.status_code == 200, text_of(reply)
        assert not {"mails", "carts", "orders-secret"} & set(
            re.findall(r"[\w-]+", re.sub("value=.*?>|“.*?”", "", reply.text))
        )
    assert names(page.get("/")) == names(page.get("/streams")) == ["orders"]
    assert "Streams 1 " in text_of(page.get("/"))
    assert "Memory – Clients –" in text_of(page.get("/"))  # it may not use INFO either
    reply = page.get("/stream?key=mails")
    assert (reply.status_code, "may not read this stream" in reply.text) == (403, True)


def test_idempotent_writes_are_spoken_of_only_where_there_are_producers(shop, page):
    for address in ("/", "/streams", "/stream?key=orders", "/entry?key=orders&id=1700000001000-0"):
        assert "dempot" not in page.get(address).text
        assert "Producers" not in page.get(address).text
    if shop.execute_command("COMMAND INFO", "XCFGSET") in ([None], {}):
        return
    shop.xadd("carts", {"f": "v"}, idmp=("svc-7", b"1"))
    assert "Producers 1 Duplicates 0" in text_of(page.get("/stream?key=carts"))
    assert ">Idempotence</a>" in page.get("/slow-log").text
    assert names(page.get("/idempotence")) == ["carts"]
    shop.delete("carts")
    page.get("/streams")
    assert "Producers" not in text_of(page.get("/stream?key=orders"))


def test_of_ten_thousand_streams_the_largest_and_the_furthest_behind_are_shown_and_the_rest_is_counted(client, page):
    with client.pipeline(transaction=False) as pipeline:
        for number in range(10_000):
            pipeline.xadd(f"s{number}", {"f": "v"}, id="1-1")
        for number in range(1, 30):
            pipeline.xadd("s9876", {"f": "v"}, id=f"2-{number}")
            pipeline.xadd("s1234", {"f": "v"}, id=f"2-{number}") if number < 20 else None
        pipeline.xgroup_create("s1234", "late", id="0")
        pipeline.xgroup_create("s55", "slow", id="0")
        pipeline.execute()
    seen = text_of(page.get("/"))
    for _ in range(12):  # (a busy machine does not survey them all at the first look)
        if "among" not in seen and "or more" not in seen:
            break
        overview.LOOK_S_MIN, before = 0.0, overview.LOOK_S_MIN
        seen = text_of(page.get("/"))
        overview.LOOK_S_MIN = before
    assert "Of 10,000 streams, 100 are shown: the largest, and those whose groups are furthest behind." in seen
    assert "Furthest behind late of s1234, 20 entries" in seen
    assert names(page.get("/"))[:2] == ["s9876", "s1234"]
    assert "s55" in names(page.get("/"))
    assert len(names(page.get("/"))) == 100
    assert re.search(r"late s1234 20 .* slow s55 1 ", text_of(page.get("/groups/all")))
    assert "Of 10,000 streams, 100 are shown" in text_of(page.get("/groups/all"))


def test_a_look_asks_for_a_bounded_number_of_streams_and_finds_the_right_ones_after_some_looks(
    client, page_of, monkeypatch
):
    for name, number in (("SURVEYED_MAX", 20), ("FIRST_LOOK_S", 0.0), ("_PART", 7), ("STEPS", 1), ("KEYS_A_STEP", 50)):
        monkeypatch.setattr(choosing, name, number)
    monkeypatch.setattr(overview, "STREAMS_MAX", 4)
    monkeypatch.setattr(overview, "LOOK_S_MIN", 0.0)
    for number in range(150):
        client.xadd(f"s{number}", {"f": "v"}, id="1-1")
    client.xadd("s42", {"f": "v"})
    client.xgroup_create("s17", "g", id="0")
    asked, send = [], Source._send
    monkeypatch.setattr(Source, "_send", lambda source, requests: (asked.extend(requests), send(source, requests))[1])
    page = page_of(client)
    first = text_of(page.get("/"))
    assert "found so far" in first
    assert "looked at so far" in first
    for _ in range(20):
        asked.clear()
        page.get("/")
        by_name = {name: [one for one in asked if one[0] == name] for name, *_ in asked}
        assert len(by_name["XLEN"]) == 20
        assert len(by_name["XINFO GROUPS"]) <= 20 + 4
        assert len(by_name["XINFO STREAM"]) <= 4 + 4
    assert {"s42", "s17"} <= set(names(page.get("/")))
    assert len(names(page.get("/"))) == 4
    assert "Of 150 streams, 4 are shown" in text_of(page.get("/"))
    client.delete("s42")
    assert "s42" not in names(page.get("/"))
