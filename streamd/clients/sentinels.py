"""The primary that Redis Sentinels name: a URL for it, and connections that follow it through failovers."""

import re
from typing import Any, Final
from urllib.parse import unquote

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ConstantBackoff, NoBackoff
from redis.connection import parse_url
from redis.retry import Retry

from streamd.clients.server_url import checked

FORM: Final = "redis+sentinel://[user:password@]host[:port][,host[:port]]/name[/database]"
_PORT: Final = 26_379
# A Sentinel that has not answered for so long is passed over.
_ANSWER_S: Final = 1.0
# A client that knew a primary looks for the next one every so often; a failover takes seconds.
_PAUSE_S: Final = 0.25
PATIENCE_S: Final = 60.0
# A connection that was lost while nobody used it shows that at its next request.
_RETRIES: Final = 1


class NoPrimaryError(redis.RedisError):
    """No Sentinel names a primary, and none did before: nothing is to be waited for."""


class Sentinels:
    """The Sentinels of a URL, and the name of the primary that they watch.

    settings: of connections to that primary, for redis-py. Sentinels have the same TLS, but users of their own, which
    stand in the URL as `sentinel_username` and `sentinel_password`.
    """

    def __init__(self, url: str) -> None:
        """Raises: ValueError."""
        # (`urlsplit` of Python 3.14 takes no IPv6 address in a list of hosts.)
        match = re.fullmatch(r"(redis|rediss)\+sentinel://(?:([^/?#]*)@)?([^/?#@]+)/([^/?#]+)(/\d*)?(\?[^#]*)?", url)
        if match is None:
            raise ValueError(f"Sentinels are named as {FORM}")
        scheme, user, places, name, database, query = match.groups()
        plain = f"{scheme}://{user + '@' if user else ''}localhost{database or ''}{query or ''}"
        settings: dict[str, Any] = dict(parse_url(checked(plain)))
        for word in ("host", "port", "connection_class"):
            settings.pop(word, None)
        self._user = settings.pop("sentinel_username", None), settings.pop("sentinel_password", None)
        self.is_tls = scheme == "rediss"
        self.name = unquote(name)
        self.settings = settings
        self.places = [_place(one) for one in places.split(",")]
        self._has_found = False

    def find(self) -> tuple[str, int]:
        """Return host and port of the primary. Raises: redis.RedisError; ConnectionError if waiting may help."""
        faults = []
        for host, port in self.places:
            with redis.Redis(host=host, port=port, retry=Retry(NoBackoff(), 0), **self._asking()) as client:
                try:
                    found = client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", self.name)
                except redis.RedisError as error:
                    faults.append(f"{host}:{port}: {error}")
                    continue
            if found is not None:
                return self._found(found)
            faults.append(f"{host}:{port} does not know it")
        raise self._fault(faults)

    async def find_async(self) -> tuple[str, int]:
        """Return host and port of the primary. Raises: as `find`."""
        faults = []
        for host, port in self.places:
            client = redis.asyncio.Redis(host=host, port=port, retry=AsyncRetry(NoBackoff(), 0), **self._asking())
            try:
                found = await client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", self.name)
            except redis.RedisError as error:
                faults.append(f"{host}:{port}: {error}")
                continue
            finally:
                await client.aclose()
            if found is not None:
                return self._found(found)
            faults.append(f"{host}:{port} does not know it")
        raise self._fault(faults)

    def _asking(self) -> dict[str, Any]:
        tls = {name: value for name, value in self.settings.items() if name.startswith("ssl_")}
        return tls | {
            "ssl": self.is_tls,
            "username": self._user[0],
            "password": self._user[1],
            "socket_timeout": _ANSWER_S,
            "socket_connect_timeout": _ANSWER_S,
            "decode_responses": False,
            "protocol": 2,
        }

    def _found(self, reply: Any) -> tuple[str, int]:
        self._has_found = True
        host, port = (one.decode() if isinstance(one, bytes) else str(one) for one in reply)
        return host, int(port)

    def _fault(self, faults: list[str]) -> redis.RedisError:
        text = f"no Sentinel names a primary {self.name}: {'; '.join(' '.join(one.split()) for one in faults)}"
        return redis.ConnectionError(text) if self._has_found else NoPrimaryError(text)


def _place(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]\s]+))(?::(\d{1,5}))?", text)
    if match is None or int(match[3] or _PORT) > 65_535:
        raise ValueError(f"{text!r} is no host with a port; Sentinels are named as {FORM}")
    return match[1] or match[2], int(match[3] or _PORT)


def has_sentinels(url: str) -> bool:
    """Return whether a URL names Sentinels."""
    return url.partition(":")[0].endswith("+sentinel")


def _is_demoted(error: redis.ResponseError) -> bool:
    """Return whether an error says that the server is no primary any more."""
    return isinstance(error, redis.exceptions.ReadOnlyError) or str(error).startswith("UNBLOCKED")


class _Following(redis.Connection):
    """A connection to the primary of the moment: it asks the Sentinels each time that it connects."""

    def __init__(self, *, sentinels: Sentinels, **settings: Any) -> None:
        self._sentinels = sentinels
        super().__init__(**settings)

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Begin to talk to the server. Raises: redis.RedisError."""
        try:
            super().on_connect_check_health(check_health)
        except redis.AuthenticationError as error:
            raise redis.ResponseError(str(error)) from error  # (a ConnectionError would be waited out)

    def _connect(self) -> Any:  # (the one function that every way to connect takes)
        self.host, self.port = self._sentinels.find()
        return super()._connect()

    def read_response(self, *words: Any, **options: Any) -> Any:
        """Return a reply. Raises: redis.RedisError."""
        try:
            return super().read_response(*words, **options)
        except redis.ResponseError as error:
            if not _is_demoted(error):
                raise
            self.disconnect()
            raise redis.ConnectionError("the server is no primary any more") from error


class _FollowingTls(_Following, redis.SSLConnection):
    """The same with TLS."""


class _FollowingAsync(redis.asyncio.Connection):
    """The same for asyncio."""

    def __init__(self, *, sentinels: Sentinels, **settings: Any) -> None:
        self._sentinels = sentinels
        super().__init__(**settings)

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        """Begin to talk to the server. Raises: redis.RedisError."""
        try:
            await super().on_connect_check_health(check_health)
        except redis.AuthenticationError as error:
            raise redis.ResponseError(str(error)) from error

    async def _connect(self) -> None:
        self.host, self.port = await self._sentinels.find_async()
        await super()._connect()

    async def read_response(self, *words: Any, **options: Any) -> Any:
        """Return a reply. Raises: redis.RedisError."""
        try:
            return await super().read_response(*words, **options)
        except redis.ResponseError as error:
            if not _is_demoted(error):
                raise
            await self.disconnect()
            raise redis.ConnectionError("the server is no primary any more") from error


class _FollowingAsyncTls(_FollowingAsync, redis.asyncio.SSLConnection):
    """The same with TLS for asyncio."""


def pool(
    url: str,
    kind: type[redis.ConnectionPool] = redis.ConnectionPool,
    patience_s: float = PATIENCE_S,
    **settings: Any,
) -> redis.ConnectionPool:
    """Return connections to the server of a URL, or to the primary that its Sentinels name.

    After a failover these go on at the next primary: a request that was not answered is sent again, for `patience_s`
    seconds. On a lost connection to one server it is sent again once, unless settings say how often: connections that
    redis-py makes of a URL have no retries. settings: for redis-py. Raises: ValueError.
    """
    if not has_sentinels(url):
        return kind.from_url(checked(url), **({"retry": Retry(NoBackoff(), _RETRIES)} | settings))
    sentinels = Sentinels(url)
    retry = Retry(ConstantBackoff(_PAUSE_S), int(patience_s / _PAUSE_S))
    connection = _FollowingTls if sentinels.is_tls else _Following
    return kind(
        connection_class=connection, **(sentinels.settings | settings | {"retry": retry, "sentinels": sentinels})
    )


def async_pool(
    url: str, kind: type[redis.asyncio.ConnectionPool] = redis.asyncio.ConnectionPool, **settings: Any
) -> redis.asyncio.ConnectionPool:
    """Return the same for asyncio. Raises: ValueError."""
    if not has_sentinels(url):
        return kind.from_url(checked(url), **({"retry": AsyncRetry(NoBackoff(), _RETRIES)} | settings))
    sentinels = Sentinels(url)
    retry = AsyncRetry(ConstantBackoff(_PAUSE_S), int(PATIENCE_S / _PAUSE_S))
    connection = _FollowingAsyncTls if sentinels.is_tls else _FollowingAsync
    return kind(
        connection_class=connection, **(sentinels.settings | settings | {"retry": retry, "sentinels": sentinels})
    )
