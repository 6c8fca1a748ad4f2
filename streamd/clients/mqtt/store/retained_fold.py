"""The retained messages of all logs, in the one order that all gateways agree on, and their removals."""

from collections.abc import Callable
from typing import Final

from streamd.clients.mqtt.session.expiries import Expiries
from streamd.clients.mqtt.session.retained_tree import RetainedTree
from streamd.clients.mqtt.store.stored import Stored
from streamd.clients.topics.numbers import LATE_MS, format_number

# What was stored before this moment may still be on its way to the tail, by the clocks of the store and the gateway.
_SLACK_MS: Final = 60_000


class RetainedFold:
    """The newest retained message of each topic, whatever order the messages are folded in.

    A removal is a message too: `removals` keeps its rank until nothing that ranks below it can come, so that a message
    which is read later, and is older, does not come back. The same for a message whose time is over. (A removal's
    `expires_ms` says when it may be forgotten.)
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.tree: RetainedTree[Stored] = RetainedTree()
        self.removals: dict[bytes, Stored] = {}
        self.expiries = Expiries()
        self._ends = Expiries()  # of the removals

    def newest(self, topic: bytes) -> Stored | None:
        """Return the newest message of a topic, or its removal, which has no payload."""
        return self.tree.get(topic) or self.removals.get(topic)

    def fold(self, entry: Stored) -> bool:
        """Take a message with the retain flag; return False if a newer one came before."""
        known = self.newest(entry.topic)
        if known is not None and known.log and known.rank > entry.rank:
            return False
        if entry.payload:
            self.removals.pop(entry.topic, None)
            if entry.expires_ms is not None:
                known_ms = known.expires_ms if known is not None and known.payload else None
                if known_ms is None or known_ms > entry.expires_ms:
                    self.expiries.add(entry.expires_ms, entry.topic)
            self.tree.put(entry.topic, entry)
        else:
            self.remove(entry)
        return True

    def remove(self, entry: Stored) -> Stored:
        """Remove the message of a topic; return the removal, which has the rank of this entry."""
        self.tree.remove(entry.topic)
        removal = _removal(entry)
        # (A number may be ahead of the clock, which was put back: the removal is not kept until then.)
        began_ms = min(max(entry.rank[0], entry.entry_id[0]), self._now_ms())
        removal.expires_ms = end_ms = began_ms + LATE_MS + _SLACK_MS
        self.removals[entry.topic] = removal
        self._ends.add(end_ms, entry.topic)
        return removal

    def expired(self, now_ms: int, most: int) -> list[Stored]:
        """Remove messages whose time is over; return their removals."""
        found = []
        for topic in self.expiries.due(now_ms, most):
            entry = self.tree.get(topic)
            if entry is None or entry.expires_ms is None:
                continue
            if entry.is_expired(now_ms):
                found.append(self.remove(entry))
            else:
                self.expiries.add(entry.expires_ms, topic)
        self.expiries.tidy(len(self.tree), self._expires_ms)
        return found

    def has_old(self, now_ms: int) -> bool:
        """Return whether there may be removals that are to be forgotten."""
        return self._ends.has_due(now_ms)

    def forget_old(self, read_ms: int, most: int) -> list[Stored]:
        """Forget removals that all that comes ranks above: everything was read that was stored until then."""
        found = []
        for topic in self._ends.due(read_ms, most):
            removal = self.removals.get(topic)
            if removal is not None and removal.is_expired(read_ms):  # else a newer one is there
                found.append(self.removals.pop(topic))
        self._ends.tidy(len(self.removals), self._removal_end_ms)
        return found

    def _expires_ms(self, topic: bytes) -> int | None:
        entry = self.tree.get(topic)
        return None if entry is None else entry.expires_ms

    def _removal_end_ms(self, topic: bytes) -> int | None:
        removal = self.removals.get(topic)
        return None if removal is None else removal.expires_ms


def _removal(entry: Stored) -> Stored:
    """Return the removal of a message: its topic, its place in the log and its number."""
    fields = [b"t", entry.topic, b"p", b"", b"r", b"1"]
    if entry.number is not None:
        fields += (b"n", format_number(entry.number))
    removal = Stored(entry.log, entry.generation, entry.shard, entry.entry_id, entry.topic, b"", fields)
    removal.is_retained, removal.number = True, entry.number
    return removal
