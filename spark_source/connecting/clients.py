"""Making clients of redis-py from the options of a connection."""

import ssl
from typing import TYPE_CHECKING

from spark_source.errors import StreamdError
from spark_source.settings.connection_options import CLIENT_PREFIX, CLUSTER_SETTINGS, ConnectionOptions

if TYPE_CHECKING:
    import redis

User = tuple[str | None, str | None]


def single_client(
    options: ConnectionOptions, host: str, port: int, db: int = 0, user: User | None = None
) -> "redis.Redis":
    """Return a client of one server, as the options' user unless another is given; it does not connect yet."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    given = {name: value for name, value in _arguments(options).items() if name not in CLUSTER_SETTINGS}
    once = Retry(NoBackoff(), 0)  # what to try again, and for how long, is decided in `Server`
    username, password = user or (options.username, options.password)
    return redis.Redis(
        host=host, port=port, db=db, username=username, password=password, retry=once, **given  # type: ignore[arg-type]
    )  # fmt: skip


def cluster_client(options: ConnectionOptions, host: str, port: int) -> "redis.RedisCluster":
    """Return a client of a node's cluster; it fetches the slot map. Raises: StreamdError, redis.RedisError."""
    import redis
    from redis.cluster import REDIS_ALLOWED_KEYS

    for name, _ in options.settings:
        if name not in (*REDIS_ALLOWED_KEYS, *CLUSTER_SETTINGS):  # redis-py would leave it out in silence
            raise StreamdError(f"{CLIENT_PREFIX}{name} is not known to redis-py's client of a cluster: leave it out")
    return redis.RedisCluster(
        host=host, port=port, username=options.username, password=options.password, **_arguments(options)  # type: ignore[arg-type]
    )  # fmt: skip


def _arguments(options: ConnectionOptions) -> dict[str, object]:
    """Return the common arguments of all clients, without host and user."""
    made: dict[str, object] = {
        "protocol": 2,
        "socket_timeout": max(options.timeout_s, 1.0),
        "socket_connect_timeout": min(max(options.timeout_s, 1.0), 10.0),
    }
    if options.client_name is not None:
        made["client_name"] = options.client_name
    if options.ssl:
        made.update(
            ssl=True,
            ssl_ca_certs=options.ssl_ca,
            ssl_certfile=options.ssl_cert,
            ssl_keyfile=options.ssl_key,
            ssl_password=options.ssl_key_password or "",  # None would ask at the terminal
            ssl_check_hostname=options.ssl_check_hostname,
        )
    for name, value in options.settings:
        made[name] = _TLS_VERSIONS[str(value)] if name == "ssl_min_version" else value
    return made


_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
