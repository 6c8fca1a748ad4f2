"""A server's journal over the protocol, through redis-py."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from streamd.distribution import install_line

if TYPE_CHECKING:
    import redis

READ_BYTES: Final = 256 * 1024
# The command, and its name in the version before.
_NAME: Final = "JOURNAL"
_EARLIER_NAME: Final = "BACKUP"
# How long one JOURNAL BEGIN waits for the rewrite before it is asked again, so that progress can be shown.
_WAIT_MS: Final = 1_000
# A server that has not answered for so long is not there any more.
_TIMEOUT_S: Final = 60.0


class SourceError(Exception):
    """The server cannot be reached, or gives no backup; the message is one line."""


class _RefusedError(SourceError):
    """The server has no such command, or its rules do not allow it: it may have, or allow, the other name."""

    def __init__(self, message: str, is_unknown: bool) -> None:
        super().__init__(message)
        self.is_unknown = is_unknown


class UrlError(SourceError):
    """No server is named."""


def connect(url: str, option: str = "--url") -> "redis.Redis":
    """Return a client with one connection and without retries. option: that has the URL. Raises: SourceError."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        from streamd.clients.sentinels import pool
    except ImportError:
        raise SourceError(f"redis-py is missing: {install_line('client')}")
    try:
        connections = pool(
            url,
            patience_s=0,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=10,
            retry=Retry(NoBackoff(), 0),
            decode_responses=False,
        )
        return redis.Redis(connection_pool=connections, single_connection_client=True)
    except redis.RedisError as error:
        raise SourceError(_what_to_do(_line(error)))
    except ValueError as error:
        raise UrlError(f"{option}: {error}")


class RemoteJournal:
    """The files of a server's journal, from `begin` to `end`."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client
        self._name = _NAME

    def begin(self, on_wait: Callable[[], None]) -> list[tuple[str, int]]:
        """Return names and sizes of the files after a rewrite, the base first.

        on_wait: called about once a second until then. Raises: SourceError.
        """
        files = self._begin()
        while files is None:
            on_wait()
            files = self._ask("BEGIN", _WAIT_MS)
        return [(name.decode("utf-8", "surrogateescape"), int(size)) for name, size in files]

    def _begin(self) -> Any:
        """Return the reply to BEGIN. Raises: SourceError.

        Servers of the version before, and rules that were written for them, know the earlier name alone.
        """
        try:
            return self._ask("BEGIN", _WAIT_MS)
        except _RefusedError as error:
            refused = error
        self._name = _EARLIER_NAME
        try:
            return self._ask("BEGIN", _WAIT_MS)
        except _RefusedError as error:
            raise error if refused.is_unknown else refused

    def mark(self) -> list[int]:
        """Return the files' present sizes: up to these they are one state. Raises: SourceError."""
        return [int(size) for size in self._ask("MARK")]

    def read(self, number: int, offset: int, count: int) -> bytes:
        """Return between one and `count` bytes. Raises: SourceError."""
        data: bytes = self._ask("READ", number, offset, min(count, READ_BYTES))
        if not data or len(data) > count:
            raise SourceError("the server's journal is shorter than it said; its log may say why")
        return data

    def end(self) -> None:
        """Release the files. Raises: SourceError."""
        self._ask("END")

    def _ask(self, *words: Any) -> Any:
        import redis

        try:
            return self._client.execute_command(self._name, *words)
        except (redis.AuthenticationError, redis.ConnectionError, redis.TimeoutError) as error:
            raise SourceError(f"the connection to the server failed: {_line(error)}")
        except redis.ResponseError as error:
            text = str(error)
            is_unknown = text.startswith(("unknown command", "unknown subcommand"))
            if is_unknown:
                text = (
                    "it is a Redis, and backup copies the journal of a streamd. To move its data to streamd let it"
                    " write a journal: CONFIG SET aof-use-rdb-preamble no, then BGREWRITEAOF, then serve a copy of its"
                    " directory"
                )
            message = f"the server refuses it: {_what_to_do(text, self._name)}"
            if is_unknown or f"'{self._name.lower()}|begin'" in text:
                raise _RefusedError(message, is_unknown)
            raise SourceError(message)
        except redis.RedisError as error:
            raise SourceError(_line(error))


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _what_to_do(text: str, name: str = _NAME) -> str:
    """Return the message of redis-py or of the server, with advice; `name`: of the command that was asked."""
    if "already authenticated" in text or "Authentication required" in text:
        return "a password is required; give it in STREAMD_URL, redis://user:password@host"
    if "username-password" in text:
        return "wrong user or password; give the right ones in STREAMD_URL, redis://user:password@host"
    if "no permissions" in text:
        return f"{text}; a user for backups needs +{name.lower()} +hello +client|setinfo"
    if "refused" in text:
        return f"{text}; start the server, or give another with --url"
    if "WRONG_VERSION_NUMBER" in text:
        return "that port does not speak TLS; give its TLS port, or redis:// in place of rediss://"
    return text
