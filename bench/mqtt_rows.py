"""The loads that the gateway is measured with beside mosquitto, and what is wanted of each."""

from dataclasses import dataclass

from bench.mqtt_large import WORD as LARGE
from bench.workloads import EVERYSEC
from streamd.clients.mqtt.options import PACKET_BYTES_MOST

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")

# The names of figures in the tables: where they stand among the load generator's, by what they are multiplied, unit.
FIGURES: dict[str, tuple[str, float, str]] = {
    "CPU": ("cpu_us", 1, "us"),
    "messages/s": ("out_per_s", 1, ""),
    "in + out per core": ("per_core_s", 1, "/s"),
    "PUBACK mean": ("acknowledged_ms.mean", 1, "ms"),
    "PUBACK p99": ("acknowledged_ms.p99", 1, "ms"),
    "delivery mean": ("delivered_ms.mean", 1, "ms"),
    "delivery p99": ("delivered_ms.p99", 1, "ms"),
    "CPU of a connect": ("connect_cpu_us", 1, "us"),
    "memory of a client": ("memory_client_bytes", 1, "B"),
    "idle CPU": ("cpu_cores", 100, "%"),
    "round trip": ("round trip", 1, "ms"),
}


@dataclass(frozen=True)
class Wanted:
    """A target: a figure of the gateway, at most or at least so much.

    over: the figure that it is divided by, of the same turn or of one of another `row`; with `of_mosquitto`, of
    mosquitto in the same round. compiled: the target of the compiled form, where that is another.
    """

    figure: str
    most: float | None = None
    least: float | None = None
    over: str | None = None
    of_mosquitto: bool = False
    row: str = ""
    compiled: float | None = None


@dataclass(frozen=True)
class Row:
    """One load: the words of the load generator, the options of the store and the gateway, and what is wanted.

    fresh: each round needs brokers that have done nothing yet.
    """

    name: str
    words: tuple[str, ...]
    wanted: tuple[Wanted, ...]
    options: tuple[str, ...] = ()
    fresh: bool = False
    gateway: tuple[str, ...] = ()


def _cpu(most: float, compiled: float | None = None) -> Wanted:
    return Wanted("CPU", most=most, over="CPU", of_mosquitto=True, compiled=compiled)


CLOSED = "point to point, QoS 1, closed loop"
RETAINED = "point to point, retained, QoS 1, closed loop"
_PACED = ("p2p", "--rate", "2000")
_IN, _OUT = ("in", "--rate", "8000"), ("out", "--rate", "15")
_LATENCIES = (
    Wanted("PUBACK mean", most=6),
    Wanted("delivery mean", most=10),
    Wanted("delivery p99", most=25),
    Wanted("in + out per core", least=10_000),
)
_IDLE = ("idle", "--clients", "10000")

ROWS: tuple[Row, ...] = (
    Row(CLOSED, ("p2p",), (_cpu(2, 1.8), Wanted("in + out per core", least=30_000))),
    Row(
        "the same, 20 under way",
        ("p2p", "--under-way", "20"),
        (_cpu(1.2), Wanted("delivery mean", most=2, over="PUBACK mean")),
    ),
    Row("point to point, QoS 1, 2,000/s", _PACED, (_cpu(4, 3.5), *_LATENCIES)),
    Row("fan-in 1,000 to 1, 8,000/s, QoS 0", (*_IN, "--qos", "0"), (_cpu(3.5),)),
    Row("fan-in 1,000 to 1, 8,000/s, QoS 1", _IN, (_cpu(2.5),)),
    Row("fan-out 1 to 1,000, 15/s, QoS 0", (*_OUT, "--qos", "0"), (_cpu(1.3),)),
    Row("fan-out 1 to 1,000, 15/s, QoS 1", _OUT, (_cpu(1.3),)),
    Row("point to point, QoS 2, closed loop", ("p2p", "--qos", "2"), (Wanted("CPU", most=4, over="CPU", row=CLOSED),)),
    # A retained message costs one more round trip to the store: for its number. Without numbers it took 1.26 times the
    # CPU of another message; they may add 15 %.
    Row(RETAINED, ("p2p", "--retain"), (Wanted("CPU", most=1.45, over="CPU", row=CLOSED),)),
    Row("one pair alone, retained, QoS 1, closed loop", ("p2p", "--retain", "--clients", "1"), ()),
    # It would wait 3 ms if its messages were gathered.
    Row("one pair alone, QoS 1, closed loop", ("p2p", "--clients", "1"), (Wanted("PUBACK mean", most=2),)),
    Row("everysec: point to point, QoS 1, 2,000/s", _PACED, (_cpu(4, 3.5), *_LATENCIES), EVERYSEC),
    Row(
        "always: point to point, QoS 1, 2,000/s",
        _PACED,
        (_cpu(5), Wanted("PUBACK mean", most=10), *_LATENCIES[3:]),
        ALWAYS,
    ),
    Row(
        "10,000 idle clients, keep alive 600 s",
        _IDLE,
        (
            Wanted("memory of a client", most=6_144),
            Wanted("idle CPU", most=1),
            Wanted("CPU of a connect", most=250),
        ),
        fresh=True,
    ),
    Row("10,000 idle clients, keep alive 60 s", (*_IDLE, "--keep-alive", "60"), (), fresh=True),
    # The largest value of --packet-bytes-max is the one at which another client waits no longer.
    Row(
        "a PINGREQ beside packets of the largest size",
        (LARGE,),
        (Wanted("round trip", most=250),),
        fresh=True,
        gateway=("--packet-bytes-max", str(PACKET_BYTES_MOST)),
    ),
)
