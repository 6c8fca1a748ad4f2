"""Failures of a command, told in one line with advice."""

from typing import IO, Any, Final

import click
import redis

from streamd.clients.sentinels import NoPrimaryError

EXIT_OK: Final = 0
EXIT_USAGE: Final = 2
EXIT_ADDRESS: Final = 3


class Trouble(click.ClickException):
    """An end with one line: a wrong argument, or something missing."""

    exit_code = EXIT_USAGE

    def __init__(self, line: str) -> None:
        super().__init__(" ".join(line.split()))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(f"streamd: {self.message}", file=file, err=file is None)


class Unreachable(Trouble):
    """The server cannot be reached, or refuses the login."""

    exit_code = EXIT_ADDRESS


def explained(error: redis.RedisError, place: str) -> Trouble:
    """Return the message for an error of redis-py, for the user of a command.

    place: the server's URL without its password.
    """
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, redis.exceptions.BusyLoadingError):
        return Unreachable(f"{place}: the server is still loading its journal; try again when it has")
    if isinstance(error, redis.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return Unreachable(_password(text, place))
    if isinstance(error, redis.exceptions.NoPermissionError) or text.startswith("NOPERM"):
        return Unreachable(f"{place}: {text}; give a user who may, with --url redis://user:password@host")
    if isinstance(error, NoPrimaryError):
        return Unreachable(f"{place}: {text}; name Sentinels that watch it with --url")
    if isinstance(error, redis.TimeoutError):
        return Unreachable(f"{place}: no answer in time; is that a Redis-protocol server, and alive?")
    if isinstance(error, redis.ConnectionError):
        return Unreachable(_connection(text, place))
    return Trouble(f"{place}: {text}")


def _password(text: str, place: str) -> str:
    if "without any password" in text or "no password is set" in text.lower():
        return f"{place}: the server has no password; leave it out of --url"
    if "required" in text:
        return f"{place}: a password is required; give it as redis://:password@host in --url or STREAMD_URL"
    return f"{place}: wrong user or password; give the right one as redis://user:password@host in --url or STREAMD_URL"


def _connection(text: str, place: str) -> str:
    if "refused" in text:
        return f"{place}: connection refused; start a server with `streamd serve`, or give another with --url"
    if "WRONG_VERSION_NUMBER" in text:
        return f"{place}: that port does not speak TLS; give its TLS port, or redis:// in place of rediss://"
    if "closed" in text.lower():
        return (
            f"{place}: the server closed the connection; is it still running, and is this no port for TLS (rediss://)?"
        )
    return f"{place}: {text.rstrip('.')}; is a server running there? Give another with --url"
