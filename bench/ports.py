"""Ports for servers whose command line names them: free, and outside the range that the system hands out."""

import random
import socket

RANGE = range(10_000, 20_000)
"""Below the ports (32768 up on Linux) of connections and of listeners that ask for none, which change all the time."""

BUS = 10_000
"""So far above its port a node of Redis Cluster listens for the others."""

_random = random.SystemRandom()  # Hypothesis sets the seed of the other one
_given: set[int] = set()


def free_port() -> int:
    """Return a port without a listener, also on that of its cluster's bus; never the same one twice."""
    while True:
        port = _random.choice(RANGE)
        if port not in _given and _is_free(port) and _is_free(port + BUS):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what is closed is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
