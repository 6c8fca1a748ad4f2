"""What is seen of a running gateway: $SYS, the metrics port, and the answers to operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamd.clients.mqtt.gateway.control import Control
from streamd.clients.mqtt.gateway.metrics_port import MetricsPort
from streamd.clients.mqtt.gateway.sys_topics import SysTopics

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway


class Seeing:
    """The parts that show a gateway. sys_interval_s: between two values of $SYS; 0: none."""

    def __init__(self, gateway: Gateway, sys_interval_s: float) -> None:
        self._gateway = gateway
        self._topics = SysTopics(gateway, sys_interval_s) if sys_interval_s else None
        self._control = Control(gateway)
        self._port: MetricsPort | None = None

    async def start(self, address: str, metrics_port: int | None) -> None:
        """Begin. Raises: ListenFault; ValueError, without the library that writes metrics."""
        if metrics_port is not None:
            port = MetricsPort(self._gateway)
            await port.open(address, metrics_port)
            self._port = port
        if self._topics is not None:
            await self._topics.publish()  # so that the first client finds them
            self._gateway.spawn(self._topics.run())
        await self._control.look()  # so that a request from now on is not passed over
        self._gateway.spawn(self._control.run())

    @property
    def place(self) -> str | None:
        """Where the metrics port is."""
        return None if self._port is None else self._port.place

    def stop(self) -> None:
        """Close the metrics port; the rest ends with the gateway."""
        if self._port is not None:
            self._port.close()
