"""Splits an inline request, a line as a person types it, into words."""

import re
from typing import Final

from streamd.base.errors import ProtocolError

_BLANKS: Final = re.compile(rb"[ \t\n\v\f\r]*")
# In a word without quotes only these end it: Redis skips \v and \f between words, but keeps them in one.
_UNQUOTED: Final = re.compile(rb"[^ \t\n\r\"']+")
_DOUBLE_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*+)"(?=[ \t\n\v\f\r]|\Z)', re.DOTALL)
_SINGLE_QUOTED: Final = re.compile(rb"'((?:\\'|[^'])*+)'(?=[ \t\n\v\f\r]|\Z)", re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_CONTROL: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


def _unescape(match: re.Match[bytes]) -> bytes:
    code, letter = match.groups()
    return bytes((int(code, 16),)) if code is not None else _CONTROL.get(letter, letter)


def split_inline(line: bytes) -> list[bytes]:
    r"""The words of a line without its line end; empty if it is blank.

    Words are separated by blanks. `"..."` knows `\n \r \t \b \a \xHH` and takes any other character behind a backslash
    as it is; `'...'` knows `\'` alone. A quote may open within a word, and its end ends the word.

    Raises: ProtocolError where a quote is not closed, or something follows its end.
    Source: https://redis.io/docs/latest/develop/reference/protocol-spec/#inline-commands, and a running redis-server.
    """
    if b'"' not in line and b"'" not in line and b"\v" not in line and b"\f" not in line:
        return line.split()
    words = []
    at = _skip_blanks(line, 0)
    while at < len(line):
        word, at = _word(line, at)
        words.append(word)
        at = _skip_blanks(line, at)
    return words


def _skip_blanks(line: bytes, at: int) -> int:
    match = _BLANKS.match(line, at)
    assert match is not None
    return match.end()


def _word(line: bytes, at: int) -> tuple[bytes, int]:
    """The word that begins at `at`, and where it ends. Raises: ProtocolError."""
    word = b""
    plain = _UNQUOTED.match(line, at)
    if plain is not None:
        word = plain.group()
        at = plain.end()
    quote = line[at : at + 1]
    if quote == b'"':
        quoted = _DOUBLE_QUOTED.match(line, at)
        if quoted is None:
            raise ProtocolError("unbalanced quotes in request")
        return word + _ESCAPE.sub(_unescape, quoted.group(1)), quoted.end()
    if quote == b"'":
        quoted = _SINGLE_QUOTED.match(line, at)
        if quoted is None:
            raise ProtocolError("unbalanced quotes in request")
        return word + quoted.group(1).replace(b"\\'", b"'"), quoted.end()
    return word, at
