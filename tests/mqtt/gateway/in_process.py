"""A gateway inside of a test, and devices that speak to it over sockets."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager

from streamd.clients.mqtt.access import Access
from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.gateway.gateway import Gateway, Settings
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.listening import Listeners, start
from streamd.clients.mqtt.store.logs import LogSettings
from streamd.clients.mqtt.store.records import Pointer, data_key, pointer_key

WAIT_S = 60


class Running:
    """A gateway and its port: compiled, it takes no attributes that are not its own."""

    def __init__(self, gateway, port):
        vars(self).update(gateway=gateway, port=port)

    def __getattr__(self, name):
        return getattr(self.gateway, name)

    def __setattr__(self, name, value):
        setattr(self.gateway, name, value)


@asynccontextmanager
async def running(url, *, logs=(), shards=2, password_file=None, acl_file=None, limits=None, **settings):
    """A gateway on a store, with its port in `gateway.port`."""
    found = [*logs, LogSettings("mqtt", None, shards, 86_400)]
    access = Access(password_file, acl_file)
    gateway = Gateway(Settings(url, found, access, limits or Limits(), **settings))
    await gateway.start()
    listening = await start(gateway.loop, Listeners(port=0), lambda kind, _: gateway.make_connection(kind))
    try:
        yield Running(gateway, int(listening.places[0][1].rpartition(":")[2]))
    finally:
        listening.close()
        await gateway.stop()


async def data_key_of(client, client_id):
    """Return the key of a session's hash, as the store says where it is; one that no session has without it."""
    text = await client.get(pointer_key(client_id))
    return data_key(client_id, 0 if text is None else Pointer.from_text(text).epoch)


async def put_record(client, client_id, fields):
    """Store a session that nobody owns."""
    await client.set(pointer_key(client_id), Pointer(1, None).to_text())
    await client.hset(data_key(client_id, 1), mapping=fields)


class Device:
    """A client of a test: packets out, packets in."""

    def __init__(self, version=5):
        self.version = version
        self.decoder = Decoder(from_client=False, version=version)
        self.packets = deque()
        self.packet_id = 0

    async def open(self, port):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    def send(self, *packets):
        self.writer.write(b"".join(encode(one, self.version) for one in packets))

    async def packet(self):
        """Return the next packet; None when the connection is closed."""
        async with asyncio.timeout(WAIT_S):
            while not self.packets:
                data = await self.reader.read(65_536)
                if not data:
                    return None
                self.packets.extend(self.decoder.feed(data))
                assert self.decoder.fault is None, self.decoder.fault
        return self.packets.popleft()

    async def expect(self, kind):
        found = await self.packet()
        assert type(found) is kind, found
        return found

    async def quiet(self):
        """Return what has come before the answer to a PINGREQ."""
        self.send(p.Pingreq())
        found = []
        while type(one := await self.packet()) is not p.Pingresp:
            found.append(one)
        return found

    async def subscribe(self, *subscriptions, **properties):
        self.packet_id += 1
        self.send(p.Subscribe(self.packet_id, tuple(subscriptions), **properties))
        return await self.expect(p.Suback)

    async def publish(self, topic, payload, qos=1, **words):
        """Publish a message and wait for its end."""
        self.packet_id += 1
        self.send(p.Publish(topic, payload, qos, packet_id=self.packet_id if qos else 0, **words))
        if qos == 1:
            return await self.expect(p.Puback)
        if qos == 2:
            found = await self.expect(p.Pubrec)
            if found.reason < 0x80:
                self.send(p.Pubrel(found.packet_id))
                return await self.expect(p.Pubcomp)
            return found
        return None

    async def receive(self, acknowledges=True):
        """Return the next PUBLISH, after its acknowledgement."""
        while True:
            found = await self.packet()
            assert found is not None, "the connection was closed"
            if type(found) is p.Pubrel:
                self.send(p.Pubcomp(found.packet_id))
                continue
            assert type(found) is p.Publish, found
            if acknowledges:
                self.acknowledge(found)
            return found

    def acknowledge(self, packet):
        if packet.qos == 1:
            self.send(p.Puback(packet.packet_id))
        elif packet.qos == 2:
            self.send(p.Pubrec(packet.packet_id))

    def close(self):
        self.writer.close()

    async def disconnect(self, **words):
        self.send(p.Disconnect(**words))
        assert await self.packet() is None
        self.close()


async def connect(port, client_id="d", clean=True, version=5, properties=None, **words):
    """Return a connected device, and its CONNACK in `connack`."""
    device = await Device(version).open(port)
    device.send(p.Connect(version, client_id, clean, properties=properties or {}, **words))
    device.connack = await device.expect(p.Connack)
    return device
