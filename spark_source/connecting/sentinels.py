"""Finding the master of a name by asking Sentinels."""

from spark_source.connecting.clients import single_client
from spark_source.errors import StreamdError
from spark_source.settings.connection_options import ConnectionOptions


def master_address(options: ConnectionOptions) -> tuple[str, int]:
    """Return host and port of the master, as the first Sentinel to answer names it and the master itself confirms.

    Raises: redis.ConnectionError while no Sentinel answers, or the named server is no master yet: trying again helps;
        StreamdError when a Sentinel does not know the name, or refuses the login.
    """
    import redis

    silent: list[str] = []
    unknown: list[str] = []
    for host, port in options.nodes:
        try:
            found = _ask(options, host, port)
        except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
            raise StreamdError(
                f"Sentinel {host}:{port} does not let us ask ({error}): check sentinelUsername and sentinelPassword"
            ) from None
        except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError, OSError) as error:
            silent.append(f"{host}:{port} ({str(error).strip().partition(chr(10))[0]})")
            continue
        if found is None:
            unknown.append(f"{host}:{port}")
            continue
        _check_role(options, *found)
        return found
    if unknown and not silent:
        raise StreamdError(
            f"Sentinel {unknown[0]} knows no master named {options.master}: check the name behind the hosts in url"
        )
    raise redis.ConnectionError(f"no Sentinel names master {options.master}: {', '.join(silent)}")


def _ask(options: ConnectionOptions, host: str, port: int) -> tuple[str, int] | None:
    sentinel = single_client(options, host, port, user=(options.sentinel_username, options.sentinel_password))
    try:
        reply = sentinel.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", options.master)
    finally:
        sentinel.close()
    if reply is None:
        return None
    place, number = reply
    return (place.decode() if isinstance(place, bytes) else str(place)), int(number)


def _check_role(options: ConnectionOptions, host: str, port: int) -> None:
    """Raise redis.ConnectionError when a server is no master: during a failover Sentinels may name the old one."""
    import redis

    server = single_client(options, host, port)
    try:
        role = server.execute_command("ROLE")[0]
    except redis.exceptions.NoPermissionError:
        return  # then READONLY will tell
    finally:
        server.close()
    if role != b"master":
        raise redis.ConnectionError(f"{host}:{port} is named as master {options.master}, but is none yet")
