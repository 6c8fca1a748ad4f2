r"""Bytes as text, and back to the same bytes.

Keys, groups, consumers and fields are bytes; pages, addresses and forms hold text. So bytes without printable UTF-8 are
written as `\xff`, and a backslash as two. A user's input is read the same way.
"""

import re

# They join letters of many scripts, and the parts of an emoji. Beside ASCII they are nothing but invisible: two names
# would look the same.
_JOINERS = "\u200c\u200d"
# A longer name is shortened in a table: its beginning and its end are shown.
BRIEF_CHARACTERS_MAX = 80
_BRIEF_END = 20
_ESCAPED = re.compile(rb"\\(?:\\|x([0-9a-fA-F]{2}))")


def text_of(name: bytes) -> str:
    r"""Return the text that stands for bytes: `orders`, or `bin\xff`."""
    text = name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else _all_shown(text, "")


def brief(name: bytes) -> str:
    """Return the text that stands for bytes, shortened if it is long; not to be read back."""
    text = text_of(name)
    if len(text) <= BRIEF_CHARACTERS_MAX:
        return text
    return f"{text[: BRIEF_CHARACTERS_MAX - _BRIEF_END - 1]}…{text[-_BRIEF_END:]}"


def bytes_of(text: str) -> bytes:
    """Return the bytes that a text stands for; a backslash that begins no escape stays one."""
    data = text.encode("utf-8", "replace")
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()) if found[1] else b"\\", data)


def value_of(value: bytes, characters_max: int | None = None) -> str:
    """Return a value for reading: lines and tabs stay, other bytes are escaped; it is cut after some characters."""
    cut = value if characters_max is None else value[: 4 * characters_max]
    text = cut.decode("utf-8", "backslashreplace")
    text = text if text.isprintable() else _all_shown(text, "\n\t")
    if characters_max is not None and (len(text) > characters_max or len(cut) < len(value)):
        return text[:characters_max] + "…"
    return text


def _all_shown(text: str, kept: str) -> str:
    """Return a text in which all is escaped that is not printable, and not among the kept characters."""
    return "".join(
        one if one.isprintable() or one in kept or (one in _JOINERS and _joins(text, at)) else _escaped(one)
        for at, one in enumerate(text)
    )


def _joins(text: str, at: int) -> bool:
    """Return whether a joiner stands between two characters beyond ASCII."""
    around = text[max(at - 1, 0) : at] + text[at + 1 : at + 2]
    return len(around) == 2 and all(one > "\x7f" and one.isprintable() for one in around)


def _escaped(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode())
