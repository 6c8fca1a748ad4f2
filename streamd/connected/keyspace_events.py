"""Keyspace events: what happens to keys, published on channels named after the key and after the event."""

from typing import Final

from streamd.connected.pubsub import PubSub

# Those that A stands for, and those that it does not.
_COMMON: Final = "g$lshzxetd"
ALL_CLASSES: Final = frozenset(_COMMON + "nocm")


class KeyspaceEvents:
    """Publishes the classes of events that `notify-keyspace-events` names.

    Source: https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/
    """

    def __init__(self, pubsub: PubSub) -> None:
        self._pubsub = pubsub
        self._by_key = False
        self._by_event = False
        self._kinds: frozenset[str] = frozenset()

    def configure(self, classes: str) -> frozenset[str]:
        """Take the option's value; return the classes of published events: none without K or E."""
        letters = frozenset(classes.replace("A", _COMMON))
        self._by_key = "K" in letters
        self._by_event = "E" in letters
        self._kinds = letters - {"K", "E"} if self._by_key or self._by_event else frozenset()
        return self._kinds

    def publish(self, kind: str, event: str, key: bytes, db_index: int) -> None:
        """Publish `event` on `key`, if its class is asked for."""
        if kind not in self._kinds:
            return
        name = event.encode()
        if self._by_key:
            self._pubsub.publish(b"__keyspace@%d__:%b" % (db_index, key), name)
        if self._by_event:
            self._pubsub.publish(b"__keyevent@%d__:%b" % (db_index, name), key)
