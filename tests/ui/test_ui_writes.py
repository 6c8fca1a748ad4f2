"""Claiming and acknowledging, which a page does only when it was started with --allow-writes."""

import pytest

from tests.ui.conftest import ORIGIN
from tests.ui.test_ui_pages import fill, text_of

OWN = {"Origin": ORIGIN}


@pytest.fixture
def pending(client):
    """Three entries, delivered to ann."""
    fill(client, "s", 3)
    client.xgroup_create("s", "g", id="0")
    client.xreadgroup("g", "ann", {"s": ">"})
    return [f"{1_700_000_000_000 + number * 1000}-0" for number in (1, 2, 3)]


@pytest.fixture
def writing(client, page_of):
    return page_of(client, allow_writes=True)


def owners(client):
    found = client.xpending_range("s", "g", "-", "+", 9)
    return {one["message_id"].decode(): one["consumer"].decode() for one in found}


def test_chosen_entries_are_acknowledged(client, writing, pending):
    assert "Acknowledge" in writing.get("/group?key=s&group=g").text
    reply = writing.post("/group/acknowledge?key=s&group=g", data={"id": pending[:2]}, headers=OWN)
    assert reply.status_code == 303
    assert "2 entries acknowledged." in text_of(writing.get(reply.headers["location"]))
    assert owners(client) == {pending[2]: "ann"}


def test_chosen_entries_are_claimed_when_they_are_idle_for_long_enough(client, writing, pending):
    form = {"id": pending[1:], "for": "bob", "min-idle": "60"}
    reply = writing.post("/group/claim?key=s&group=g", data=form, headers=OWN)
    assert "0 entries claimed." in text_of(writing.get(reply.headers["location"]))
    reply = writing.post("/group/claim?key=s&group=g", data={**form, "min-idle": ""}, headers=OWN)
    assert "2 entries claimed." in text_of(writing.get(reply.headers["location"]))
    assert owners(client) == {pending[0]: "ann", pending[1]: "bob", pending[2]: "bob"}


@pytest.mark.parametrize(
    ("path", "form", "text"),
    [
        ("acknowledge", {}, "No entry was chosen"),
        ("acknowledge", {"id": "x"}, "These are no entry IDs"),
        ("claim", {"id": "1-1"}, "Say for which consumer to claim"),
        ("acknowledge", {"id": [f"{number}-1" for number in range(51)]}, "At most 50 entries at once"),
        ("acknowledge", {"id": "1-1" * 40_000}, "This form is too long"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(client, writing, pending, path, form, text):
    reply = writing.post(f"/group/{path}?key=s&group=g", data=form, headers=OWN)
    assert 400 <= reply.status_code < 500
    assert text in text_of(reply)
    assert len(owners(client)) == 3


@pytest.mark.parametrize("path", ["acknowledge", "claim"])
def test_without_allow_writes_nothing_is_changed_and_nothing_offered(client, page, pending, path):
    assert "<button>Acknowledge" not in page.get("/group?key=s&group=g").text
    reply = page.post(f"/group/{path}?key=s&group=g", data={"id": pending, "for": "bob"}, headers=OWN)
    assert reply.status_code == 403
    assert "without --allow-writes" in text_of(reply)
    assert set(owners(client).values()) == {"ann"}


@pytest.mark.parametrize("path", ["acknowledge", "claim"])
def test_nothing_is_changed_by_get(client, writing, pending, path):
    reply = writing.get(f"/group/{path}?key=s&group=g&id={pending[0]}&for=bob")
    assert reply.status_code == 405
    assert set(owners(client).values()) == {"ann"}
    assert len(owners(client)) == 3
