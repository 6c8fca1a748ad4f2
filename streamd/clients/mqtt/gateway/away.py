"""Looks at the applications that are away, which no gateway serves: how long the retention leaves to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from streamd.clients.mqtt.gateway.unread import Unread
from streamd.clients.mqtt.store.records import APPLICATIONS, Found, Pointer, data_key, parse_record, pointer_key

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway

_LOOKED_AT_MAX: Final = 1_000  # applications of a look: with more of them, a round takes several looks
_SLICE: Final = 50  # records between two turns of others


class Away:
    """The applications that are away, as the last round found them; only the keeper looks at them.

    number: of them. left_s: by log, how long it keeps all that they have to get. Both None before the first round.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._let_go()

    def _let_go(self) -> None:
        self.number: int | None = None
        self.left_s: dict[str, float] | None = None
        self._begin()

    def _begin(self) -> None:
        self._at = self._found = 0
        self._unread = Unread(self._gateway)

    async def look(self) -> None:
        """Look at the next ones. Raises: StoreFault."""
        gateway = self._gateway
        if not gateway.ownership.is_keeper:
            self._let_go()
            return
        words = ("ZRANGEBYSCORE", APPLICATIONS, "-inf", "(+inf", "LIMIT", self._at, _LOOKED_AT_MAX)
        (names,) = await gateway.history.demand(words)
        for at in range(0, len(names), _SLICE):
            await self._look_at([one.decode() for one in names[at : at + _SLICE]])
        self._at += len(names)
        if len(names) == _LOOKED_AT_MAX:
            return
        left_s = await self._unread.left_s()
        self.number, self.left_s = self._found, left_s
        self._begin()

    async def _look_at(self, names: list[str]) -> None:
        ask = self._gateway.history.ask
        texts = await ask(*[("GET", pointer_key(one)) for one in names])
        pointers = {name: found for name, text in zip(names, texts, strict=True) if (found := _pointer(text))}
        if not pointers:
            return
        replies = await ask(*[("HGETALL", data_key(name, one.epoch)) for name, one in pointers.items()])
        for (name, pointer), reply in zip(pointers.items(), replies, strict=True):
            if isinstance(reply, Exception):
                continue
            try:
                record = parse_record(name, Found(pointer, reply))
            except ValueError:  # a newer gateway has written it, or nobody can read it
                continue
            if record is not None and not record.has_ended(self._gateway.now_ms()):
                self._found += 1
                self._unread.note_record(record)


def _pointer(text: Any) -> Pointer | None:
    try:
        return Pointer.from_text(text) if isinstance(text, bytes) else None
    except ValueError:
        return None
