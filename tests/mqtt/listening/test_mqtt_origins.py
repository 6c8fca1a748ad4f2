"""Origins of web pages: which ones are let in, and which lists are none."""

import pytest

from streamd.clients.mqtt.listening import ListenFault
from streamd.clients.mqtt.listening.origins import Origins

HERE = "127.0.0.1:8083"


@pytest.mark.parametrize(
    ("origin", "host", "let_in"),
    [
        ("http://127.0.0.1:8083", HERE, True),
        ("http://localhost:5173", HERE, True),
        ("http://[::1]:5173", "localhost:8083", True),
        ("http://192.168.1.5", "192.168.1.5:8083", True),
        ("https://[2001:DB8::1]:99", "[2001:db8:0::1]:8083", True),
        ("http://192.168.1.6", "192.168.1.5:8083", False),
        ("https://evil.example", HERE, False),
        # Its owner can have the name resolve to this machine: that both are the same says nothing.
        ("http://evil.example:8083", "evil.example:8083", False),
        ("http://localhost.evil.example", HERE, False),
        ("http://127.0.0.1.evil.example", HERE, False),
        ("http://evil@localhost", "evil.example", False),
        # Names that a stranger cannot have.
        ("http://gateway:8083", "gateway:8083", True),
        ("http://Pi.Local", "pi.local:8083", True),
        ("http://broker.corp.internal", "broker.corp.internal:8083", True),
        ("http://gateway", "other:8083", False),
        ("http://evil.local.example", "evil.local.example", False),
        ("http://evil.", "evil.", False),
        ("null", HERE, False),
        ("null", "null", False),
        ("null", "", False),
        ("file://", HERE, False),
        ("", "", False),
        ("http://", "", False),
        ("http://localhost:port", HERE, False),
        ("http://[::1", HERE, False),
        ("http://loc\tal\xe9host", HERE, False),
    ],
)
def test_without_a_list_a_page_is_let_in_by_the_address_of_its_host(origin: str, host: str, let_in: bool):
    assert Origins(()).lets_in([origin], [host]) is let_in


@pytest.mark.parametrize(
    ("listed", "origin", "let_in"),
    [
        ("https://app.example", "https://app.example", True),
        ("HTTPS://App.Example:443/", "https://app.example", True),
        ("http://app.example:80", "http://app.example", True),
        ("https://app.example:8443", "https://app.example:8443", True),
        ("https://app.example", "https://app.example:8443", False),
        ("https://app.example", "http://app.example", False),
        ("https://app.example", "https://app.example.evil", False),
        ("https://app.example", "https://evil/https://app.example", False),
        ("https://app.example", "null", False),
        ("https://app.example", "http://127.0.0.1:8083", False),
        ("capacitor://localhost", "capacitor://localhost", True),
        ("http://[::1]:8000", "http://[::1]:8000", True),
        ("*", "https://anything.example", True),
        ("*", "null", True),
    ],
)
def test_with_a_list_an_origin_must_be_in_it(listed: str, origin: str, let_in: bool):
    assert Origins(("https://other.example", listed)).lets_in([origin], [HERE]) is let_in


@pytest.mark.parametrize("listed", [(), ("https://app.example",)])
def test_a_program_sends_no_origin_and_two_are_one_too_many(listed: tuple[str, ...]):
    assert Origins(listed).lets_in([], [HERE])
    assert Origins(listed).lets_in([], [])
    assert not Origins(listed).lets_in(["http://localhost", "http://localhost"], [HERE])
    assert not Origins(listed).lets_in(["http://localhost"], [HERE, HERE])
    assert not Origins(listed).lets_in(["http://localhost"], [])


@pytest.mark.parametrize(
    "given",
    ["", "app.example", "https://", "https://a b", "https://app.example/path", "https://user@app.example", "https://a?b",
     "https://a#b", "https://a:99999", "https://a:0", "https://[::1", "https://*.example.com/x", "https:///a", "null"],
)  # fmt: skip
def test_what_is_no_origin_is_not_taken(given: str):
    with pytest.raises(ListenFault) as raised:
        Origins((given,))
    assert "--ws-origin" in str(raised.value)
    assert "\n" not in str(raised.value)
