"""Commands about the connection itself."""

from streamd.command import Context, command
from streamd.errors import WrongArity
from streamd.resp.types import Reply


@command("PING", arity=-1, flags="fast", since="1.0.0", complexity="O(1)", group="connection", syntax="[message]")
def ping(context: Context, args: list[bytes]) -> Reply:
    """Return PONG, or the message given.

    Source: https://redis.io/docs/latest/commands/ping/
    """
    if len(args) > 2:
        raise WrongArity("ping")
    client = context.client
    if client.protocol == 2 and client.subscription_count():
        return [b"pong", args[1] if len(args) == 2 else b""]
    return "PONG" if len(args) == 1 else args[1]
