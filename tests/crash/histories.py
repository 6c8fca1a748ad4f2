"""Short histories of requests that touch everything a journal has to bring back."""

import random

from tests.crash.restartable import Restartable

Request = list[bytes]


def words(line: str) -> Request:
    """Return the words of a request written as one line; `''` is the empty word."""
    return [b"" if word == "''" else word.encode() for word in line.split()]


# Each line is a turn; a `;` separates requests of one turn (a pipeline).
SMALL = """
XADD s 1-1 f v ; XADD s 2-1 f v g w
XADD s IDMP p1 i1 * n 1
XADD s IDMP p1 i1 * n 1 ; XADD s IDMP p1 i2 * n 2 ; XADD s IDMPAUTO p2 * n 3
SET k v PX 100000 ; HSET h a 1 b 2 ; INCRBY n 5
MULTI ; XADD s IDMP p3 i1 * in transaction ; SET m1 x ; SELECT 3 ; SET m2 y ; XADD t * a b ; EXEC
SELECT 0
XCFGSET t2 IDMP-DURATION 5 ; XADD t2 * a b ; XCFGSET t2 IDMP-DURATION 5 IDMP-MAXSIZE 3
XDEL s 1-1 ; XTRIM s MAXLEN 3 ; XSETID s 9999999999999-0 ENTRIESADDED 50
XGROUP CREATE s g 0 ; XGROUP CREATE fresh g $ MKSTREAM
RENAME t2 t3 ; COPY s s2 ; HDEL h a ; DEL n ; PERSIST k ; EXPIRE h 50
XIDMP CFGSET s DURATION 60 MAXSIZE 4 ; XADD s IDMP p1 i9 * n 9 ; XADD s IDMP p1 i9 * n 9
""".strip().splitlines()

# The same with a turn for each request or transaction.
SINGLE = [part for line in SMALL for part in ([line] if "MULTI" in line else line.split(" ; "))]

LAST_THREE = ["XADD s IDMP p8 last-1 * a 1", "MULTI ; SET m1 z ; XADD s IDMP p8 last-2 * a 2 ; DEL k ; EXEC",
              "XADD s IDMP p8 last-3 * a 3"]  # fmt: skip


def play(server: Restartable, lines: list[str]) -> list[bool]:
    """Run the turns; return for each whether all of its replies have left, and as no refusal of the journal's."""
    acknowledged = []
    for line in lines:
        requests = [words(request) for request in line.split(";")]
        before = len(server.replies[server.client])
        server.run(*requests)
        server.end_turn()
        server.clock.advance(7)
        replies = server.replies[server.client][before:]
        acknowledged.append(len(replies) == len(requests) and not any(reply.startswith(b"-MISC") for reply in replies))
    return acknowledged


def random_turns(seed: int, turns: int) -> list[str]:
    """Return turns of writes on few keys, iids and databases, so that they meet."""
    chance = random.Random(seed)
    pick = chance.choice
    made = []
    for number in range(turns):
        stream, key = pick("st"), pick("kl")
        made.append(pick((
            f"XADD {stream} IDMP p{pick('12')} i{number} * n {number}",
            f"XADD {stream} IDMP p{pick('12')} i{number} * n {number}"
            f" ; XADD {stream} IDMP p1 i{chance.randrange(9)} * n d",
            f"XADD {stream} * n {number} x {'y' * chance.randrange(200)}",
            f"MULTI ; XADD {stream} * n {number} ; SET {key} {number} ; EXEC",
            f"SET {key} {number} ; APPEND {key} x",
            f"XTRIM {stream} MAXLEN {chance.randrange(5, 9)}",
            f"SELECT {pick('01')}",
            f"HSET h{pick('12')} f {number}",
            f"DEL {pick(('s', 'k', 'h1'))}",
        )))  # fmt: skip
    return made
