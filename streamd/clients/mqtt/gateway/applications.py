"""Which clients are applications, and how those are treated: the settings of the gateway."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from streamd.clients.mqtt.codec.packets import PropertyValue
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.session.packs import Policy

KIND: Final = "kind"  # the user property of CONNECT with which a user chooses
_KINDS: Final = {"application": True, "device": False}


@dataclass(frozen=True, slots=True)
class Applications:
    """Clients with a persistent session that get their messages in packs: backends, in contrast to devices.

    ids, users: globs. pack, share_pack: messages of a pack of the client's own subscriptions, and of each shared one.
    wait_s: from the last send of a pack until the strategy decides: it is sent again, `retries` times (0: for ever),
    and then dropped; or dropped at once, if `skips`. flush: packets that are written to the socket at once.
    resend_v5: packs are sent again within a connection of MQTT 5, too, which the standard forbids.
    """

    ids: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    pack: int = 200
    share_pack: int = 500
    wait_s: int = 20
    retries: int = 3
    skips: bool = False
    flush: int = 10
    resend_v5: bool = False

    def take(self, client_id: str, user: str | None, expiry_s: int, properties: Mapping[int, PropertyValue]) -> bool:
        """Return whether a client is an application. A session that ends with its connection is always a device's."""
        if not expiry_s or not (self.ids or self.users):
            return False
        if user is not None and any(fnmatchcase(user, one) for one in self.users):
            kind = _kind_of(properties)
            return True if kind is None else kind
        return any(fnmatchcase(client_id, one) for one in self.ids)

    def policy(self, share: str | None) -> Policy:
        """Return the policy of one of a client's readers."""
        size = self.pack if share is None else self.share_pack
        return Policy(size, self.wait_s * 1_000, self.retries, self.skips)


def _kind_of(properties: Mapping[int, PropertyValue]) -> bool | None:
    pairs = properties.get(Property.USER_PROPERTY, ())
    assert isinstance(pairs, tuple)
    for pair in pairs:
        if isinstance(pair, tuple) and pair[0] == KIND and pair[1] in _KINDS:
            return _KINDS[pair[1]]
    return None
