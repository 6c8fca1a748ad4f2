"""Whether a port that TLS was tried on speaks without it: then waiting for it does not help."""

import socket

WAIT_S = 2.0


def answers_plainly(host: str, port: int) -> bool:
    """Return whether a server answers a PING that is not encrypted; a password may be asked for, that is an answer."""
    try:
        with socket.create_connection((host, port), WAIT_S) as connection:
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")
            return connection.recv(1) in (b"+", b"-")
    except OSError:
        return False


def may_be_plain(error: BaseException) -> bool:
    """Return whether a failure to connect is one that a server without TLS causes: nonsense, silence, or a farewell."""
    text = str(error)
    return "SSL" in text or "Timeout connecting" in text or "Connection closed" in text or "EOF" in text
