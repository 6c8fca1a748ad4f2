"""What the clients of one run have in common: where they connect, the time, how often connections break."""

import asyncio
import random
from dataclasses import dataclass

from tests.mqtt.chaos.links import Link
from tests.mqtt.chaos.records import Record

# Reasons of DISCONNECT that a client which keeps to the rules may get: stopping, keep alive, another connection of it,
# another gateway.
REASONS_OF_CHAOS = (0x00, 0x88, 0x89, 0x8B, 0x8D, 0x8E, 0x9C)


@dataclass
class World:
    """One run. interval_s: between two messages of a device; is_gateway: the broker stores an iid once.

    packets_per_cut: how many packets a connection of a device has on average before it breaks. is_over: nothing new is
    published, nothing breaks any more. others: further gateways; hop_s: where there are others, a client opens
    another connection after so long on average, while its connection is open.
    """

    record: Record
    address: tuple[str, int]
    seed: int
    interval_s: float
    zones: int = 10
    packets_per_cut: float = 25.0
    is_gateway: bool = True
    has_kills: bool = True
    is_over: bool = False
    others: tuple[tuple[str, int], ...] = ()
    hop_s: float = 8.0

    def now(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def place(self, chance: random.Random) -> tuple[str, int]:
        """Return where a client connects next."""
        return chance.choice((self.address, *self.others)) if self.others else self.address

    def patience_s(self, chance: random.Random, most_s: float) -> float:
        """Return how long a client waits for an answer before it goes elsewhere, if it can."""
        return chance.choice((most_s / 3, most_s)) if self.others else most_s

    def hops_at(self, chance: random.Random) -> float:
        """Return when a client opens its next connection although it has one."""
        return self.now() + chance.expovariate(1 / self.hop_s) if self.others else float("inf")

    def judge_forsaken(self, who: str, link: Link) -> None:
        """Note that the broker keeps a connection whose client has another one."""
        if link.is_left_open:
            self.record.fault(who, "the client has another connection, and this one stays open", link=link.number)

    def judge_end(self, who: str, link: Link, number: int) -> None:
        """Note an end of a connection that only a fault of the broker explains."""
        if link.fault is not None or (link.reason is not None and link.reason not in REASONS_OF_CHAOS):
            self.record.fault(who, f"the connection is over: {link.ended}", link=number)
