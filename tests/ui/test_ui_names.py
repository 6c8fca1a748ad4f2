"""Names on a page: whole where they are read back, brief in tables, with the joiners that scripts and emoji need."""

import pytest

from streamd.clients.terminal.showing import printable
from streamd.clients.ui import shown
from streamd.clients.ui.names import brief, bytes_of, text_of, value_of

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
KSHA = "\u0915\u094d\u200d\u0937"


@pytest.mark.parametrize("text", [FAMILY, KSHA, f"{FAMILY} x"])
def test_a_joiner_between_letters_beyond_ascii_is_kept(text):
    assert text_of(text.encode()) == value_of(text.encode()) == printable(text.encode()) == text
    assert bytes_of(text_of(text.encode())) == text.encode()


@pytest.mark.parametrize("text", ["orders\u200d", "or\u200dders", "\u200d", "\u0915\u200d", "\u0915\u200dx"])
def test_a_joiner_that_would_be_invisible_is_shown(text):
    assert "\\xe2\\x80\\x8d" in text_of(text.encode())
    assert "\\u200d" in printable(text.encode())
    assert bytes_of(text_of(text.encode())) == text.encode()


def test_a_long_name_is_brief_in_a_table():
    name = b"a" * 150 + b"-the-end"
    assert len(brief(name)) == 80
    assert brief(name).startswith("aaaa")
    assert brief(name).endswith("a-the-end")
    assert brief(b"orders") == "orders"


def test_one_thing_is_not_several():
    assert [shown.plural(number, "entry", "entries") for number in (0, 1, 1_234)] == [
        "0 entries",
        "1 entry",
        "1,234 entries",
    ]
    assert shown.plural(1, "stream") == "1 stream"
