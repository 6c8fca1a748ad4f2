"""The names of a session's keys, which all brokers on a server share."""

from typing import Final

PACKET_ID_MAX: Final = 65_535
UTF8_BYTES_MAX: Final = 65_535  # MQTT's length of a string has two bytes


def check_text(what: str, text: object, is_empty_good: bool = False) -> str:
    """Return a text that MQTT can carry. Raises: ValueError."""
    if not isinstance(text, str):
        raise ValueError(f"{what} is a str, not {type(text).__name__}")
    if not text and not is_empty_good:
        raise ValueError(f"{what} is empty")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what} has a lone surrogate, which UTF-8 has not: {text!r}") from None
    if size > UTF8_BYTES_MAX:
        raise ValueError(f"{what} has {size} bytes, MQTT allows {UTF8_BYTES_MAX}")
    if "\0" in text:
        raise ValueError(f"{what} has a NUL: {text!r}")
    return text


def check_integer(what: str, number: object, least: int, most: int) -> int:
    """Return a number within bounds. Raises: ValueError."""
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise ValueError(f"{what} is an integer from {least} to {most}, not {number!r}")
    return number


class Layout:
    """The keys of sessions.

    The client ID stands in braces, so all of a session lies in one slot of a cluster. prefix: the beginning of all
    names.
    """

    def __init__(self, prefix: str = "") -> None:
        if "{" in prefix:
            raise ValueError(f"a prefix with a brace would change the hash tag: {prefix!r}")
        self._prefix = prefix

    def _tag(self, client_id: str) -> str:
        check_text("a client ID", client_id)
        if "{" in client_id or "}" in client_id:
            raise ValueError(f"a client ID with a brace would break its hash tag: {client_id!r}")
        return f"{self._prefix}{{{client_id}}}"

    def messages(self, client_id: str) -> str:
        """Return the key of the sorted set of references; a message's own key adds `_` and its packet ID."""
        return self._tag(client_id) + "_messages"

    def last_packet_id(self, client_id: str) -> str:
        """Return the key of the last packet ID that was given."""
        return self._tag(client_id) + "_last_packet_id"

    def updated_ms(self, client_id: str) -> str:
        """Return the key of the time when that packet ID was given; streamd's own, unknown to other brokers."""
        return self._tag(client_id) + "_updated_ms"
