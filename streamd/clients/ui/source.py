"""The server behind a page, and the commands that may be sent to it."""

from collections.abc import Iterable, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from streamd.clients.sentinels import pool
from streamd.clients.server_url import without_password

# The commands that a page may send, besides MULTI and EXEC around them: none of them changes anything, and each is sent
# for at most a page.
READS = frozenset(
    {
        "COMMAND INFO", "GET", "HGET", "HGETALL", "HLEN", "HMGET", "HSCAN", "HSTRLEN", "INFO", "MEMORY USAGE", "PING",
        "SCAN", "SLOWLOG GET", "TIME", "TYPE", "XINFO CONSUMERS", "XINFO GROUPS", "XINFO STREAM", "XLEN", "XPENDING",
        "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT", "ZRANGE",
    }
)  # fmt: skip
WRITES = frozenset({"XACK", "XCLAIM"})

# Requests of one page share these connections; a page waits so long for a server before it says so.
CONNECTIONS_MAX = 8
TIMEOUT_S = 10

Request = Sequence[str | bytes | int]


class SourceError(Exception):
    """A failure for the page, with advice. status: of the HTTP response."""

    def __init__(self, text: str, status: int = 502) -> None:
        super().__init__(text)
        self.status = status


class Source:
    """A Redis-protocol server, read by redis-py.

    url: in redis-py's format, or of Sentinels. Raises: ValueError for an invalid one.
    """

    def __init__(self, url: str, *, allow_writes: bool = False) -> None:
        connections = pool(
            url,
            redis.BlockingConnectionPool,
            TIMEOUT_S,
            max_connections=CONNECTIONS_MAX,
            timeout=TIMEOUT_S,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            protocol=2,
            retry=Retry(NoBackoff(), 1),
            client_name="streamd-ui",
        )
        self._client = redis.Redis(connection_pool=connections)
        # Replies are taken as sent, since redis-py's own forms differ from version to version.
        self._client.response_callbacks.clear()
        self.allow_writes = allow_writes
        self.place = without_password(url)

    def ask(self, *request: str | bytes | int) -> Any:
        """Return the reply to a request that changes nothing. Raises: SourceError."""
        (reply,) = self.ask_all([request])
        return needed(reply)

    def ask_all(self, requests: Iterable[Request]) -> list[Any]:
        """Return the replies to requests that change nothing, sent as one; an error is a reply, too.

        All are of one moment, in a transaction, unless the page's user may not use MULTI and EXEC.
        Raises: SourceError, when the server cannot be reached.
        """
        wanted = list(requests)
        for request in wanted:
            if request[0] not in READS:
                raise ValueError(f"{request[0]!r} is not among the commands that a page may send")
        if len(wanted) < 2:
            return self._send(wanted)
        refusals: list[Any] = [None] * len(wanted)
        while len(allowed := [one for one, refused in zip(wanted, refusals, strict=True) if refused is None]) > 1:
            multi, *replies, together = self._send([("MULTI",), *allowed, ("EXEC",)])
            if isinstance(together, list):
                replies = together
                break
            if isinstance(multi, Exception):
                break  # they were executed one by one
            # A request that this user may not send makes EXEC refuse all of them: the others are sent again.
            if not any(isinstance(reply, Exception) for reply in replies):
                replies = self._send(allowed)
                break
            said = iter(replies)
            for at, refused in enumerate(refusals):
                if refused is None and isinstance(reply := next(said), Exception):
                    refusals[at] = reply
        else:
            replies = self._send(allowed)
        found = iter(replies)
        return [next(found) if refused is None else refused for refused in refusals]

    def change(self, *request: str | bytes | int) -> Any:
        """Return the reply to a request that changes something. Raises: SourceError, also without --allow-writes."""
        if not self.allow_writes:
            raise SourceError("nothing can be changed here: this page was started without --allow-writes", 403)
        if request[0] not in WRITES:
            raise ValueError(f"{request[0]!r} is not among the commands that change something")
        (reply,) = self._send([request])
        return needed(reply)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, requests: list[Request]) -> list[Any]:
        if not requests:
            return []
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for name, *words in requests:
                    assert isinstance(name, str)
                    pipeline.execute_command(*name.split(), *words)
                return list(pipeline.execute(raise_on_error=False))
        except redis.AuthenticationError as error:
            raise SourceError(f"{self.place} wants another password: {error}; give it in --url or STREAMD_URL")
        except redis.BusyLoadingError:
            raise SourceError(f"{self.place} is loading its data; look again in a moment", 503)
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            raise SourceError(f"{self.place} cannot be reached: {error}; is the server running there?", 503)
        except redis.RedisError as error:
            raise SourceError(f"{self.place}: {error}")


def needed(reply: Any) -> Any:
    """Return a reply that is no error. Raises: SourceError."""
    if not isinstance(reply, Exception):
        return reply
    text = str(reply)
    if "no such key" in text:
        raise SourceError("there is no such stream (any more)", 404)
    if text.startswith("NOGROUP") or "No such consumer group" in text:
        raise SourceError("there is no such consumer group (any more)", 404)
    if isinstance(reply, redis.exceptions.ReadOnlyError):
        raise SourceError("this server is a replica, which takes no changes; open a page of its primary", 409)
    if is_forbidden_key(reply):
        raise SourceError("the user of this page may not read this stream", 403)
    if text.startswith("WRONGTYPE") or "wrong kind of value" in text:
        raise SourceError("this key holds no stream", 404)
    raise SourceError(f"the server refused: {text}")


def is_forbidden_key(reply: Any) -> bool:
    """Return whether a reply refuses a key, and not the whole command, to the page's user."""
    return isinstance(reply, redis.exceptions.NoPermissionError) and "to run the" not in str(reply)


def pairs(reply: Any) -> dict[bytes, Any]:
    """Return a reply of names and values as a dict; {} for an error."""
    if isinstance(reply, dict):
        return reply
    if not isinstance(reply, list):
        return {}
    return dict(zip(reply[::2], reply[1::2], strict=False))
