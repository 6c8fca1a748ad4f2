"""Failures of the server: whether a retry may help, and the message for the user."""

import re

from spark_source.connecting import tls
from spark_source.errors import NotDurable, StreamdError, Unreachable
from spark_source.settings.connection_options import ConnectionOptions


def is_passing(error: BaseException) -> bool:
    """Return whether a later retry may help: the server is away, loading, or moves its slots."""
    import redis

    if isinstance(error, NotDurable):
        return True
    if isinstance(error, (redis.AuthenticationError, redis.exceptions.AuthorizationError)):
        return False
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError)):
        return "Name or service not known" not in str(error) and not tls.is_final(str(error))
    if isinstance(error, OSError):
        return True
    if isinstance(error, (redis.exceptions.AskError, redis.exceptions.ClusterError, redis.exceptions.TryAgainError)):
        return True
    if isinstance(error, redis.exceptions.RedisClusterException):
        return True
    return isinstance(error, (redis.ReadOnlyError, redis.BusyLoadingError)) or str(error).startswith(
        ("LOADING", "MASTERDOWN", "BUSY ")
    )


def is_broken(error: Exception) -> bool:
    """Return whether a connection broke right after connecting, or got no reply at all: TLS may be the reason."""
    import redis

    if isinstance(error, redis.BusyLoadingError) or "refused" in str(error):
        return False
    return isinstance(error, (redis.ConnectionError, redis.TimeoutError))


def given_up(error: Exception, options: ConnectionOptions, waited_s: float) -> StreamdError:
    """Return the message for the user when a failure has lasted for `timeout`."""
    if isinstance(error, NotDurable):
        return error
    alone = len(options.nodes) == 1 and options.master is None and options.cluster is not False
    cluster = "; if it is a node of a cluster, name several nodes in url" if alone else ""
    return Unreachable(
        f"{options.endpoint} did not answer for {waited_s:.0f} s ({first_line(error)}): "
        f"start the server, or correct url, host, port, ssl or timeout{cluster}"
    )


def explained(error: Exception, options: ConnectionOptions) -> Exception:
    """Return an error of the server or its client as one line with advice; other errors unchanged."""
    import redis

    if isinstance(error, StreamdError):
        return error
    text = first_line(error)
    if options.username and not options.is_user_shown:  # as in: User me has no permissions to ..
        text = re.sub(rf"\b[Uu]ser '?{re.escape(options.username)}\b'?", "the user in url", text)
    if isinstance(error, (redis.AuthenticationError, redis.exceptions.AuthorizationError)) or "NOAUTH" in text:
        return StreamdError(
            f"{options.endpoint} does not let in {options.shown_user} ({text}): check username and password"
        )
    if isinstance(error, redis.exceptions.NoPermissionError):
        named = re.search(r"the '([^']+)' command", text)
        user = "default" if options.username is None else options.username if options.is_user_shown else "USER"
        right = f" by ACL SETUSER {user} +{named[1]}" if named else ""
        return StreamdError(f"{options.endpoint} refuses a command ({text}): extend the user's rights{right}")
    if is_passing(error):
        return Unreachable(f"the connection to {options.endpoint} broke ({text}): see its log, or raise timeout")
    told = tls.trouble(text, options) if tls.is_final(text) else None
    if told is not None:
        return StreamdError(told)
    if "cluster support disabled" in text:
        return StreamdError(f"{options.endpoint} is no cluster: leave out cluster=true")
    if "DB index is out of range" in text:
        return StreamdError(
            f"{options.endpoint} has no database {options.db}: correct db, or the number at the end of url"
        )
    if isinstance(error, redis.RedisError):
        return StreamdError(f"{options.endpoint} answers: {text}")
    return error


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
