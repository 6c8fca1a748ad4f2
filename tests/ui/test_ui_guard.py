"""Who may ask a page: hosts, origins, tokens; what each reply forbids a browser."""

import re

import pytest

from streamd.clients.ui.page_guard import COOKIE, Rules
from tests.ui.conftest import ORIGIN

TOKEN = "a-token-of-many-letters"
OPEN = Rules(frozenset({"page.example"}), any_address=True, token=TOKEN)
HTML = {"Accept": "text/html"}


@pytest.fixture
def local(streamd_client, page_of):
    streamd_client.xadd("s", {"f": "v"})
    return page_of(streamd_client)


@pytest.fixture
def open_page(streamd_client, page_of):
    """A page that others can reach."""
    return page_of(streamd_client, rules=OPEN)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8001", 200),
        ("localhost", 200),
        ("localhost:9", 200),
        ("[::1]:8001", 200),
        ("evil.example", 403),
        ("evil.example:8001", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.0.7:8001", 403),
        ("", 403),
        ("[", 403),
        ("evil.example@127.0.0.1", 200),  # no browser sends that; the name in it is 127.0.0.1
    ],
)
def test_a_page_on_loopback_is_asked_by_a_name_of_this_machine(local, host, status):
    assert local.get("/", headers={"Host": host}).status_code == status


def test_other_sites_may_link_to_a_page_but_not_read_it(local):
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert local.get("/", headers={**cross, "Sec-Fetch-Mode": "navigate"}).status_code == 200
    assert local.get("/", headers={**cross, "Sec-Fetch-Mode": "no-cors"}).status_code == 403
    assert local.get("/", headers={**cross, "Sec-Fetch-Mode": "cors"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/stream?key=s", "/static/style.css", "/nowhere", "/stream?key=gone"])
def test_every_reply_forbids_what_the_page_does_not_need(local, path):
    headers = local.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", ["/", "/stream?key=s", "/groups?key=s", "/idempotence", "/slow-log", "/login"])
def test_pages_hold_no_script_no_style_and_nothing_from_elsewhere(local, path):
    text = local.get(path).text
    assert re.findall(r"<script(?! src=\"/static/[a-z.]+\" defer></script>)", text) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|(?:src|href)=\"(?:https?:)?//", text) == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": ORIGIN}, 303),
        ({"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}, 303),
    ],
)
def test_only_the_page_itself_changes_something(streamd_client, page_of, headers, status):
    page = page_of(streamd_client, allow_writes=True)
    entry_id = streamd_client.xadd("s", {"f": "v"})
    streamd_client.xgroup_create("s", "g", id="0")
    streamd_client.xreadgroup("g", "c", {"s": ">"})
    reply = page.post("/group/acknowledge?key=s&group=g", data={"id": entry_id}, headers=headers)
    assert reply.status_code == status
    assert streamd_client.xpending("s", "g")["pending"] == (0 if status == 303 else 1)


@pytest.mark.parametrize("path", ["/", "/stream?key=s", "/tail?key=s", "/group?key=s&group=g", "/slow-log", "/nowhere"])
def test_without_the_token_a_page_that_others_reach_shows_nothing(open_page, path):
    reply = open_page.get(path)
    assert reply.status_code == 401
    assert "Authorization: Bearer" in reply.text
    asked = open_page.get(path, headers=HTML)
    assert (asked.status_code, asked.headers["location"]) == (303, "/login")


def test_who_gives_the_token_gets_a_cookie_that_other_sites_and_scripts_do_not(open_page):
    reply = open_page.post("/login", data={"token": TOKEN}, headers={"Origin": ORIGIN})
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert open_page.get("/").status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1], "ä"])
def test_another_token_opens_nothing(open_page, token):
    reply = open_page.post("/login", data={"token": token}, headers={"Origin": ORIGIN})
    assert reply.status_code == 403
    assert "set-cookie" not in reply.headers
    assert open_page.get("/", headers={"Authorization": b"Bearer " + token.encode()}).status_code == 401
    assert open_page.get("/", headers={"Cookie": b"%b=%b" % (COOKIE.encode(), token.encode())}).status_code == 401


def test_a_program_shows_the_token_in_a_header(open_page):
    assert open_page.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(("host", "status"), [("page.example", 401), ("192.168.0.7:8001", 401), ("evil.example", 403)])
def test_a_page_that_others_reach_is_asked_by_addresses_and_names_that_were_allowed(open_page, host, status):
    assert open_page.get("/", headers={"Host": host}).status_code == status


def test_without_a_token_no_text_is_the_token():
    assert not Rules().is_token("")
    assert not Rules().is_token("None")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_there_are_no_other_methods(local, method):
    assert local.request(method, "/").status_code == 405
