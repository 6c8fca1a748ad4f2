r"""Bytes as text, and back to the same bytes.

Keys, groups, consumers and fields are bytes; pages, addresses and forms hold text. So bytes without printable UTF-8 are
written as `\xff`, and a backslash as two. A user's input is read the same way.
"""

import re

_ESCAPED = re.compile(rb"\\(?:\\|x([0-9a-fA-F]{2}))")


def text_of(name: bytes) -> str:
    r"""Return the text that stands for bytes: `orders`, or `bin\xff`."""
    text = name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(_shown(character) for character in text)


def bytes_of(text: str) -> bytes:
    """Return the bytes that a text stands for; a backslash that begins no escape stays one."""
    data = text.encode("utf-8", "replace")
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()) if found[1] else b"\\", data)


def value_of(value: bytes, characters_max: int | None = None) -> str:
    """Return a value for reading: lines and tabs stay, other bytes are escaped; it is cut after some characters."""
    cut = value if characters_max is None else value[: 4 * characters_max]
    text = cut.decode("utf-8", "backslashreplace")
    text = text if text.isprintable() else "".join(c if c in "\n\t" else _shown(c) for c in text)
    if characters_max is not None and (len(text) > characters_max or len(cut) < len(value)):
        return text[:characters_max] + "…"
    return text


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode())
