"""The list of cases, each with the statements it shows, and the clients that a case works with."""

from collections.abc import Callable, Iterable
from itertools import count
from typing import NamedTuple

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.packets import Connack, Connect, Will
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.brokers import Broker
from tests.mqtt.conformance.device import Deviation, Device, Stream

VERSIONS = {"3": 4, "5": 5}
LASTS_S = 600  # longer than any case
_numbers = count(1)


class Scene:
    """One run of a case: a broker, a version of MQTT, and clients with names and topics of their own."""

    def __init__(self, broker: Broker, version: int, deadline_s: float) -> None:
        self.broker, self.version, self.deadline_s = broker, version, deadline_s
        self.prefix = f"k{next(_numbers):04}"
        self._devices: list[Device] = []

    def topic(self, name: str) -> str:
        """Return a topic, or a filter, that no other case has."""
        return f"{self.prefix}/{name}"

    def id(self, name: str) -> str:
        """Return a client ID that no other case has."""
        return self.prefix + name

    def opens(self, version: int | None = None, stream: Stream | None = None) -> Device:
        """Return a connection on which nothing has been sent."""
        stream = stream or Stream(self.broker.port)
        device = Device(stream, version or self.version, self.prefix, self.broker.says_why, self.deadline_s)
        self._devices.append(device)
        return device

    def client(
        self,
        name: str | None = None,
        *,
        clean_start: bool = True,
        keep_alive_s: int = 0,
        will: Will | None = None,
        version: int | None = None,
        username: str | None = None,
        password: bytes | None = None,
        stream: Stream | None = None,
        client_id: str | None = None,
        **properties: object,
    ) -> Device:
        """Return a client that is connected; `connack` is what the broker answered. Raises: Deviation if it refuses."""
        device = self.opens(version, stream)
        if client_id is None:
            client_id = self.id(name or f"x{len(self._devices)}")
        values = {P[one.upper()]: value for one, value in properties.items()}
        asked = Connect(device.version, client_id, clean_start, keep_alive_s, username, password, will, values)  # type: ignore[arg-type]
        device.send(asked)
        device.expects(Connack, reason=0)
        assert device.connack is not None
        must(not (clean_start and device.connack.session_present), "5:3.2.2-2: session present after a clean start")
        return device

    def lasting(self, name: str, *, version: int | None = None, **options: object) -> Device:
        """Return a connected client whose session outlives the connection, or the one that it comes back to."""
        if (version or self.version) == 5:
            options = {"session_expiry_interval": LASTS_S, **options}
        return self.client(name, version=version, **{"clean_start": False, **options})  # type: ignore[arg-type]

    def closes_all(self) -> None:
        """Close the connections of this run."""
        for device in self._devices:
            device.stream.close()


Script = Callable[[Scene], None]


class Case(NamedTuple):
    """A script, the statements it shows, and the version of MQTT it runs in."""

    name: str
    statements: tuple[str, ...]
    version: int
    run: Script
    takes_seconds: bool
    limited: bool


CASES: list[Case] = []


def case(*statements: str, takes_seconds: bool = False, limited: bool = False) -> Callable[[Script], Script]:
    """Enter a script in the list, for each version that it has a statement of.

    takes_seconds: it waits for something to pass, so it runs beside the others. limited: on a broker with small limits.
    """

    def entered(script: Script) -> Script:
        enter(script.__name__, statements, script, takes_seconds, limited)
        return script

    return entered


def enter(
    name: str, statements: Iterable[str], script: Script, takes_seconds: bool = False, limited: bool = False
) -> None:
    """Enter a script under a name."""
    for digit, version in VERSIONS.items():
        of_version = tuple(one for one in statements if one[0] == digit)
        if of_version:
            CASES.append(Case(name, of_version, version, script, takes_seconds, limited))


def must(holds: object, text: str) -> None:
    """Raise Deviation unless it holds."""
    if not holds:
        raise Deviation(text)


def same(found: object, right: object) -> None:
    """Raise Deviation unless both are equal."""
    if found != right:
        raise Deviation(f"{found!r} instead of {right!r}")


def closed_before_connack(device: Device, returns: tuple[int, ...] = (), reasons: tuple[int, ...] = ()) -> None:
    """Take what a broker answers to a CONNECT that it refuses: the close, after a CONNACK where one is right.

    returns: the return codes of which 3.1.1 demands one; empty where nothing is to be sent. reasons: those of 5.0.
    """
    codes = []
    while (packet := device.next_or_end()) is not None:
        if type(packet) is not Connack or codes:
            raise Deviation(f"{packet} in answer to a CONNECT that is no good")
        must(not packet.session_present, f"session present: {packet}")
        codes.append(packet.reason)
    if device.version == 5:
        must(not codes or codes[0] >= 0x80, f"CONNACK {codes}")
        must(codes or not device.says_why or not reasons, "closed without CONNACK")
        must(not (reasons and codes and device.says_why) or codes[0] in reasons, f"CONNACK {codes}")
    else:
        must(tuple(codes) in ([(one,) for one in returns] or [()]), f"CONNACK {codes}, not one of {returns}")


__all__ = ["CASES", "Case", "Scene", "case", "closed_before_connack", "enter", "must", "packets", "same"]
