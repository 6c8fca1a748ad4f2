"""A broker's sessions: an MQTT broker's requests to its Redis for each message to an offline subscriber.

That is one EVALSHA that stores the message, as JSON, and one that removes it when the subscriber has acknowledged it,
over few connections with much under way on each, written when 150 commands wait or 3 ms after the first of them.
"""

import base64
import json
import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass, field

from bench.client import ask, request
from bench.measure import Sample, Work
from bench.servers import Target
from streamd.clients.sessions.limit import LIMIT
from streamd.clients.sessions.requests import ADD, GET, REMOVE, TTL_S
from streamd.clients.sessions.session_keys import PACKET_ID_MAX, Layout

FLUSH_COMMANDS, FLUSH_S = 150, 0.003
CONNECTIONS = 4
PAYLOAD_BYTES = 62
# A message is stored by one command and removed by another.
COMMANDS_OF_A_MESSAGE = 2
WAIT_S_MAX = 60.0

_LAYOUT = Layout()


class _Subscriber:
    """One subscriber: its requests, ready-made but for the packet ID, and the last ID it was given."""

    __slots__ = ("add", "client_id", "last_id", "remove_head", "remove_set")

    def __init__(self, number: int) -> None:
        self.client_id = f"device-{number:06d}"
        message = {
            "clientId": self.client_id,
            "topic": f"devices/{number}/commands",
            "time": 1_700_000_000_000 + number,
            "qos": 1,
            "packetType": "PUBLISH",
            "payload": base64.b64encode(bytes((number + n) % 256 for n in range(PAYLOAD_BYTES))).decode(),
            "retain": False,
        }
        messages = _LAYOUT.messages(self.client_id)
        last = _LAYOUT.last_packet_id(self.client_id)
        pack = json.dumps([message], separators=(",", ":"))
        self.add = request("EVALSHA", ADD.sha, 2, messages, last, LIMIT, pack, TTL_S)
        self.remove_head = request("EVALSHA", REMOVE.sha, 1, messages, "").removesuffix(b"$0\r\n\r\n")
        self.last_id = 0

    def remove(self, packet_id: int) -> bytes:
        text = b"%d" % packet_id
        return b"%b$%d\r\n%b\r\n" % (self.remove_head, len(text), text)


@dataclass
class _Connection:
    """One connection: what waits to be written, and whose replies are to come, in order."""

    sock: socket.socket
    subscribers: list[_Subscriber]
    flush_commands: int
    next_one: int = 0
    buffer: list[bytes] = field(default_factory=list)
    first_at: float = 0.0
    # (subscriber, packet ID or 0 for an add, when the message was due)
    under_way: deque[tuple[_Subscriber, int, float]] = field(default_factory=deque)
    received: bytes = b""
    messages: int = 0
    done: int = 0

    def begin(self, due: float) -> None:
        """Ask for the next message to be stored."""
        subscriber = self.subscribers[self.next_one]
        self.next_one = (self.next_one + 1) % len(self.subscribers)
        self.messages += 1
        self.put(subscriber.add, (subscriber, 0, due))

    def put(self, command: bytes, what: tuple[_Subscriber, int, float]) -> None:
        if not self.buffer:
            self.first_at = time.perf_counter()
        self.buffer.append(command)
        self.under_way.append(what)
        if len(self.buffer) >= self.flush_commands:
            self.flush()

    def flush(self) -> None:
        if self.buffer:
            self.sock.sendall(b"".join(self.buffer))
            self.buffer = []


class Broker:
    """Sends messages over some connections and checks every reply.

    misordered: packet IDs that do not follow the one before. latencies_ms: of messages, from their due time to their
    removal.
    """

    def __init__(
        self,
        target: Target,
        subscribers: int,
        window: int,
        connections: int = CONNECTIONS,
        flush_commands: int = FLUSH_COMMANDS,
    ) -> None:
        self.target = target
        self.window = window
        self.misordered = 0
        self.latencies_ms: list[float] = []
        everybody = [_Subscriber(number) for number in range(subscribers)]
        self.subscribers = everybody
        self.connections = [
            _Connection(target.connect(), everybody[n::connections], flush_commands) for n in range(connections)
        ]
        self.selector = selectors.DefaultSelector()
        for connection in self.connections:
            self.selector.register(connection.sock, selectors.EVENT_READ, connection)
        for script in (ADD, GET, REMOVE):
            assert ask(self.connections[0].sock, "SCRIPT", "LOAD", script.text) == script.sha.encode()
        ask(self.connections[0].sock, "FLUSHALL")

    def close(self) -> None:
        self.selector.close()
        for connection in self.connections:
            connection.sock.close()

    def run(self, messages: int, per_second: float = 0.0) -> float:
        """Send this many messages, as quickly as the window allows or at a fixed rate; return the seconds it took."""
        start = time.perf_counter()
        begun = done = 0
        give_up = start + WAIT_S_MAX + (messages / per_second if per_second else 0)
        count = len(self.connections)
        while done < messages:
            now = time.perf_counter()
            if now > give_up:
                raise SystemExit(f"bench: {messages - done} messages were never answered")
            if per_second:
                wanted = min(messages, int((now - start) * per_second) + 1)
                while begun < wanted:
                    self.connections[begun % count].begin(start + begun / per_second)
                    begun += 1
            else:
                for connection in self.connections:
                    while begun < messages and connection.messages - connection.done < self.window:
                        connection.begin(now)
                        begun += 1
            wait = 0.001
            for connection in self.connections:
                if connection.buffer:
                    age = now - connection.first_at
                    # One that waits for each reply writes at once; there is nothing to gather.
                    if age >= FLUSH_S or self.window == 1:
                        connection.flush()
                    else:
                        wait = min(wait, FLUSH_S - age)
            for key, _ in self.selector.select(wait):
                done += self._receive(key.data)
        return time.perf_counter() - start

    def _receive(self, connection: _Connection) -> int:
        data = connection.sock.recv(1 << 18)
        if not data:
            raise SystemExit("bench: the server closed the connection")
        lines = (connection.received + data).split(b"\r\n")
        at, last = 0, len(lines) - 1  # the last one is not ended
        under_way = connection.under_way
        now = time.perf_counter()
        done = 0
        while at < last:
            line = lines[at]
            if line == b"$2" and at + 1 >= last:
                break
            subscriber, packet_id, due = under_way.popleft()
            if packet_id:
                if line != b"$2" or lines[at + 1] != b"OK":
                    raise SystemExit(f"bench: the server answered {line[:200].decode()} to a removal")
                at += 2
                done += 1
                self.latencies_ms.append((now - due) * 1000)
                continue
            at += 1
            if line[:1] != b":":
                raise SystemExit(f"bench: the server answered {line[:200].decode()} to a message")
            previous = int(line[1:])
            if previous != subscriber.last_id:
                self.misordered += 1
            subscriber.last_id = packet_id = previous % PACKET_ID_MAX + 1
            connection.put(subscriber.remove(packet_id), (subscriber, packet_id, due))
        connection.received = b"\r\n".join(lines[at:])
        connection.done += done
        return done

    def lost(self) -> int:
        """Return the number of messages missing in the server's final state."""
        sock = self.connections[0].sock
        given = 0
        for subscriber in self.subscribers:
            given += int(ask(sock, "GET", _LAYOUT.last_packet_id(subscriber.client_id)) or 0)  # type: ignore[call-overload]
        left = int(ask(sock, "DBSIZE")) - sum(one.last_id > 0 for one in self.subscribers)  # type: ignore[call-overload]
        return abs(sum(one.messages for one in self.connections) - given) + left


def _checked(broker: Broker) -> None:
    lost = broker.lost()
    if lost or broker.misordered:
        raise SystemExit(f"bench: {broker.target.kind} lost {lost} messages, misordered {broker.misordered}")


def throughput(
    subscribers: int, window: int, messages: int, flush_commands: int = FLUSH_COMMANDS, by_command: bool = False
) -> Work:
    """Return a workload whose operations are messages, stored and removed, or the commands that do so; it ends the run
    if a message is lost.

    window: messages under way on a connection. flush_commands: of a batch, at most.
    """
    parts = COMMANDS_OF_A_MESSAGE if by_command else 1

    def work(target: Target) -> Sample:
        broker = Broker(target, subscribers, window, CONNECTIONS if window > 1 else 1, flush_commands)
        try:
            broker.run(messages // 10)
            broker.latencies_ms.clear()
            cpu = target.cpu_s()
            elapsed = broker.run(messages)
            cpu = target.cpu_s() - cpu
            _checked(broker)
            latencies = sorted(broker.latencies_ms)
            done = messages * parts
            return Sample(done / elapsed, cpu / done * 1e6, _share(latencies, 0.5), _share(latencies, 0.999))
        finally:
            broker.close()

    return work


def latency(subscribers: int, per_second: float, seconds: float) -> Work:
    """Return a workload at a fixed rate; its figure is 1 over the 99th percentile of the messages' milliseconds."""

    def work(target: Target) -> Sample:
        broker = Broker(target, subscribers, 150)
        try:
            broker.run(int(per_second), per_second)
            broker.latencies_ms.clear()
            messages = int(per_second * seconds)
            cpu = target.cpu_s()
            broker.run(messages, per_second)
            cpu = target.cpu_s() - cpu
            _checked(broker)
            latencies = sorted(broker.latencies_ms)
            return Sample(
                1 / _share(latencies, 0.99), cpu / messages * 1e6, _share(latencies, 0.5), _share(latencies, 0.999)
            )
        finally:
            broker.close()

    return work


def _share(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]
