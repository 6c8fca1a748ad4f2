"""What the pages show, on streamd and on redis-server."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest

from streamd.clients.server_url import without_password
from streamd.clients.ui import entries, groups, streams
from streamd.clients.ui.source import READS, WRITES, Source


def text_of(reply):
    """Return what a reader sees of a page, in one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", reply.text)).split())


def links(reply, rel):
    return [unescape(found) for found in re.findall(rf'<a rel="{rel}" href="([^"]*)"', reply.text)]


def ids(reply):
    return re.findall(r'class="id" href="[^"]*">([^<]*)<', reply.text)


def fill(client, key, count, **fields):
    with client.pipeline(transaction=False) as pipeline:
        for number in range(1, count + 1):
            pipeline.xadd(key, {"n": number, **fields}, id=f"{1_700_000_000_000 + number * 1000}-0")
        pipeline.execute()


def test_the_streams_are_listed_with_length_memory_and_rate_and_nothing_else_is(client, page):
    fill(client, "orders", 1_500)
    client.set("no-stream", "1")
    seen = text_of(page.get("/streams"))
    assert re.search(r"orders 1,500 ≈ 1.0/s \d+\.\d kB 0", seen)
    assert "no-stream" not in seen


def test_an_empty_server_says_how_to_make_a_stream(page):
    assert "XADD orders" in text_of(page.get("/streams"))


def test_a_rate_is_what_came_since_the_last_look():
    rates = streams.Rates()
    assert rates.rate(b"s", 100, 10.0) is None
    assert rates.rate(b"s", 150, 10.5) is None  # too soon to say
    assert rates.rate(b"s", 300, 12.0) == 100.0
    assert rates.rate(b"s", 301, 12.1) == 100.0
    assert rates.rate(b"s", 5, 20.0) is None  # another stream of that name
    assert rates.rate(b"s", 5, 21.0) == 0.0


def test_thousands_of_streams_come_a_page_at_a_time_each_once(client, page):
    names = {f"s{number}" for number in range(2_000)}
    for name in names:
        client.xadd(name, {"f": "v"}, id="1-0")
    found, address = [], "/streams"
    while address:
        reply = page.get(address)
        some = re.findall(r'href="/stream\?key=(s\d+)"', reply.text)
        assert len(some) < 200
        found += some
        address = next(iter(links(reply, "next")), None)
    assert set(found) == names
    assert len(found) < 2_100  # (SCAN may give a key twice)


def test_a_stream_is_found_among_other_keys_by_name_part_and_pattern(client, page):
    client.mset({f"other:{number}": "x" for number in range(3_000)})
    fill(client, "the-orders", 1)
    fill(client, "the-carts", 1)
    for match in ("the-orders", "orders", "*-ord*"):
        seen = text_of(page.get("/streams", params={"match": match}))
        assert "the-orders" in seen
        assert "the-carts" not in seen


def test_entries_come_the_newest_first_and_each_page_leads_on(client, page):
    fill(client, "s", 120)
    first = page.get("/stream?key=s")
    assert len(ids(first)) == entries.ENTRIES_PER_PAGE
    assert ids(first)[0] == "1700000120000-0"
    second = page.get(links(first, "next")[0])
    third = page.get(links(second, "next")[0])
    every = ids(first) + ids(second) + ids(third)
    assert every == [f"{1_700_000_000_000 + number * 1000}-0" for number in range(120, 0, -1)]
    assert links(third, "next") == []
    assert ids(page.get(links(second, "prev")[0])) == ids(first)


@pytest.mark.parametrize("at", ["1700000100000-0", "1700000100000", "2023-11-14T22:15:00", "2023-11-14 23:15:00+01:00"])
def test_a_place_is_found_by_id_and_by_time(client, page, at):
    fill(client, "s", 120)
    seen = ids(page.get("/stream", params={"key": "s", "at": at}))
    assert seen[-1] == "1700000100000-0"
    assert len(seen) == 21


def test_how_long_ago_goes_by_the_servers_clock(streamd_server, streamd_client, page_of):
    streamd_client.xadd("s", {"n": "old"})
    streamd_server.advance(seconds=600)
    young = streamd_client.xadd("s", {"n": "young"})
    assert ids(page_of(streamd_client).get("/stream?key=s&at=5m")) == [young]


def test_what_is_no_place_is_answered_with_what_is(client, page):
    fill(client, "s", 1)
    reply = page.get("/stream?key=s&at=yesterday")
    assert reply.status_code == 400
    assert "'yesterday' is no place in a stream: give an entry ID" in text_of(reply)


def test_entries_are_found_by_field_and_value_over_many_pages(client, page, monkeypatch):
    monkeypatch.setattr(entries, "SEARCH_S_MAX", 60.0)
    fill(client, "s", 2_000)
    client.xadd("s", {"m": "77"})
    reply = page.get("/stream?key=s&field=n&value=77")
    wanted = [number for number in range(2_000, 0, -1) if "77" in str(number)]
    assert ids(reply) == [f"{1_700_000_000_000 + number * 1000}-0" for number in wanted]
    assert f"{len(wanted)} found among 2,001 entries" in text_of(reply)


def test_a_search_that_takes_long_stops_and_goes_on_where_it_was(client, page, monkeypatch):
    monkeypatch.setattr(entries, "SEARCH_S_MAX", -1.0)
    fill(client, "s", 1_200)
    found, address, pages = [], "/stream?key=s&field=n&value=99", 0
    while address:
        reply = page.get(address)
        found += ids(reply)
        address, pages = next(iter(links(reply, "next")), None), pages + 1
    assert found == [f"{1_700_000_000_000 + number * 1000}-0" for number in range(1_200, 0, -1) if "99" in str(number)]
    assert pages == 3


@pytest.mark.parametrize(("start", "wanted", "rel"), [("", "first", "next"), ("&at=0-0", "last", "prev")])
def test_a_search_without_a_hit_so_far_says_so_and_leads_on_to_the_hit(client, page, monkeypatch, start, wanted, rel):
    monkeypatch.setattr(entries, "SEARCH_S_MAX", -1.0)
    client.xadd("s", {"n": "first"}, id="1-0")
    fill(client, "s", 1_200)
    client.xadd("s", {"n": "last"}, id="1700009999000-0")
    reply = page.get(f"/stream?key=s&value={wanted}{start}")
    assert "0 found among 500 entries" in text_of(reply)
    assert "Nothing found among these entries yet" in text_of(reply)
    pages = 1
    while not ids(reply):
        reply, pages = page.get(links(reply, rel)[0]), pages + 1
    assert ids(reply) == [{"first": "1-0", "last": "1700009999000-0"}[wanted]]
    assert pages == 3


def test_a_search_through_all_entries_without_a_hit_ends(client, page):
    fill(client, "s", 20)
    reply = page.get("/stream?key=s&value=none")
    assert "Nothing found." in text_of(reply)
    assert links(reply, "next") == []


def test_a_search_from_a_time_goes_to_newer_entries(client, page):
    fill(client, "s", 200)
    reply = page.get("/stream?key=s&at=1700000100000&value=5")
    assert ids(reply) == [
        f"{1_700_000_000_000 + number * 1000}-0" for number in range(200, 99, -1) if "5" in str(number)
    ]


def test_pages_of_large_entries_are_short(client, page):
    for _ in range(20):
        client.xadd("s", {"blob": b"x" * 1_000_000})
    reply = page.get("/stream?key=s")
    assert 1 <= len(ids(reply)) <= 5
    assert len(reply.content) < 20_000


def test_an_entry_is_shown_whole_and_as_text_whatever_it_is(client, page):
    value = b"<script>alert(1)</script>\xff\n" + b"long" * 1_000
    entry_id = client.xadd("s", {b"<b>": value}).decode()
    listed, whole = page.get("/stream?key=s"), page.get("/entry", params={"key": "s", "id": entry_id})
    for reply in (listed, whole):
        assert "<script>alert" not in reply.text
        assert "<b>" not in reply.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;\\xff" in reply.text
    assert "long" * 1_000 not in listed.text
    assert "long" * 1_000 in whole.text


@pytest.mark.parametrize("key", [b"a/b?c=d&e", b"\xff\x00\r\n\\x", "größe".encode(), b"../..", b"\\xff", b"a b+c%20"])
def test_a_key_may_be_any_bytes(client, page, key):
    client.xadd(key, {"f": "v"}, id="5-1")
    client.xgroup_create(key, key, id="0")
    client.xreadgroup(key, key, {key: ">"})
    (address,) = {unescape(found) for found in re.findall(r'href="(/stream\?[^"]*)"', page.get("/streams").text)}
    assert ids(page.get(address)) == ["5-1"]
    (address,) = {unescape(found) for found in re.findall(r'href="(/groups\?[^"]*)"', page.get(address).text)}
    (address,) = {unescape(found) for found in re.findall(r'href="(/group\?[^"]*)"', page.get(address).text)}
    reply = page.get(address)
    assert ids(reply) == ["5-1"]
    hidden = unescape(re.search(r'name="key" value="([^"]*)"', reply.text)[1])
    assert page.get("/stream", params={"key": hidden}).status_code == 200


def test_the_tail_gives_what_came_behind_an_id_and_says_what_it_passed_over(client, page):
    fill(client, "s", 10)
    reply = page.get("/tail?key=s&after=1700000007000-0")
    assert ids(reply) == [f"{1_700_000_000_000 + number * 1000}-0" for number in (10, 9, 8)]
    assert 'data-newest="1700000010000-0"' in reply.text
    assert ids(page.get("/tail?key=s&after=1700000010000-0")) == []
    fill(client, "t", 200)
    reply = page.get("/tail?key=t&after=1700000001000-0")
    assert ids(reply)[0] == "1700000200000-0"
    assert len(ids(reply)) == entries.ENTRIES_PER_PAGE
    assert "not shown" in text_of(reply)


def test_every_link_leads_to_a_page_also_at_the_ends_of_what_an_id_can_be(client, page):
    client.xgroup_create("empty", "g", mkstream=True)
    for entry_id in ("0-1", "18446744073709551615-18446744073709551615"):
        client.xadd("ends", {"f": "v"}, id=entry_id)
    ends = ["after=18446744073709551615-18446744073709551615", "before=0-0", "at=0-0", "at=18446744073709551616"]
    addresses = [f"/stream?key={key}&{end}" for key in ("empty", "ends") for end in ends]
    for address in addresses:
        reply = page.get(address)
        assert reply.status_code in (200, 400), (address, text_of(reply))
        addresses += [link for link in links(reply, "next") + links(reply, "prev") if link not in addresses]
    assert page.get(f"/tail?key=ends&{ends[0]}").status_code == 200
    assert "before=0-0" not in "".join(addresses[8:])


def test_groups_are_shown_with_lag_pending_entries_and_consumers(client, page):
    fill(client, "s", 100)
    client.xgroup_create("s", "billing", id="0")
    client.xgroup_create("s", "mail", id="$")
    client.xreadgroup("billing", "ann", {"s": ">"}, count=60)
    client.xreadgroup("billing", "bob", {"s": ">"}, count=10)
    client.xack("s", "billing", "1700000001000-0")
    seen = text_of(page.get("/groups?key=s"))
    assert "billing 30 69 2 1700000070000-0" in seen
    first = page.get("/group?key=s&group=billing")
    assert re.search(r"ann 59 .* bob 10 ", text_of(first))
    second = page.get(links(first, "next")[0])
    assert ids(first) + ids(second) == [f"{1_700_000_000_000 + number * 1000}-0" for number in range(2, 71)]
    assert len(ids(page.get("/group?key=s&group=billing&consumer=bob"))) == 10
    assert "Nothing is pending that fits" in text_of(page.get("/group?key=s&group=billing&idle=3600"))


def test_more_groups_and_consumers_than_a_server_should_be_asked_for_are_not_asked_for(client, page, monkeypatch):
    monkeypatch.setattr(groups, "LISTED_MAX", 2)
    fill(client, "s", 5)
    for name in ("g1", "g2"):
        client.xgroup_create("s", name, id="0")
    for consumer in ("c1", "c2", "c3"):
        client.xreadgroup("g1", consumer, {"s": ">"}, count=1)
    assert "More than 2" in text_of(page.get("/group?key=s&group=g1"))
    client.xgroup_create("s", "g3", id="0")
    assert "3 consumer groups" in text_of(page.get("/groups?key=s"))
    assert len(ids(page.get("/group?key=s&group=g1&consumer=c2"))) == 1


def test_producers_windows_and_duplicates_are_shown_where_the_server_has_them(client, page):
    has_windows = client.execute_command("COMMAND INFO", "XCFGSET") not in ([None], {})
    if not has_windows:
        client.xadd("orders", {"cents": 4990})
        assert "This server does not have them" in text_of(page.get("/idempotence"))
        assert "Duplicates" not in text_of(page.get("/stream?key=orders"))
        return
    for _ in range(3):
        client.xadd("orders", {"cents": 4990}, idmp=("svc-7", b"order-1001"))
    client.xadd("orders", {"cents": 4990}, idmp=("svc-8", b"order-1001"))
    seen = text_of(page.get("/idempotence"))
    assert "orders 1 min 40 s 100 2 2 2 2" in seen
    assert "XADD orders IDMP svc-7 order-1001 * cents 4990" in seen
    assert "Duplicates 2" in text_of(page.get("/stream?key=orders"))


def test_the_slow_log_shows_what_took_long_and_by_whom(client, page):
    client.client_setname("worker-3")
    before = client.config_get("slowlog-log-slower-than")
    client.config_set("slowlog-log-slower-than", 0)
    client.xadd("orders", {f"field{number}": number for number in range(20)})
    client.config_set("slowlog-log-slower-than", before["slowlog-log-slower-than"])
    reply = page.get("/slow-log")
    assert "XADD orders * field0 0" in text_of(reply)
    assert "field19" not in text_of(reply)
    assert "worker-3" in text_of(reply)


@pytest.mark.parametrize(
    ("address", "status", "text"),
    [
        ("/stream?key=gone", 404, "There is no such stream"),
        ("/stream?key=text", 404, "This key holds no stream"),
        ("/group?key=s&group=gone", 404, "There is no such consumer group"),
        ("/entry?key=s&id=1-1", 404, "There is no such entry"),
        ("/entry?key=s&id=x", 400, "'x' is no entry ID"),
        ("/stream?key=s&before=-", 400, "'-' is no entry ID"),
        ("/nowhere", 404, "There is no such page"),
        ("/stream?key=s&before=99999999999999999999-0", 400, "'99999999999999999999-0' is no entry ID"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_sentence(client, page, address, status, text):
    client.set("text", "1")
    fill(client, "s", 1)
    reply = page.get(address)
    assert reply.status_code == status
    assert text in text_of(reply)


def test_a_server_that_is_gone_is_said_and_its_password_is_not(page_of):
    from starlette.testclient import TestClient

    from streamd.clients.ui.page_guard import Rules
    from streamd.clients.ui.pages import application

    source = Source("redis://:secret-word@127.0.0.1:1")
    reply = TestClient(application(source, Rules()), base_url="http://localhost").get("/")
    assert reply.status_code == 503
    assert "cannot be reached" in reply.text
    assert "secret-word" not in reply.text
    assert without_password("rediss://ann:pw@host:7000/2?password=x") == "rediss://host:7000/2?password=..."


def test_no_page_asks_for_more_than_a_page_or_for_anything_that_changes_something(client, page, monkeypatch):
    fill(client, "s", 3_000)
    client.xgroup_create("s", "g", id="0")
    client.xreadgroup("g", "c", {"s": ">"}, count=1_000)
    asked, send = [], Source._send

    def noting(source, requests):
        replies = send(source, requests)
        together = len(requests) > 1  # between MULTI and EXEC
        asked.extend(zip(requests[1:-1], replies[-1], strict=True) if together else zip(requests, replies, strict=True))
        return replies

    monkeypatch.setattr(Source, "_send", noting)
    before = client.xinfo_stream("s")
    addresses = ["/", "/streams", "/groups/all"]
    addresses += ["/stream?key=s", "/stream?key=s&value=nothing", "/stream?key=s&at=5", "/tail?key=s&after=1-0"]
    addresses += ["/groups?key=s", "/group?key=s&group=g", "/idempotence", "/slow-log", "/entry?key=s&id=1700000001000"]
    for address in addresses:
        assert page.get(address).status_code in (200, 404), address
    names = {request[0] for request, _ in asked}
    assert names <= READS
    assert not READS & WRITES
    for info in client.execute_command("COMMAND INFO", *sorted({name.split()[0] for name in names})):
        assert not {"write", b"write"} & set(info[2])
    for request, reply in asked:
        if request[0] in ("XRANGE", "XREVRANGE", "XPENDING"):
            assert len(reply) <= entries.SEARCHED_PER_PAGE + 1
    assert client.xinfo_stream("s") == before


def test_the_paths_of_parameters_come_back(client, page):
    fill(client, "a&b", 400)
    address, _ = links(page.get("/stream", params={"key": "a&b", "value": "1"}), "next")  # above and below the entries
    assert parse_qs(urlsplit(address).query)["key"] == ["a&b"]
