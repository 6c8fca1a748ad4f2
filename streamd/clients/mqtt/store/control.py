"""What operators ask of running gateways, by way of the store.

mqtt:control            stream: requests, which every gateway reads; the newest 100 are kept
    id                  names the answers
    do                  clients, session, disconnect, gateways, or drain
    with                what else there is to say, in JSON
mqtt:answer:<id>        list: an answer of each gateway, in JSON; it expires
"""

import json
import re
from typing import Any, Final, NamedTuple

from streamd.clients.mqtt.store.link import Words

CONTROL: Final = "mqtt:control"
REQUESTS_MAX: Final = 100
# A request that is older was made before the gateway came to this store, and nobody waits for its answer.
REQUEST_MS_MAX: Final = 10_000
_ANSWER_S: Final = 30
_ID: Final = re.compile(r"[0-9a-f]{32}")


class Request(NamedTuple):
    """A request. do: what is to be done; said: with what."""

    id: str
    do: str
    said: dict[str, Any]

    def to_words(self) -> Words:
        """Return the command that makes it."""
        said = json.dumps(self.said, ensure_ascii=False)
        return ("XADD", CONTROL, "MAXLEN", REQUESTS_MAX, "*", "id", self.id, "do", self.do, "with", said)


def parse_request(fields: list[bytes]) -> Request:
    """Return the request in the fields of an entry. Raises: ValueError."""
    found = dict(zip(fields[::2], fields[1::2], strict=False))
    name = found.get(b"id", b"").decode("utf-8", "replace")
    try:
        said = json.loads(found.get(b"with", b"{}"))
    except RecursionError:
        said = None
    if not _ID.fullmatch(name) or not isinstance(said, dict):
        raise ValueError("it has no id, or no object")
    return Request(name, found.get(b"do", b"").decode("utf-8", "replace"), said)


def answer_key(request_id: str) -> str:
    """Return the key of the answers to a request."""
    return f"mqtt:answer:{request_id}"


def answer(request: Request, said: dict[str, Any]) -> list[Words]:
    """Return the commands that answer a request."""
    key = answer_key(request.id)
    return [("RPUSH", key, json.dumps(said, ensure_ascii=False)), ("EXPIRE", key, _ANSWER_S)]
