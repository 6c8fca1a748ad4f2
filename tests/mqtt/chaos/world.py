"""What the clients of one run have in common: the broker's address, the time, how often connections break."""

import asyncio
from dataclasses import dataclass

from tests.mqtt.chaos.links import Link
from tests.mqtt.chaos.records import Record

# Reasons of DISCONNECT that a client which keeps to the rules may get: stopping, keep alive, another connection of it.
REASONS_OF_CHAOS = (0x00, 0x88, 0x89, 0x8B, 0x8D, 0x8E)


@dataclass
class World:
    """One run. interval_s: between two messages of a device; is_gateway: the broker stores an iid once.

    packets_per_cut: how many packets a connection of a device has on average before it breaks. is_over: nothing new is
    published, nothing breaks any more.
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

    def now(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def judge_end(self, who: str, link: Link, number: int) -> None:
        """Note an end of a connection that only a fault of the broker explains."""
        if link.fault is not None or (link.reason is not None and link.reason not in REASONS_OF_CHAOS):
            self.record.fault(who, f"the connection is over: {link.ended}", link=number)
