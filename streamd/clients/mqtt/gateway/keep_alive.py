"""Closes connections whose clients were silent for too long.

A packet that is on its way for longer than the keep alive does not end its connection while parts of it come, and the
last one can still come within a time by its size.
"""

import asyncio
from collections import defaultdict

from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.connection import Connection
from streamd.clients.mqtt.gateway.counters import Counters


class KeepAlive:
    """The connections by the second in which they are looked at next: a silent client costs one look per keep alive."""

    def __init__(self, loop: asyncio.AbstractEventLoop, counters: Counters, upload_bytes_per_s_min: int) -> None:
        self._loop, self._counters = loop, counters
        self._upload_bytes_per_s_min = upload_bytes_per_s_min
        self._due: defaultdict[int, dict[Connection, None]] = defaultdict(dict)
        self._checked_to = int(loop.time())

    def watch(self, connection: Connection) -> None:
        """Look after a connection."""
        if connection.keep_alive_s:
            # CONNECT may have waited for the store for longer.
            due = max(int(connection.heard_s + connection.keep_alive_s) + 1, self._checked_to)
            connection.due = due
            self._due[due][connection] = None

    def check(self) -> None:
        """Close the connections whose time is over."""
        now = self._loop.time()
        while self._checked_to <= now:
            due = self._due.pop(self._checked_to, None)
            self._checked_to += 1
            for connection in due or ():
                if connection.is_closing:
                    continue
                if not connection.is_reading or connection.is_busy:
                    connection.heard_s = now  # it is not its fault
                if connection.heard_s + connection.keep_alive_s > now or self._is_uploading(connection, now):
                    self.watch(connection)
                    continue
                self._counters.keep_alive_timeouts += 1
                connection.close(Reason.KEEP_ALIVE_TIMEOUT)

    def _is_uploading(self, connection: Connection, now: float) -> bool:
        size, moved_s = connection.upload
        if not size:
            return False
        whole_s = connection.heard_s + size / self._upload_bytes_per_s_min
        return min(moved_s, whole_s) + connection.keep_alive_s > now

    def forget(self, connection: Connection) -> None:
        """Look after a connection no more."""
        self._due.get(connection.due, {}).pop(connection, None)
