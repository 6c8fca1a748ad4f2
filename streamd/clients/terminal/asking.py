"""The client of these commands: a Redis-protocol server, with replies unchanged."""

from collections.abc import Callable, Iterable, Sequence
from math import isnan
from typing import Any, Final, ParamSpec, TypeVar

import click
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from streamd.clients.sentinels import pool
from streamd.clients.server_url import without_password
from streamd.clients.terminal.failing import Trouble, explained

URL: Final = "redis://127.0.0.1:6379"
Word = str | bytes | int
# A server without an answer for so long counts as unreachable.
_TIMEOUT_S: Final = 30.0
_CONNECT_S: Final = 5.0

P = ParamSpec("P")
R = TypeVar("R")


def url_option(function: Callable[P, R]) -> Callable[P, R]:
    """Add `--url` to a command."""
    return click.option(
        "--url",
        default=URL,
        show_default=True,
        envvar="STREAMD_URL",
        show_envvar=True,
        help="The server: redis://[user:password@]host[:port][/db], rediss:// for TLS, unix://,"
        " or redis+sentinel://host[:port]/name for the primary that Sentinels watch."
        " The variable keeps a password from other users of the machine.",
    )(function)


class Seconds(click.FloatRange):
    """A number of seconds within bounds; nan is out of bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises: click.BadParameter."""
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class Source:
    """One server. place: its URL without user and password, to be shown."""

    def __init__(self, url: str, name: str) -> None:
        self.place = without_password(url)
        try:
            connections = pool(
                url,
                client_name=name,
                socket_timeout=_TIMEOUT_S,
                socket_connect_timeout=_CONNECT_S,
                retry=Retry(NoBackoff(), 0),
                decode_responses=False,
            )
            self.client = redis.Redis.from_pool(connections)
        except (ValueError, redis.RedisError) as error:
            raise Trouble(f"--url {self.place}: {error}")
        # Replies as RESP2 has them: redis-py's own forms lose a field that an entry has twice.
        self.client.connection_pool.connection_kwargs["protocol"] = 2
        self.client.response_callbacks.clear()

    def ask(self, *words: Word) -> Any:
        """Return the reply. Raises: Trouble."""
        try:
            return self.client.execute_command(*words)
        except redis.RedisError as error:
            raise explained(error, self.place)

    def ask_many(self, requests: Iterable[Sequence[Word]]) -> list[Any]:
        """Return the replies to requests that are sent together; an error is a `redis.ResponseError` among them.

        Raises: Trouble.
        """
        try:
            pipeline = self.client.pipeline(transaction=False)
            for words in requests:
                pipeline.execute_command(*words)
            return pipeline.execute(raise_on_error=False) if len(pipeline) else []
        except redis.RedisError as error:
            raise explained(error, self.place)

    def info(self, *sections: str) -> dict[str, str]:
        """Return the lines of INFO."""
        lines: list[str] = []
        for section in sections:
            lines += self.ask("INFO", section).decode("utf-8", "replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def check_stream(self, key: str) -> None:
        """Check that the stream exists. Raises: Trouble, with the most similar name."""
        kind = self.ask("TYPE", key)
        if kind == b"stream":
            return
        if kind != b"none":
            raise Trouble(f"{self.place}: {key} is a {kind.decode()}, no stream; `streamd top` shows the streams")
        near = nearest(key, (name.decode("utf-8", "backslashreplace") for name in self.streams(key[:1] + "*")))
        hint = f"did you mean {near}?" if near else "`streamd top` shows those there are, XADD makes one"
        raise Trouble(f"{self.place}: no stream {key}; {hint}")

    def streams(self, pattern: str = "*", most: int = 200, steps: int = 20) -> list[bytes]:
        """Return keys of streams, in no order; at most this many, found in at most `steps` steps of 1,000 keys."""
        found: dict[bytes, None] = {}
        cursor = b"0"
        for _ in range(steps):
            cursor, keys = self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1_000, "TYPE", "stream")
            found.update(dict.fromkeys(keys))
            if cursor == b"0" or len(found) >= most:
                break
        return list(found)[:most]

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def nearest(word: str, others: Iterable[str]) -> str | None:
    """Return the name that is most similar to `word`."""
    import difflib

    near = difflib.get_close_matches(word, others, n=1, cutoff=0.6)
    return near[0] if near else None


def paired(flat: Sequence[Any]) -> dict[str, Any]:
    """Return the dict of a flat list of names and values, as XINFO replies."""
    return {bytes(name).decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
