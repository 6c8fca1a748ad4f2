"""Sessions of redis-cli as documents show them, and replies in the form in which redis-cli shows them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

PROMPT = re.compile(r"^(?:[\d.]+:\d+)?> (.*)$")
LATER = re.compile(r"^\((\d+(?:\.\d+)?) seconds later\)$")


class Step(NamedTuple):
    """A request with the lines that are shown below it, or so many seconds that pass (then `line` is empty)."""

    line: str
    shown: str
    seconds: float = 0


def steps(session: str) -> Iterator[Step]:
    """Iterate the steps of a session. Raises: ValueError, for a line of no request."""
    line, below = "", []
    for text in [*session.splitlines(), "> "]:
        prompt, later = PROMPT.match(text), LATER.match(text)
        if prompt is None and later is None:
            if not line:
                raise ValueError(f"no request above {text!r}")
            below.append(text)
            continue
        if line:
            yield Step(line, "\n".join(below))
        line, below = prompt[1] if prompt else "", []
        if later:
            yield Step("", "", float(later[1]))


def shown(reply: bytes) -> str:
    """Return a reply in RESP2 as redis-cli shows it on a terminal."""
    text, rest = _shown(reply, "")
    assert rest == b"", "one reply, and nothing behind it"
    return text


def _shown(data: bytes, indent: str) -> tuple[str, bytes]:
    head, _, rest = data.partition(b"\r\n")
    kind, value = head[:1], head[1:].decode()
    if kind == b"+":
        return value, rest
    if kind == b"-":
        return f"(error) {value}", rest
    if kind == b":":
        return f"(integer) {value}", rest
    length = int(value)
    if length < 0:
        return "(nil)", rest
    if kind == b"$":
        return _quoted(rest[:length]), rest[length + 2 :]
    assert kind == b"*"
    if length == 0:
        return "(empty array)", rest
    width = len(str(length))
    lines = []
    for number in range(1, length + 1):
        item, rest = _shown(rest, indent + " " * (width + 2))
        lines.append(f"{indent if lines else ''}{number:>{width}}) {item}")
    return "\n".join(lines), rest


def _quoted(value: bytes) -> str:
    named = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(named.get(chr(one), chr(one) if 32 <= one < 127 else f"\\x{one:02x}") for one in value) + '"'
