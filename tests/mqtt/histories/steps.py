"""The steps of a history, as values and as lines of text.

    connect a version=5 clean=0 expiry=3600 receive=0
    subscribe a filter=x/+ qos=1 nl=0 rap=0 rh=0 id=7
    publish b topic=x/y qos=2 retain=1 expiry=0 empty=0 count=1 torn=0
    hold a what=all
    cut a

What a line leaves out has the value of the table below. Lines that are empty or begin with # are none.
"""

from collections.abc import Iterable
from typing import NamedTuple

CONNECT, DISCONNECT, CUT = "connect", "disconnect", "cut"
SUBSCRIBE, UNSUBSCRIBE, PUBLISH = "subscribe", "unsubscribe", "publish"
HOLD, RELEASE, WAIT, KILL, STOP = "hold", "release", "wait", "kill", "stop"
LONG_S, SHORT_S, WAIT_S = 3_600, 1, 2.6  # of expiries; a wait that lets the short ones pass

Value = int | float | str
# What each kind of step has, with what it has if nothing is said. The first word behind the kind is who does it.
FIELDS: dict[str, dict[str, Value]] = {
    # expiry: seconds that the session outlives the connection, in 5. receive: receive maximum, 0: none.
    # hold: all, or comp, as for the step of that name: from the first packet on. will: its topic. Both: - for none.
    CONNECT: {"version": 5, "clean": 1, "expiry": 0, "receive": 0, "hold": "-", "will": "-", "wqos": 0, "wretain": 0},
    # expiry: -1 leaves what CONNECT said. reason: 4 lets the will be published.
    DISCONNECT: {"expiry": -1, "reason": 0},
    CUT: {},
    # nl: No Local, rap: retain as published, rh: retain handling, id: subscription identifier, 0: none.
    SUBSCRIBE: {"filter": "#", "qos": 0, "nl": 0, "rap": 0, "rh": 0, "id": 0},
    UNSUBSCRIBE: {"filter": "#"},
    # expiry: 0 for none. empty: without a payload. count: so many at once. torn: the connection breaks in the middle of
    # the last PUBLISH (1) or behind it (2), the client returns and sends all again.
    PUBLISH: {"topic": "a", "qos": 0, "retain": 0, "expiry": 0, "empty": 0, "count": 1, "torn": 0},
    # what: all (nothing is acknowledged) or comp (all but PUBREL, which gets no PUBCOMP).
    HOLD: {"what": "all"},
    RELEASE: {},
    WAIT: {"seconds": WAIT_S},
    # The gateway ends, by kill -9 or in an orderly way, and is started again.
    KILL: {},
    STOP: {},
}
NOBODYS = (WAIT, KILL, STOP)


class Step(NamedTuple):
    """One step; who: the client, empty for what no client does."""

    kind: str
    who: str
    values: tuple[tuple[str, Value], ...]

    def number(self, name: str) -> int:
        """Return a value that is a whole number."""
        return int(dict(self.values)[name])

    def text(self, name: str) -> str:
        """Return a value that is text."""
        return str(dict(self.values)[name])

    def __str__(self) -> str:
        words = [self.kind, *([self.who] if self.who else [])]
        return " ".join([*words, *(f"{name}={value}" for name, value in self.values)])


def step(kind: str, who: str = "", **values: Value) -> Step:
    """Return a step; what is not said has the table's value. Raises: ValueError."""
    fields = FIELDS.get(kind)
    if fields is None or values.keys() - fields.keys() or bool(who) == (kind in NOBODYS):
        raise ValueError(f"no such step: {kind} {who} {values}")
    return Step(kind, who, tuple((name, values.get(name, value)) for name, value in fields.items()))


def parse(text: str) -> list[Step]:
    """Return the steps of a text. Raises: ValueError."""
    return [_parse_line(line) for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _parse_line(line: str) -> Step:
    kind, *words = line.split()
    who = words.pop(0) if words and "=" not in words[0] else ""
    if any("=" not in word for word in words):
        raise ValueError(f"no such step: {line}")
    values: dict[str, Value] = {}
    for word in words:
        name, _, value = word.partition("=")
        default = FIELDS.get(kind, {}).get(name)
        if default is None:
            raise ValueError(f"no such step: {line}")
        values[name] = type(default)(value)
    return step(kind, who, **values)


def to_text(steps: Iterable[Step]) -> str:
    """Return steps as lines."""
    return "".join(f"{one}\n" for one in steps)
