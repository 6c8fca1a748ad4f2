"""Keyspace events: what happens to keys and to fields of hashes, published on channels named after them."""

from collections.abc import Sequence
from typing import Final

from streamd.connected.pubsub import PubSub

# Those that A stands for, and those that it does not. (`a`, of arrays, is a letter of the option and of no event here.)
_COMMON: Final = "g$lshzxetd"
ALL_CLASSES: Final = frozenset(_COMMON + "nocm")
# The letters that name channels and no class: of keys and of subkeys.
_KEY_CHANNELS: Final = frozenset("KE")
_SUBKEY_CHANNELS: Final = frozenset("STIV")
# The classes whose events name subkeys: the fields of a hash.
_WITH_SUBKEYS: Final = frozenset("h")


class KeyspaceEvents:
    """Publishes the classes of events that `notify-keyspace-events` names.

    An event of key `k` in database 0 is published on up to six channels, if their letters are asked for:

        K  __keyspace@0__:k                     event
        E  __keyevent@0__:event                 k
        S  __subkeyspace@0__:k                  event|1:f,1:g
        T  __subkeyevent@0__:event              1:k|1:f,1:g
        I  __subkeyspaceitem@0__:k\\nf           event           (one message for each field)
        V  __subkeyspaceevent@0__:event|k       1:f,1:g

    The four last ones only if fields are concerned; each name has its length before it.

    Source: https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/
    """

    def __init__(self, pubsub: PubSub) -> None:
        self._pubsub = pubsub
        self._letters: frozenset[str] = frozenset()
        self._kinds: frozenset[str] = frozenset()

    def configure(self, classes: str) -> frozenset[str]:
        """Take the option's value; return the classes of published events: none without a channel for them."""
        letters = self._letters = frozenset(classes.replace("A", _COMMON))
        self._kinds = letters & ALL_CLASSES
        if letters.isdisjoint(_KEY_CHANNELS):
            self._kinds &= frozenset() if letters.isdisjoint(_SUBKEY_CHANNELS) else _WITH_SUBKEYS
        return self._kinds

    def publish(self, kind: str, event: str, key: bytes, db_index: int, subkeys: Sequence[bytes] = ()) -> None:
        """Publish `event` on `key` and on the fields `subkeys`, if its class is asked for."""
        if kind not in self._kinds:
            return
        name = event.encode()
        if "K" in self._letters:
            self._pubsub.publish(b"__keyspace@%d__:%b" % (db_index, key), name)
        if "E" in self._letters:
            self._pubsub.publish(b"__keyevent@%d__:%b" % (db_index, name), key)
        if subkeys and not self._letters.isdisjoint(_SUBKEY_CHANNELS):
            self._publish_subkeys(name, key, db_index, subkeys)

    def _publish_subkeys(self, name: bytes, key: bytes, db_index: int, subkeys: Sequence[bytes]) -> None:
        letters, publish = self._letters, self._pubsub.publish
        listed = b",".join(map(_with_length, subkeys))
        if "S" in letters:
            publish(b"__subkeyspace@%d__:%b" % (db_index, key), b"%b|%b" % (name, listed))
        if "T" in letters:
            publish(b"__subkeyevent@%d__:%b" % (db_index, name), b"%b|%b" % (_with_length(key), listed))
        # (A channel has a line break between key and field: Redis names none where the key has one itself.)
        if "I" in letters and b"\n" not in key:
            for subkey in subkeys:
                publish(b"__subkeyspaceitem@%d__:%b\n%b" % (db_index, key, subkey), name)
        if "V" in letters:
            publish(b"__subkeyspaceevent@%d__:%b|%b" % (db_index, name, key), listed)


def _with_length(name: bytes) -> bytes:
    return b"%d:%b" % (len(name), name)
