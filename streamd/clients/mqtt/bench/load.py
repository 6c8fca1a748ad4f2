"""What one run of the load generator does, and to which broker."""

import struct
from dataclasses import dataclass

# In front of a payload: the run, the publisher's number, the message's sequence number, the time when it was sent.
STAMP = struct.Struct(">IIQd")
CONNECT_RATE = 1_000
UNDER_WAY_MAX = 65_535  # packet identifiers


@dataclass(frozen=True)
class Load:
    """One run.

    kind: "p2p", "in", "out" or "idle"; clients: pairs, publishers, subscribers or idle clients. rate: messages/s of all
    publishers; 0 for a closed loop with `under_way` messages of each publisher. until_delivery: the closed loop goes on
    at a delivery, and not at an acknowledgement. retain: the flag of each message. size_bytes: of a payload.
    processes: whose CPU and memory are read.
    """

    kind: str
    host: str = "127.0.0.1"
    port: int = 1883
    unix: str | None = None
    tls_ca: str | None = None
    clients: int = 1_000
    qos: int = 1
    retain: bool = False
    size_bytes: int = 62
    rate: float = 0.0
    under_way: int = 1
    until_delivery: bool = False
    seconds: float = 10.0
    warm_up_s: float = 1.0
    drain_s: float = 10.0
    connect_rate: float = CONNECT_RATE
    keep_alive_s: int = 0
    version: int = 4
    username: str | None = None
    password: str | None = None
    persistent: bool = False
    prefix: str = "bench"
    processes: tuple[int, ...] = ()

    @property
    def place(self) -> str:
        """Where the broker is, for people."""
        return self.unix or f"{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections it makes."""
        return {"p2p": 2 * self.clients, "in": self.clients + 1, "out": self.clients + 1}.get(self.kind, self.clients)

    @property
    def copies(self) -> int:
        """How many times each message is delivered."""
        return self.clients if self.kind == "out" else 1
