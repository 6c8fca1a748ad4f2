"""Memory of a broker's sessions: with messages, as keys or in the set, and idle ones with only a last packet ID."""

import base64
import json
import random
import time
from collections.abc import Callable

from bench.client import load, request
from bench.servers import Target
from streamd.clients.sessions.requests import TTL_S
from streamd.clients.sessions.session_keys import Layout

SESSIONS = 100_000
MESSAGES = 10
_LAYOUT = Layout()


def _fill(name: str, sessions: int, messages: int, in_set: bool) -> list[bytes]:
    """Return the requests that make what the broker's scripts leave behind.

    in_set: messages are the members of the set, in place of keys that the members name.
    """
    source = random.Random(5)
    made = []
    for number in range(sessions):
        client_id = f"{name}-{number:06d}"
        key = _LAYOUT.messages(client_id)
        for packet_id in range(1, messages + 1):
            message = {
                "clientId": client_id,
                "topic": f"devices/{number}/commands",
                "time": 1_700_000_000_000 + number,
                "qos": 1,
                "packetId": packet_id,
                "packetType": "PUBLISH",
                "payload": base64.b64encode(source.randbytes(62)).decode(),
                "retain": False,
            }
            text = json.dumps(message, separators=(",", ":"))
            if not in_set:
                made.append(request("SET", f"{key}_{packet_id}", text, "EX", TTL_S))
            made.append(request("ZADD", key, packet_id, text if in_set else f"{key}_{packet_id}"))
        made.append(request("SET", _LAYOUT.last_packet_id(client_id), messages or source.randrange(1, 65_536)))
    return made


def session(messages: int, sessions: int = SESSIONS, in_set: bool = False) -> Callable[[Target], float]:
    """Return the bytes of a session with this many messages, by the growth of Pss_Anon after a warm-up."""

    def measure(target: Target) -> float:
        with target.connect() as sock:
            load(sock, _fill("warm", sessions // 10, messages, in_set))
            time.sleep(0.3)
            before = target.anonymous_bytes()
            for part in range(10):
                load(sock, _fill(f"device{part}", sessions // 10, messages, in_set))
            time.sleep(0.3)
            return (target.anonymous_bytes() - before) / sessions

    return measure


# name, measure, at most so many times redis-server's
SESSION_MEMORY: tuple[tuple[str, Callable[[Target], float], float], ...] = (
    ("a session with 10 messages", session(MESSAGES), 1.5),
    ("a session with 10 messages, the payloads in the set", session(MESSAGES, in_set=True), 1.5),
    ("a session without messages, its last packet ID alone", session(0), 1.6),
)
