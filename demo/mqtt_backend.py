"""The backend of the MQTT demo: works on each reading once, and is killed in the middle of a pack."""

import argparse
import asyncio
import os
import signal
import sqlite3
from collections.abc import Iterable, Sequence

from demo.mqtt_device import Client
from streamd.clients.mqtt.codec.packets import (
    Connack,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
)
from streamd.clients.mqtt.codec.properties import Property

NAME = "backend-readings"
COLLECT_S = 0.1  # so long it collects packets for one transaction
BEFORE, AFTER = "before its commit", "between its commit and its answers"
SUBSCRIBED = "subscribed"

TABLES = """
pragma journal_mode = wal;
create table if not exists work (device text, value real);
create table if not exists again (device text);
create table if not exists done (topic text, iid text, primary key (topic, iid));
create table if not exists unreleased (packet_id integer primary key);
"""


class Backend(Client):
    """One life of the backend. It answers a packet when its work on it is committed.

    It recognises a reading that comes again: one of QoS 1 by its name, one of QoS 2 by its packet identifier.
    It writes both into the transaction of its work.
    """

    def __init__(self, ports: Sequence[int], filter: str, database: str, is_first: bool, has_memory: bool) -> None:
        super().__init__(NAME, ports, is_first)
        self._filter, self._has_memory = filter, has_memory
        self._db = sqlite3.connect(database, isolation_level=None)
        self._db.executescript(TABLES)
        self._group: list[Publish | Pubrel] = []
        self._dies: str | None = None
        self._dies_at = 0
        self._timer: asyncio.TimerHandle | None = None

    def die(self, moment: str, readings: int) -> None:
        """Be killed at this moment of the first pack after so many readings."""
        self._dies, self._dies_at = moment, readings

    async def run(self) -> None:
        """Work until the process ends."""
        async for packet in self.packets():
            if isinstance(packet, Connack):
                if not packet.session_present:
                    self._db.execute("delete from unreleased")
                self.send(Subscribe(1, (Subscription(self._filter, 2),)))
            elif isinstance(packet, Suback):
                print(SUBSCRIBED, flush=True)
            elif isinstance(packet, Publish | Pubrel):
                self._group.append(packet)
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(COLLECT_S, self._work)

    def close(self) -> None:
        """Close the connection, and forget what it has brought: that comes again."""
        self._group.clear()
        super().close()

    def _work(self) -> None:
        self._timer = None
        readings = [place for place, packet in enumerate(self._group) if isinstance(packet, Publish)]
        if self._dies is not None and len(readings) > 1 and self._count() >= self._dies_at:
            answered = len(readings) // 2
            print(
                f"dies in the middle of a pack, {answered} of {len(readings)} readings answered, {self._dies}",
                flush=True,
            )
            self._work_and_die(self._dies, readings[answered])
        group, self._group = self._group, []
        self._commit(group)
        self._answer(group)

    def _work_and_die(self, moment: str, middle: int) -> None:
        self._commit(self._group[:middle])
        self._answer(self._group[:middle])
        self._db.execute("begin")
        self._take(self._group[middle:])
        if moment == AFTER:
            self._db.execute("commit")
        os.kill(os.getpid(), signal.SIGKILL)

    def _commit(self, packets: Sequence[Packet]) -> None:
        self._db.execute("begin")
        self._take(packets)
        self._db.execute("commit")

    def _take(self, packets: Iterable[Packet]) -> None:
        for packet in packets:
            if isinstance(packet, Pubrel):
                self._db.execute("delete from unreleased where packet_id = ?", (packet.packet_id,))
            elif isinstance(packet, Publish):
                device = packet.topic.split(b"/")[1].decode()
                if self._note(packet) or not self._has_memory:
                    self._db.execute("insert into work values (?, ?)", (device, float(packet.payload)))
                else:
                    self._db.execute("insert into again values (?)", (device,))

    def _note(self, packet: Publish) -> bool:
        """Note a message; return whether it was not noted before."""
        if packet.qos == 2:
            noted = self._db.execute("insert or ignore into unreleased values (?)", (packet.packet_id,))
        else:
            name = packet.topic.decode(), iid_of(packet)
            noted = self._db.execute("insert or ignore into done values (?, ?)", name)
        return noted.rowcount == 1

    def _answer(self, packets: Iterable[Packet]) -> None:
        for packet in packets:
            if isinstance(packet, Pubrel):
                self.send(Pubcomp(packet.packet_id))
            elif isinstance(packet, Publish):
                self.send(Pubrec(packet.packet_id) if packet.qos == 2 else Puback(packet.packet_id))

    def _count(self) -> int:
        ((count,),) = self._db.execute("select count(*) from work")
        return int(count)


def iid_of(packet: Publish) -> str:
    """Return the name that a device has given to its message."""
    pairs = packet.properties.get(Property.USER_PROPERTY, ())
    assert isinstance(pairs, tuple)
    return dict(pairs)["iid"]  # type: ignore[arg-type]


def main() -> None:
    """Be a backend until the process ends."""
    parser = argparse.ArgumentParser(prog="python -m demo.mqtt_backend")
    parser.add_argument("--ports", type=int, nargs="+", required=True)
    parser.add_argument("--filter", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--is-first", action="store_true", help="begin without a session")
    parser.add_argument("--dies", choices=(BEFORE, AFTER))
    parser.add_argument("--after", type=int, default=0, help="the readings after which it dies")
    parser.add_argument("--forgetful", action="store_true", help="recognise no reading that comes again")
    options = parser.parse_args()
    backend = Backend(options.ports, options.filter, options.database, options.is_first, not options.forgetful)
    if options.dies is not None:
        backend.die(options.dies, options.after)
    asyncio.run(backend.run())


if __name__ == "__main__":
    main()
