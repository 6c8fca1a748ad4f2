"""All orders in which two publishers, two gateways and the checkpoint can meet at the store, against a plain model.

The entries lie in one millisecond, so that their IDs say nothing. A publisher draws a number and then appends its
message; gateways read both shards or one of them; the store keeps the checkpoint as far as it was written.
"""

import itertools
from types import SimpleNamespace

import pytest

from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.gateway.retained import Retained
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.stored import parse_stored
from streamd.clients.topics import layout
from streamd.clients.topics.entry_ids import format_id, parse_id
from streamd.clients.topics.numbers import NONE, format_number

pytestmark = pytest.mark.interpreted(reason="the store is a test's own")

NOW_MS = 1_800_000_000_000
TOPIC = b"t"
GENERATION = layout.Generation(1, 2, "publisher", ("#",), 0, 0)


class Store:
    """Two streams, the hashes of the checkpoint, and the numbers. commands_max: so many of a checkpoint arrive."""

    def __init__(self):
        self.streams = [[], []]
        self.hashes = {}
        self.last = (NOW_MS, 0)
        self.commands_max = None

    def draw(self, highest=NONE):
        ms, seq = max(self.last, highest[:2])
        self.last = ms, seq + 1
        return *self.last, 0

    def append(self, shard, payload, number):
        fields = [b"t", TOPIC, b"p", payload, b"r", b"1"]
        if number is not None:
            fields += (b"n", format_number(number))
        self.streams[shard].append(((NOW_MS, len(self.streams[shard]) + 1), fields))

    def write(self, commands):
        for verb, key, *words in commands[: self.commands_max]:
            fields = self.hashes.setdefault(key, {})
            words = [word.encode() if type(word) is str else word for word in words]
            if verb == "HSET":
                fields.update(zip(words[::2], words[1::2], strict=True))
            else:
                assert verb == "HDEL"
                for word in words:
                    fields.pop(word, None)

    async def demand(self, words):
        verb, key, *rest = words
        if verb == "XRANGE":
            start = parse_id(rest[0].lstrip("("))
            found = self.streams[int(key.split(b"/")[1][:1])]
            return [[(format_id(one).encode(), fields) for one, fields in found if one > start]]
        fields = self.hashes.get(key, {})
        if verb == "HGET":
            return [fields.get(rest[0].encode())]
        assert verb == "HSCAN"
        return [[b"0", [word for pair in fields.items() for word in pair]]]


class Gateway:
    """A gateway that has read nothing, or what the checkpoint says."""

    def __init__(self, store, is_keeper):
        self.store = store
        log = SimpleNamespace(
            name="log",
            handle=SimpleNamespace(meta=SimpleNamespace(generations=(GENERATION,))),
            keys_of=lambda generation: [b"{log/0}:g1", b"{log/1}:g1"],
        )
        self.tailed = SimpleNamespace(log=log, generation=1, position=Position.begin(1, 2))
        self.numbering = SimpleNamespace(highest=NONE)
        self.soon = []
        self.retained = Retained(
            SimpleNamespace(
                now_ms=lambda: NOW_MS,
                limits=Limits(),
                loop=SimpleNamespace(call_soon=lambda work, *words: self.soon.append((work, words))),
                tail=SimpleNamespace(logs=[self.tailed]),
                publishing=SimpleNamespace(numbering=lambda log: self.numbering),
                history=store,
                tell_store=store.write,
                ownership=SimpleNamespace(is_keeper=is_keeper),
            )
        )

    def start(self):
        """Begin at the end of the log, and load the checkpoint, which never has to wait."""
        at = tuple(entries[-1][0] if entries else (0, 0) for entries in self.store.streams)
        self.tailed.position = Position(1, at)
        with pytest.raises(StopIteration):
            self.retained.load(self.tailed).send(None)
        return self

    def read(self, shards):
        found = []
        for shard in shards:
            at = self.tailed.position.at[shard]
            new = [(one, fields) for one, fields in self.store.streams[shard] if one > at]
            found += [parse_stored("log", 1, shard, one, fields) for one, fields in new]
            if new:
                self.tailed.position = self.tailed.position.moved(shard, new[-1][0])
        for entry in found:
            self.retained.fold(self.tailed, entry)
        while self.soon:
            work, words = self.soon.pop(0)
            work(*words)
        return self

    @property
    def message(self):
        (*found,) = self.retained._tree.matching("#")
        assert len(found) <= 1
        return found[0].payload if found else b""


def orders(*sequences):
    """Yield all orders of the steps of several actors, each of whose steps keep theirs."""
    numbers = [number for number, steps in enumerate(sequences) for _ in steps]
    for order in sorted(set(itertools.permutations(numbers))):
        left = [iter(steps) for steps in sequences]
        yield [next(left[number]) for number in order]


def play(steps, payloads, shards, commands_max=None):
    """Play steps, and return what is left at last by the numbers, and at three gateways."""
    store = Store()
    keeper, other = Gateway(store, True).start(), Gateway(store, False).start()
    numbers, stored = {}, []
    for verb, *words in steps:
        if verb == "draw":
            numbers[words[0]] = store.draw()
        elif verb == "append":
            store.append(shards[words[0][0]], payloads[words[0]], numbers[words[0]])
            stored.append(words[0])
        elif verb == "keeper":
            keeper.read(*words)
        else:
            other.read(*words)
    newest = max(numbers, key=numbers.__getitem__)
    for first, then in itertools.combinations(payloads, 2):
        if steps.index(("append", first)) < steps.index(("draw", then)):
            assert numbers[first] < numbers[then]
    found = [Gateway(store, False).start().message]  # from the checkpoint as it is now
    store.commands_max = commands_max
    keeper.read((0, 1))
    store.commands_max = None
    found += [keeper.message, other.read((1, 0)).message]
    found.append(Gateway(store, True).start().message)
    assert [one for one in ("{log}:retained", "{log}:cleared") if TOPIC in store.hashes.get(one, {})] == [
        "{log}:retained" if payloads[newest] else "{log}:cleared"
    ]
    found.append(Gateway(store, False).start().message)
    return payloads[newest], found


SET_AND_CLEARED = (b"x", b"")


@pytest.mark.parametrize("shards", [{"a": 1, "b": 0}, {"a": 0, "b": 1}], ids=str)
@pytest.mark.parametrize(
    ("payloads", "commands_max"),
    [((b"", b"y"), None), ((b"x", b"y"), None), *[(SET_AND_CLEARED, number) for number in (None, 0, 1, 2)]],
)
def test_all_gateways_and_each_restart_agree_on_the_message_with_the_highest_number(payloads, shards, commands_max):
    payloads = dict(zip("ab", payloads, strict=True))
    publishers = [[("draw", one), ("append", one)] for one in payloads]
    for steps in orders(*publishers, [("keeper", (0,)), ("keeper", (0, 1))], [("other", (0, 1))]):
        wanted, found = play(steps, payloads, shards, commands_max)
        assert found == [wanted] * len(found), steps


@pytest.mark.parametrize("shards", [{"a": 1, "b": 0}, {"a": 0, "b": 1}], ids=str)
@pytest.mark.parametrize("payloads", [(b"1", b"2", b""), (b"1", b"2", b"3"), (b"1", b"", b"3")], ids=str)
def test_the_messages_of_one_publisher_keep_their_order_beside_those_of_another(payloads, shards):
    payloads = dict(zip(("a1", "a2", "b"), payloads, strict=True))
    of_a = [("draw", "a1"), ("append", "a1"), ("draw", "a2"), ("append", "a2")]
    of_b = [("draw", "b"), ("append", "b")]
    for steps in orders(of_a, of_b, [("keeper", (1, 0))]):
        wanted, found = play(steps, payloads, shards)
        assert found == [wanted] * len(found), steps


def test_messages_without_a_number_are_below_all_with_one_and_among_themselves_by_their_place():
    for entries in itertools.permutations([(b"old", None), (b"older", None), (b"", (NOW_MS, 1, 0)), (b"x", None)]):
        for shards in itertools.product((0, 1), repeat=len(entries)):
            store = Store()
            early = Gateway(store, True).start()
            for shard, (payload, number) in zip(shards, entries, strict=True):
                store.append(shard, payload, number)
            assert early.read((0, 1)).message == Gateway(store, False).start().message == b""
            store = Store()
            for shard, (payload, _) in zip(shards, entries, strict=True):
                store.append(shard, payload, None)
            ends = [(one[-1], shard) for shard, one in enumerate(store.streams) if one]
            (_, fields), _ = max(ends, key=lambda end: (end[0][0], end[1]))
            assert Gateway(store, False).start().message == Gateway(store, True).read((1, 0)).message == fields[3]


def test_a_message_that_is_appended_long_after_its_number_was_drawn_ranks_the_same_everywhere():
    """The removal is forgotten at one gateway, and not at the other one."""
    store = Store()
    gateways = [Gateway(store, True).start(), Gateway(store, False).start()]
    late, removal = store.draw(), store.draw()
    store.append(0, b"", removal)
    for gateway in gateways:
        gateway.read((0, 1))
    fold = gateways[0].retained._fold
    assert not fold.forget_old(NOW_MS + 359_999, 10)
    assert len(fold.forget_old(NOW_MS + 360_000, 10)) == 1
    store.append(1, b"late", late)
    entry_id, fields = store.streams[1].pop()
    store.streams[1].append(((entry_id[0] + 300_001, 0), fields))
    assert [gateway.read((0, 1)).message for gateway in gateways] == [b"late", b"late"]
    assert Gateway(store, False).start().message == b"late"
    later = store.draw(gateways[1].numbering.highest)
    assert later > (NOW_MS + 1, 0, 0)
    store.append(0, b"", later)
    assert [gateway.read((0, 1)).message for gateway in gateways] == [b"", b""]
