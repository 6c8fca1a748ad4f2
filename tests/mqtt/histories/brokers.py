"""The brokers that histories are played on: mosquitto, or the gateway before a store; kept for many histories."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.mqtt.chaos.processes import STORES, Gateway, Killable, Mosquitto
from tests.mqtt.histories.deviations import GATEWAY, MOSQUITTO_2_0_11, NONE, Deviations
from tests.mqtt.histories.runner import COME_S, History, Played
from tests.mqtt.histories.steps import KILL, STOP, Step

AT_ONCE = 12  # histories that are played at one time, each under a prefix of its own
MOSQUITTO = "mosquitto"
BROKERS = (MOSQUITTO, *STORES)


class Broker:
    """A running broker. kind: mosquitto, or the store behind a gateway; or an address of one that runs already."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.deviations: Deviations = NONE
        self.processes: list[Killable] = []
        self.patience_s = COME_S
        self._histories = 0
        if kind == MOSQUITTO:
            self.deviations = MOSQUITTO_2_0_11
            self.processes = [Mosquitto(directory / kind)]
        elif kind in STORES:
            self.deviations = GATEWAY
            store = STORES[kind](directory / kind)
            self.processes = [store, Gateway(directory / "gateway", store)]
        else:
            host, _, port = kind.rpartition(":")
            self.address = (host or "127.0.0.1", int(port))

    def start(self) -> None:
        """Start its processes."""
        for process in self.processes:
            process.start()
        if self.processes:
            self.address = ("127.0.0.1", self.processes[-1].port)

    def stop(self) -> None:
        """End its processes."""
        for process in self.processes:
            process.stop()

    async def play(self, steps: Sequence[Step]) -> Played:
        """Play one history."""
        self._histories += 1
        can_kill = len(self.processes) > 1
        prefix = f"h{self._histories}/"
        kill = self._kill if can_kill else None
        return await History(steps, self.address, prefix, self.deviations, kill, self.patience_s).play()

    async def play_all(self, histories: Sequence[Sequence[Step]]) -> list[Played]:
        """Play several: those without a kill at one time, then the others one by one."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def play(steps: Sequence[Step]) -> Played:
            async with limit:
                return await self.play(steps)

        kills = [any(step.kind in (KILL, STOP) for step in steps) for steps in histories]
        found: dict[int, Played] = {}
        peaceful = [at for at, kill in enumerate(kills) if not kill]
        for at, played in zip(peaceful, await asyncio.gather(*(play(histories[at]) for at in peaceful)), strict=True):
            found[at] = played
        for at, kill in enumerate(kills):
            if kill:
                found[at] = await self.play(histories[at])
        return [found[at] for at in range(len(histories))]

    async def _kill(self, is_orderly: bool) -> None:
        gateway = self.processes[-1]
        await asyncio.to_thread(gateway.terminate if is_orderly else gateway.kill)
        await asyncio.to_thread(gateway.start)

    async def shortest(self, steps: Sequence[Step], fault: str) -> tuple[list[Step], Played]:
        """Return the shortest history found that still shows a fault of this kind, and what it came to."""
        best, played = list(steps), await self.play(steps)
        size = max(1, len(best) // 2)
        while True:
            at, is_shorter = 0, False
            while at < len(best):
                tried = best[:at] + best[at + size :]
                again = await self.play(tried)
                if kind_of(again.faults) == fault:
                    best, played, is_shorter = tried, again, True
                else:
                    at += size
            if size == 1 and not is_shorter:
                return best, played
            size = max(1, size // 2)


def kind_of(faults: Sequence[str]) -> str:
    """Return what the first fault is, without names and numbers."""
    if not faults:
        return ""
    return faults[0].split(": ", 1)[-1].split(" ", 1)[0].rstrip(":")
