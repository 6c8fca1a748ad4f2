"""Random histories: three clients that connect, subscribe, publish, stop acknowledging, and vanish."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.mqtt.histories import steps as kinds
from tests.mqtt.histories.steps import LONG_S, SHORT_S, Step, step

CLIENTS = "abc"
LEVELS = "xy"
TOPICS = [*LEVELS, *(f"{one}/{two}" for one in LEVELS for two in LEVELS), "x/", "x/y/x"]
FILTERS = [*TOPICS, "#", "+", "+/+", "x/#", "x/+", "+/y", "+/#", "y/#", "x/+/x", "#", "x/#"]
LENGTH = (6, 28)
DEEP_SHARE = 0.5  # of histories of one session that comes and goes


@dataclass
class _Client:
    """What the generator has to know of a client, so that its steps make sense."""

    is_connected: bool = False
    version: int = 5
    expiry: int = 0  # of the session, LONG_S in 3.1.1 without clean session
    holds: bool = False
    filters: list[str] = field(default_factory=list)


@dataclass
class _Generator:
    chance: random.Random
    is_timed: bool
    may_kill: bool
    clients: dict[str, _Client] = field(default_factory=lambda: {name: _Client() for name in CLIENTS})
    must_wait: bool = False  # something short is under way: a client that returns in between is a matter of luck
    may_wait: bool = False  # a message that soon expires was published

    def next(self) -> Step | None:
        """Return a step, None if the one that was chosen makes no sense now."""
        who = self.chance.choice(CLIENTS)
        client = self.clients[who]
        if self.may_wait and self.chance.random() < 0.3:
            self.may_wait = False
            return step(kinds.WAIT)
        if not client.is_connected:
            if self.must_wait and self.chance.random() < 0.5:
                self.must_wait = False
                return step(kinds.WAIT)
            return self._connect(who, client)
        choices: list[tuple[int, Callable[[str, _Client], Step | None]]] = [
            (30, self._publish),
            (22, self._subscribe),
            (5, self._unsubscribe),
            (7, self._cut),
            (5, self._disconnect),
            (6, self._hold),
            (6 if client.holds else 0, self._release),
            (2, self._connect),  # takes over
        ]
        weights = [weight for weight, _ in choices]
        chosen = self.chance.choices([choice for _, choice in choices], weights)[0]
        if self.may_kill and self.chance.random() < 0.05:
            for one in self.clients.values():
                self._gone(one)
            return step(self.chance.choice((kinds.KILL, kinds.STOP)))
        return chosen(who, client)

    def _gone(self, client: _Client) -> None:
        client.is_connected = client.holds = False
        if client.expiry == SHORT_S:
            self.must_wait = True
        if not client.expiry:
            client.filters.clear()

    def _connect(self, who: str, client: _Client) -> Step | None:
        if self.must_wait and client.expiry == SHORT_S:
            return None
        if client.is_connected:
            self._gone(client)
            if self.must_wait and client.expiry == SHORT_S:
                return None
        client.version = self.chance.choice((4, 5, 5))
        clean = int(self.chance.random() < 0.25)
        if clean:
            client.filters.clear()
        if client.version == 4:
            client.expiry = 0 if clean else LONG_S
        else:
            client.expiry = self.chance.choice((0, LONG_S, LONG_S, SHORT_S if self.is_timed else LONG_S))
        client.is_connected, client.holds = True, self.chance.random() < 0.2
        receive = self.chance.choice((0, 0, 1, 2, 5)) if client.version == 5 else 0
        has_will = self.chance.random() < 0.25
        return step(
            kinds.CONNECT,
            who,
            version=client.version,
            clean=clean,
            expiry=client.expiry,
            receive=receive,
            hold=self.chance.choice(("all", "comp")) if client.holds else "-",
            will=self.chance.choice(TOPICS) if has_will else "-",
            wqos=self.chance.randrange(3) if has_will else 0,
            wretain=int(has_will and self.chance.random() < 0.3),
        )

    def _disconnect(self, who: str, client: _Client) -> Step:
        expiry = -1
        if client.version == 5 and client.expiry and self.chance.random() < 0.3:
            expiry = client.expiry = self.chance.choice((0, LONG_S, SHORT_S if self.is_timed else LONG_S))
        reason = 4 if client.version == 5 and self.chance.random() < 0.3 else 0
        self._gone(client)
        return step(kinds.DISCONNECT, who, expiry=expiry, reason=reason)

    def _cut(self, who: str, client: _Client) -> Step:
        self._gone(client)
        return step(kinds.CUT, who)

    def _subscribe(self, who: str, client: _Client) -> Step:
        chance = self.chance
        chosen = chance.choice(client.filters) if client.filters and chance.random() < 0.2 else chance.choice(FILTERS)
        if chosen not in client.filters:
            client.filters.append(chosen)
        qos = chance.choice((0, 1, 1, 2, 2))
        if client.version == 4:
            return step(kinds.SUBSCRIBE, who, filter=chosen, qos=qos)
        return step(
            kinds.SUBSCRIBE,
            who,
            filter=chosen,
            qos=qos,
            nl=int(chance.random() < 0.2),
            rap=int(chance.random() < 0.3),
            rh=chance.choice((0, 0, 1, 2)),
            id=chance.choice((0, 0, 1, 7, 268_435_455)),
        )

    def _unsubscribe(self, who: str, client: _Client) -> Step | None:
        if not client.filters:
            return None
        chosen = self.chance.choice(client.filters)
        client.filters.remove(chosen)
        return step(kinds.UNSUBSCRIBE, who, filter=chosen)

    def _publish(self, who: str, client: _Client) -> Step:
        chance = self.chance
        qos = chance.choice((0, 1, 1, 2, 2))
        retain = int(chance.random() < 0.3)
        empty = int(retain and chance.random() < 0.25)
        count = 1 if empty else chance.choice((1, 1, 1, 2, 4))
        torn = chance.choice((1, 2)) if qos and client.expiry == LONG_S and chance.random() < 0.15 else 0
        if torn:
            client.holds = False
        expiry = 0
        if client.version == 5 and not empty and chance.random() < (0.3 if self.is_timed else 0.1):
            expiry = SHORT_S if self.is_timed and chance.random() < 0.7 else LONG_S
            self.may_wait |= expiry == SHORT_S
        return step(
            kinds.PUBLISH,
            who,
            topic=chance.choice(TOPICS),
            qos=qos,
            retain=retain,
            expiry=expiry,
            empty=empty,
            count=count,
            torn=torn,
        )

    def _hold(self, who: str, client: _Client) -> Step | None:
        if client.holds:
            return None
        client.holds = True
        return step(kinds.HOLD, who, what=self.chance.choice(("all", "all", "comp")))

    def _release(self, who: str, client: _Client) -> Step:
        client.holds = False
        return step(kinds.RELEASE, who)


def _deep(chance: random.Random, length: int, is_timed: bool, may_kill: bool) -> Iterator[Step]:
    """Yield a history of one subscriber that comes and goes with messages in flight, and one publisher."""
    version = chance.choice((4, 5))
    receive = chance.choice((0, 0, 2, 5)) if version == 5 else 0

    def connect(who: str) -> Step:
        hold = chance.choice(("-", "all", "all", "comp")) if who == "a" else "-"
        limit = receive if who == "a" else 0
        return step(kinds.CONNECT, who, version=version, clean=0, expiry=LONG_S, receive=limit, hold=hold)

    yield connect("a")
    yield connect("b")
    for text in chance.sample(("#", "x/#", "+"), chance.choice((1, 1, 2))):
        yield step(kinds.SUBSCRIBE, "a", filter=text, qos=chance.choice((1, 2)))
    is_there = True
    for _ in range(length):
        draw = chance.random()
        if draw < 0.45:
            topic, qos, count = chance.choice(("x", "x/y")), chance.choice((0, 1, 1, 2, 2)), chance.choice((1, 2, 4))
            expiry = SHORT_S if is_timed and chance.random() < 0.5 else 0
            yield step(kinds.PUBLISH, "b", topic=topic, qos=qos, count=count, expiry=expiry)
            if expiry and chance.random() < 0.4:
                yield step(kinds.WAIT)
        elif not is_there:
            is_there = True
            yield connect("a")
        elif draw < 0.65:
            is_there = False
            yield step(chance.choice((kinds.CUT, kinds.CUT, kinds.DISCONNECT)), "a")
        elif draw < 0.75:
            yield connect("a")  # takes over
        elif draw < 0.87:
            yield step(kinds.HOLD, "a", what=chance.choice(("all", "comp")))
        elif draw < 0.96 or not may_kill:
            yield step(kinds.RELEASE, "a")
        else:
            yield step(chance.choice((kinds.KILL, kinds.STOP)))
            yield connect("b")
            yield connect("a")


def history(seed: int, *, may_kill: bool = False, timed_share: float = 0.1) -> list[Step]:
    """Return the history of a seed. timed_share: how many of all histories have expiries, and so take seconds."""
    chance = random.Random(seed)
    is_timed = chance.random() < timed_share
    if chance.random() < DEEP_SHARE:
        return list(_deep(chance, chance.randint(*LENGTH), is_timed, may_kill))
    generator = _Generator(chance, is_timed, may_kill)
    length = chance.randint(*LENGTH)
    found: list[Step] = []
    while len(found) < length:
        one = generator.next()
        if one is not None:
            found.append(one)
    return found
