"""The figures of a run: for people, and as JSON."""

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from streamd.clients.mqtt.bench.latencies import Latencies
from streamd.clients.mqtt.bench.load import Load
from streamd.clients.mqtt.bench.tally import Tally

# Above this share of a core the generator itself bounds what is measured; below this share of a rate it was not held.
_BUSY, _HELD = 0.95, 0.95


class Interval(NamedTuple):
    """Counters at a moment, or their growth since an earlier one."""

    at_s: float = 0.0
    cpu_s: float = 0.0
    own_cpu_s: float = 0.0
    accepted: int = 0
    delivered: int = 0

    def since(self, other: "Interval") -> "Interval":
        """Return the growth."""
        return Interval(
            self.at_s - other.at_s,
            self.cpu_s - other.cpu_s,
            self.own_cpu_s - other.own_cpu_s,
            self.accepted - other.accepted,
            self.delivered - other.delivered,
        )


_NOTHING = Interval()


def _summary(latencies: Latencies) -> dict[str, float]:
    return {
        "mean": latencies.mean_ms,
        "p50": latencies.percentile_ms(0.5),
        "p99": latencies.percentile_ms(0.99),
    }


@dataclass
class Figures:
    """What a run has found.

    measured: of the seconds behind the warm-up; late: of the sender at a rate, by how much a step came late.
    """

    load: Load
    tally: Tally
    connecting_s: float = 0.0
    connecting_cpu_s: float = 0.0
    memory_before: int = 0
    memory_after: int = 0
    measured: Interval = _NOTHING
    late: Latencies = field(default_factory=Latencies)
    _acknowledged: dict[str, float] = field(default_factory=dict)
    _delivered: dict[str, float] = field(default_factory=dict)

    def keep_latencies(self) -> None:
        """Keep the latencies so far: those of messages that come when no more are sent are not like the others."""
        self._acknowledged = _summary(self.tally.acknowledgements)
        self._delivered = _summary(self.tally.deliveries)

    @property
    def lost(self) -> int:
        """Messages that were sent, not refused, and have not come."""
        tally = self.tally
        expected = (tally.sent - tally.refusals) * self.load.copies
        return max(0, expected - (tally.delivered - tally.again))

    @property
    def is_broken(self) -> bool:
        """Whether the broker has not kept what QoS 1 and 2 promise, or has refused messages."""
        if self.load.qos == 2 and self.tally.again:
            return True
        return bool(self.tally.refused) or (self.load.qos > 0 and self.lost > 0)

    @property
    def _messages(self) -> float:
        """What the CPU time is divided by: messages in and out, counted once, also where deliveries lag behind.

        Of fan-out it is the deliveries, as a message is next to nothing beside its thousand copies.
        """
        measured = self.measured
        return measured.delivered if self.load.copies > 1 else (measured.accepted + measured.delivered) / 2

    def values(self) -> dict[str, Any]:
        """Return all figures by name; None for what was not measured."""
        load, tally, measured = self.load, self.tally, self.measured
        seconds, has_cpu = measured.at_s or 1.0, bool(load.processes)
        values: dict[str, Any] = {
            "load": {name: value for name, value in asdict(load).items() if name != "password"},
            "seconds": measured.at_s,
            "connects_per_s": load.connections / self.connecting_s if self.connecting_s else None,
            "connect_ms": _summary(tally.connects),
            "connect_cpu_us": self.connecting_cpu_s / load.connections * 1e6 if has_cpu else None,
            "cpu_cores": measured.cpu_s / seconds if has_cpu else None,
            "generator_cores": measured.own_cpu_s / seconds,
        }
        if load.kind == "idle":
            growth = (self.memory_after - self.memory_before) / load.clients
            values |= {
                "memory_before_bytes": self.memory_before if has_cpu else None,
                "memory_after_bytes": self.memory_after if has_cpu else None,
                "memory_client_bytes": growth if has_cpu else None,
            }
            return values
        messages = measured.accepted + measured.delivered
        return values | {
            "in_per_s": measured.accepted / seconds,
            "out_per_s": measured.delivered / seconds,
            "acknowledged_ms": self._acknowledged if load.qos else None,
            "delivered_ms": self._delivered,
            "cpu_us": measured.cpu_s / self._messages * 1e6 if has_cpu and self._messages else None,
            "per_core_s": messages / measured.cpu_s if has_cpu and measured.cpu_s else None,
            "late_ms": _summary(self.late) if load.rate else None,
            "sent": tally.sent,
            "accepted": tally.accepted,
            "refused": {f"{reason:#04x}": count for reason, count in tally.refused.items()},
            "delivered": tally.delivered,
            "lost": self.lost,
            "duplicated": tally.again,
            "misordered": tally.late,
            "foreign": tally.foreign,
        }

    def lines(self) -> list[str]:
        """Return the figures as lines for people."""
        load, values = self.load, self.values()
        lines = [self._title(), _line("connected", f"{load.connections:,}", f"{values['connects_per_s']:,.0f}/s")]
        lines[-1] += f", {_times(values['connect_ms'])}"
        if values["connect_cpu_us"] is not None:
            lines[-1] += f", {values['connect_cpu_us']:.0f} us of CPU each"
        lines += self._idle_lines(values) if load.kind == "idle" else self._message_lines(values)
        if values["generator_cores"] > _BUSY:
            lines.append(_line("note", "the generator had a whole core: it may be what bounds these figures"))
        return lines

    def _title(self) -> str:
        load = self.load
        text = {
            "p2p": f"{load.clients:,} pairs",
            "in": f"{load.clients:,} publishers to one subscriber",
            "out": f"one publisher to {load.clients:,} subscribers",
            "idle": f"{load.clients:,} idle clients, keep alive {load.keep_alive_s} s",
        }[load.kind]
        version = "5.0" if load.version == 5 else "3.1.1"
        if load.kind != "idle":
            pace = f"{load.rate:,.0f} messages/s" if load.rate else f"closed loop, {load.under_way} under way"
            text += f", QoS {load.qos}{', retained' if load.retain else ''}, {load.size_bytes} bytes, {pace}"
        return f"{load.kind} on {load.place}, MQTT {version}: {text}, {self.measured.at_s:.1f} s"

    def _idle_lines(self, values: dict[str, Any]) -> list[str]:
        if values["cpu_cores"] is None:
            return []
        before, after = values["memory_before_bytes"] / 1e6, values["memory_after_bytes"] / 1e6
        return [
            _line("memory", f"{values['memory_client_bytes']:,.0f} bytes a client", f"{before:.1f} to {after:.1f} MB"),
            _line("CPU", f"{values['cpu_cores'] * 100:.2f} % of a core"),
        ]

    def _message_lines(self, values: dict[str, Any]) -> list[str]:
        load, tally = self.load, self.tally
        lines = [_line("messages/s", f"in {values['in_per_s']:,.0f}", f"out {values['out_per_s']:,.0f}")]
        if load.rate and values["in_per_s"] < load.rate * _HELD:
            lines[-1] += f" (asked for: {load.rate:,.0f})"
        if values["acknowledged_ms"] is not None:
            lines.append(_line("PUBREC" if load.qos == 2 else "PUBACK", _times(values["acknowledged_ms"])))
        lines.append(_line("delivery", _times(values["delivered_ms"])))
        if values["cpu_us"] is not None:
            cores = f"{values['cpu_cores']:.2f} cores"
            per_core = f"{values['per_core_s']:,.0f} messages/s (in + out) per core" if values["per_core_s"] else ""
            lines.append(_line("CPU", f"{values['cpu_us']:.1f} us a message", cores, per_core))
        sent = f"sent {tally.sent:,}" + (f", accepted {tally.accepted:,}" if load.qos else "")
        lines.append(_line("messages", sent, f"delivered {tally.delivered:,}", f"lost {self.lost:,}"))
        lines[-1] += f", duplicated {tally.again:,}, misordered {tally.late:,}"
        if tally.refused:
            lines.append(_line("refused", *(f"{count:,} with {reason}" for reason, count in values["refused"].items())))
        if tally.foreign:
            lines.append(_line("note", f"{tally.foreign:,} messages came that this run has not sent"))
        return lines


def _line(name: str, *parts: str) -> str:
    return f"  {name:<12}{', '.join(part for part in parts if part)}"


def _times(summary: dict[str, float]) -> str:
    return "mean {mean:.2f} ms, p50 {p50:.2f}, p99 {p99:.2f}".format(**summary)
