"""Random histories of both servers, and the shortest one that still shows a difference."""

import re
import traceback
from random import Random

from streamd.stream.log.absent import Absent
from tests.cold.property.pair import Difference, Pair, Step, Undecided, small
from tests.cold.property.requests import ColdAuthor
from tests.cold.property.sides import LISTENER
from tests.differential.histories import as_text as text_of

KIB = 1024
# What one of the clients may do in some histories: its requests are looked at one by one.
RULES = (b"+@all", b"%R~*", b"%W~s*", b"%W~t")
LIMITS = [16 * KIB, 64 * KIB, 200 * KIB]


# The values of entries are long.
_LONG = re.compile("[0-9a-f]{12,}|x{100,}")


class Outcome:
    """What a history has shown. difference: as text, or None."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.history: list[Step] = []
        self.pair: Pair | None = None
        self.difference: str | None = None

    def add(self, step: Step) -> None:
        """Run a step."""
        assert self.pair is not None
        self.history.append(step)
        self.pair.run(step)


def limit_of(seed: int) -> int:
    """Return the limit in bytes with which the history of a seed begins."""
    return LIMITS[seed % len(LIMITS)]


def _guarded(outcome: Outcome, work: object) -> Outcome:
    assert callable(work)
    with small():
        outcome.pair = Pair(limit_of(outcome.seed), RULES if outcome.seed % 5 == 2 else ())
        try:
            work()
            outcome.pair.end(Random(outcome.seed))
        except Undecided:
            outcome.pair.counts["cut short"] += 1
        except Difference as difference:
            outcome.difference = str(difference)
        except (Exception, Absent):
            outcome.difference = traceback.format_exc()
        outcome.pair.plain.close()
        outcome.pair.cold.close()
    outcome.pair.counts["steps"] = len(outcome.history)
    return outcome


def write_and_run(seed: int, steps: int) -> Outcome:
    """Let the author of a seed write a history while both servers run it."""
    outcome = Outcome(seed)
    return _guarded(outcome, lambda: _write(outcome, Random(seed), steps))


def replay(seed: int, history: list[Step]) -> Outcome:
    """Run a history that was written down."""
    outcome = Outcome(seed)

    def run() -> None:
        for step in history:
            outcome.add(step)

    return _guarded(outcome, run)


def _write(outcome: Outcome, choose: Random, steps: int) -> None:
    seed, pair = outcome.seed, outcome.pair
    assert pair is not None
    author = ColdAuthor(choose, pair.plain.engine.state, collections=seed % 11 == 5)
    restarts = seed % 3 == 0
    for number in range(steps):
        author.state, author.is_exact = pair.plain.engine.state, pair.is_exact
        if choose.random() < 0.03 and not any(one.client.transaction for one in pair.plain.clients):
            author.db = pair.plain.clients[0].client.db
            for what in author.waits():
                kind = "evict" if what is None else "time" if isinstance(what, int) else "send"
                outcome.add(Step(choose.getrandbits(32), kind, what))
        outcome.add(_next(author, pair, choose, number, restarts, seed % 7 == 4))


def _next(author: ColdAuthor, pair: Pair, choose: Random, number: int, restarts: bool, turns: bool) -> Step:
    salt = choose.getrandbits(32)
    at = choose.randrange(LISTENER)
    client = pair.plain.clients[at].client
    author.db = client.db
    author.in_transaction = client.transaction is not None
    kind = choose.random()
    if number < 8 or kind < 0.1:
        return Step(salt, "send", (at, author.fill()))
    if kind < 0.16:
        return Step(salt, "time", choose.choice([1, 10, 101, 1_001, 6_000]))
    if kind < 0.2:
        return Step(salt, "evict")
    if kind < 0.24:
        return Step(salt, "move")
    if kind < 0.32:
        return Step(salt, "work", choose.choice([1, 5, 20]))
    if kind < 0.33:
        return Step(salt, "all")
    if kind < 0.345:
        return Step(salt, "rewrite")
    if kind < 0.35:
        return Step(salt, "limit", choose.choice(LIMITS))
    if restarts and kind < 0.36:
        return Step(salt, "restart", choose.choice(["in order", "kill", "power"]))
    if restarts and kind < 0.362 and pair.plain.clients[0].client.waiter is None:
        return Step(salt, "reload", choose.choice([b"RELOAD", b"LOADAOF"]))
    if turns and kind < 0.38:
        return Step(salt, choose.choice(["off", "on", "on"]))
    if kind < 0.55:
        parts = []
        for one in range(LISTENER):
            author.db = pair.plain.clients[one].client.db
            parts.append((one, [author.reading() for _ in range(choose.choice([0, 1, 1, 2]))]))
        return Step(salt, "burst", parts)
    if kind < 0.59:
        parts = []
        for one in range(LISTENER):
            author.db = pair.plain.clients[one].client.db
            parts.append((one, author.exact_all(author.reads())))
        return Step(salt, "reads", parts)
    if kind < 0.63:
        return Step(salt, "send", (at, author.exact_all(author.alike())))
    if kind < 0.66 and not author.in_transaction:
        return Step(salt, "send", (at, author.exact_all(author.sequence())))
    if kind < 0.7:
        return Step(salt, "send", (at, author.exact_all(author.pipeline(client))))
    return Step(salt, "send", (at, [author.request(client)]))


def shorten(seed: int, history: list[Step]) -> list[Step]:
    """Return a history that still shows a difference, and of which no step can be left out."""
    size = max(1, len(history) // 2)
    while True:
        end, before = len(history), len(history)
        while end > 0:
            start = max(0, end - size)
            tried = history[:start] + history[end:]
            if replay(seed, tried).difference is not None:
                history = tried
            end = start
        if size == 1 and len(history) == before:
            break
        size = max(1, size // 2)
    for at, step in enumerate(history):
        if step.kind == "send":
            client, requests = step.what
            for number in range(len(requests) - 1, -1, -1):
                fewer = requests[:number] + requests[number + 1 :]
                tried = [*history[:at], Step(step.salt, "send", (client, fewer)), *history[at + 1 :]]
                if fewer and replay(seed, tried).difference is not None:
                    history, requests = tried, fewer
    return history


def as_text(history: list[Step]) -> str:
    """Return a history as lines."""
    lines = []
    for step in history:
        if step.kind == "send":
            lines.append(text_of([step.what]))
        elif step.kind in ("burst", "reads"):
            lines.append("at once:")
            lines += ["  " + text_of([one]) for one in step.what if one[1]]
        else:
            lines.append(f"({step.kind}{'' if step.what is None else f' {step.what}'})")
    return _LONG.sub(lambda found: found[0][:8] + "...", "\n".join(lines))
