"""Clients that send without waiting, or that do not read: what the gateway keeps for them has an end."""

import asyncio
import socket

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.gateway.connection import Connection
from tests.mqtt.gateway.door import Door
from tests.mqtt.gateway.in_process import WAIT_S, Device, connect, running


async def until(is_so):
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0)


def test_a_closed_connection_does_not_wait_for_ever_for_a_client_that_does_not_read(streamd_store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.connection._DRAIN_S", 0.2)

    async def main():
        async with running(streamd_store) as gateway:
            silent = socket.create_connection(("127.0.0.1", gateway.port))
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            stuck = Device()
            stuck.reader, stuck.writer = await asyncio.open_connection(sock=silent, limit=1)
            stuck.send(p.Connect(5, "stuck", True))
            await stuck.expect(p.Connack)
            await stuck.subscribe(p.Subscription("#", 0))
            stuck.writer.transport.pause_reading()
            connection = next(iter(gateway.connections))
            publisher = await connect(gateway.port, "publisher")
            while not connection.is_full:
                await publisher.publish(b"t", b"x" * 500_000)
            connection.close()
            await until(lambda: connection not in gateway.connections)
            stuck.writer.transport.abort()

    asyncio.run(main())


def test_a_client_that_sends_on_while_its_connect_waits_is_not_read_from(streamd_store):
    async def main():
        door = Door(streamd_store)
        await door.open()
        async with running(door.url) as gateway:
            door.hold_up()
            device = await Device().open(gateway.port)
            device.send(p.Connect(5, "d", True))
            await until(lambda: any(one.is_busy for one in gateway.connections))
            connection: Connection = next(iter(gateway.connections))
            for number in range(40):
                device.send(p.Publish(b"t", bytes(500_000), 1, packet_id=number + 1))
            await until(lambda: not connection.is_reading)
            assert gateway.counters.bytes_received < 5_000_000
            await door.open()
            await device.expect(p.Connack)
            for number in range(40):
                assert (await device.expect(p.Puback)).packet_id == number + 1

    asyncio.run(main())


def test_publishers_wait_when_the_messages_that_are_not_stored_are_large(streamd_store):
    async def main():
        door = Door(streamd_store)
        await door.open()
        async with running(door.url) as gateway:
            devices = [await connect(gateway.port, f"d{number}") for number in range(2)]
            door.hold_up()
            for device in devices:
                for _ in range(120):
                    device.send(p.Publish(b"t", bytes(500_000)))
            await until(lambda: len(gateway.paused) == 2)
            assert gateway.counters.publishes_received < 200
            await door.open()
            for device in devices:
                assert not await device.quiet()
            await until(lambda: gateway.publishing.stored == 240)
            assert not gateway.publishing.backlog_bytes

    asyncio.run(main())
