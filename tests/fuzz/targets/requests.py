"""Any request waits or is answered by RESP, never by an internal error, and after a restart the state is the same.

Input: requests, one a line, words separated by blanks; they are sent to a server that holds one key of each type.
"""

import re
from functools import cache
from itertools import product

from streamd.base.clock import ManualClock
from streamd.catalog import COMMANDS
from tests.accesses import KEYS, PREPARED
from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump
from tests.session import decode

LINES_MAX = 8
BYTES_MAX = 1024
# DEBUG waits and stops for those who test, SHUTDOWN ends, JOURNAL reads files; what they take is tested by hand.
LEFT_OUT = {b"debug", b"shutdown", b"backup", b"journal", b"monitor", b"eval", b"eval_ro", b"function"}
# A negative count may ask for a reply as long as it says, from a set of one element.
_MANY = re.compile(rb"-\d{5,}|[1-9]\d{5,}")
_ASKS_FOR_MANY = re.compile(rb"(?i)[hsz]randmember|hrandfield|spop|setrange|setbit|bitfield|bitop")


def _words_of_syntax() -> list[bytes]:
    found = set()
    for command in COMMANDS.leaves():
        found.add(command.name.partition("|")[0].upper().encode())
        found |= {word.encode() for word in re.findall(r"[A-Z][A-Z-]+", command.syntax)}
    return sorted(found)


WORDS = [*_words_of_syntax(), b"stream", b"hash", b"list", b"zset", b"str", b"num", b"1-1", b"0-0", b"-", b"+",
         b"$", b">", b"(1", b"-inf", b"nan", b"-1", b"9223372036854775807", b"18446744073709551615-0",
         b" 0 ", b" 2 ", b" -3 ", b" 5 2", b" -2 -5", b"grown"]  # fmt: skip


@cache
def prepared() -> SimulatedDisk:
    """Return the disk of a server with one key of each type."""
    server = Restartable(appendfsync="no")
    for line in (*PREPARED, "SETRANGE grown 40000 x"):
        server.send(*line.split())
    return server.disk.kill()


def seeds() -> list[bytes]:
    """Return inputs to begin with: each command on each key, with integers for whatever else it needs."""
    found = []
    for command in COMMANDS.leaves():
        words = command.name.upper().encode().split(b"|")
        needed = abs(command.arity) - len(words)
        for numbers, more in product(([b"5", b"2", b"1"], [b"-2", b"-5", b"3"]), ([], [b"1"])):
            lines = []
            for key in KEYS.split() if command.keys else [""]:
                further = ([key.encode()] if key else []) + numbers * 2
                lines.append(b" ".join([*words, *further[:needed], *more]))
            found.append(b"\n".join(lines))
            if command.keys:
                found.append(b"APPEND grown x\n" + lines[0].replace(b" str", b" grown", 1))
    return found


def requests_of(data: bytes) -> list[list[bytes]]:
    """Return the requests of an input."""
    lines = data.split(b"\n")[:LINES_MAX]
    return [words for line in lines if (words := line.split(b" ")) and words[0]]


def is_left_out(words: list[bytes]) -> bool:
    """Return whether a request is none for this target."""
    asks_for_many = _ASKS_FOR_MANY.fullmatch(words[0]) and any(_MANY.fullmatch(word) for word in words)
    return words[0].lower() in LEFT_OUT or bool(asks_for_many)


def check(data: bytes) -> None:
    """Raise AssertionError unless each request is answered, and what was recorded is what is there."""
    if len(data) > BYTES_MAX:
        return
    server = Restartable(prepared().kill(), ManualClock(1_700_000_000_000), appendfsync="no")
    for words in requests_of(data):
        if is_left_out(words):
            continue
        before, mode = len(server.replies[server.client]), server.client.reply_mode
        server.run(words)
        server.end_turn()
        sent = b"".join(server.replies[server.client][before:])
        at = 0
        while at < len(sent):
            _, at = decode(sent, at)
        assert server.engine.state.stats.internal_errors == 0, words
        client = server.client
        waits = client.waiter is not None or client.unfinished is not None
        assert sent or waits or client.close_soon or mode != "on" or client.reply_mode != "on", words
    if server.persistence.is_rewriting or server.engine.state.journal is None:
        return
    found = dump(server.engine)
    server.engine.disconnect(server.client)
    assert dump(server.restart().engine) == found
