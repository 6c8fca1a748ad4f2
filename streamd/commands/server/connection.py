"""Commands about the connection itself."""

from streamd.base.errors import CommandError, SyntaxError_, WrongArity, echoed
from streamd.base.version import REDIS_VERSION
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_database
from streamd.resp.types import Reply


@command(
    "PING", arity=-1, flags="fast", since="1.0.0", complexity="O(1)", group="connection", syntax="[message]",
    tips="request_policy:all_shards response_policy:all_succeeded",
)  # fmt: skip
def ping(context: Context, args: list[bytes]) -> Reply:
    """Return PONG, or the message given."""
    if len(args) > 2:
        raise WrongArity("ping")
    client = context.client
    if client.protocol == 2 and client.subscription_count():
        return [b"pong", args[1] if len(args) == 2 else b""]
    return "PONG" if len(args) == 1 else args[1]


@command(
    "ECHO", arity=2, flags="loading stale fast", since="1.0.0", complexity="O(1)", group="connection",
    syntax="message",
)  # fmt: skip
def echo(context: Context, args: list[bytes]) -> Reply:
    """Return the message given."""
    return args[1]


@command(
    "HELLO", arity=-1, flags="noscript loading stale fast no_auth allow_busy", since="6.0.0", complexity="O(1)",
    group="connection", syntax="[protover [AUTH username password] [SETNAME clientname]]",
)  # fmt: skip
def hello(context: Context, args: list[bytes]) -> Reply:
    """Choose the protocol version, optionally log in and set a name, and return facts about the server.

    Reply: map: server, version, proto, id, mode, role, modules.
    """
    client = context.client
    words = Arguments(args, 1)
    protocol, password, name = client.protocol, None, None
    if words.left():
        protocol = words.integer(CommandError("ERR Protocol version is not an integer or out of range"))
        if protocol not in (2, 3):
            raise CommandError("NOPROTO unsupported protocol version")
    while words.left():
        if words.flag(b"AUTH", followed_by=2):
            password = (words.word(), words.word())
        elif words.flag(b"SETNAME", followed_by=1):
            name = _client_name(words.word())
        else:
            raise CommandError(f"ERR Syntax error in HELLO option '{echoed(words.word())}'")
    if password is not None:
        context.services.access.log_in(context, args[0], *password)
    if not client.authenticated:
        raise CommandError(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
            "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at "
            "the same time"
        )
    if name is not None:
        client.name = name
    client.protocol = protocol
    return {
        b"server": b"redis",
        b"version": REDIS_VERSION.encode(),
        b"proto": client.protocol,
        b"id": client.id,
        b"mode": b"standalone",
        b"role": b"master" if context.state.read_only is None else b"replica",
        b"modules": [],
    }


def _client_name(word: bytes) -> bytes:
    if any(not 33 <= byte <= 126 for byte in word):
        raise CommandError("ERR Client names cannot contain spaces, newlines or special characters.")
    return word


@command(
    "AUTH", arity=-2, flags="noscript loading stale fast no_auth allow_busy", since="1.0.0", complexity="O(1)",
    group="connection", syntax="[username] password",
)  # fmt: skip
def auth(context: Context, args: list[bytes]) -> Reply:
    """Log the connection in."""
    if len(args) > 3:
        raise SyntaxError_()
    if len(args) == 2 and context.state.users.default.needs_no_password:
        raise CommandError(
            "ERR AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?"
        )
    name = b"default" if len(args) == 2 else args[1]
    context.services.access.log_in(context, args[0], name, args[-1])
    return "OK"


@command(
    "SELECT", arity=2, flags="loading stale fast", since="1.0.0", complexity="O(1)", group="connection",
    syntax="index",
)  # fmt: skip
def select(context: Context, args: list[bytes]) -> Reply:
    """Select another database for this connection."""
    keyspace = context.state.keyspace
    context.db = keyspace[parse_database(args[1], len(keyspace.databases))]
    return "OK"


@command(
    "QUIT", arity=-1, flags="noscript loading stale fast no_auth allow_busy", since="1.0.0", complexity="O(1)",
    group="connection",
)  # fmt: skip
def quit_(context: Context, args: list[bytes]) -> Reply:
    """Close the connection."""
    context.client.close_soon = True
    return "OK"


@command(
    "RESET", arity=1, flags="noscript loading stale fast no_auth allow_busy", since="6.2.0", complexity="O(1)",
    group="connection",
)  # fmt: skip
def reset(context: Context, args: list[bytes]) -> Reply:
    """Put the connection back into the state of a new one."""
    state, client = context.state, context.client
    context.unwatch()
    client.transaction = None
    client.transaction_broken = False
    state.pubsub.leave(client)
    state.monitors.pop(client.id, None)
    state.restrict()
    client.monitoring = False
    if client.reply_mode != "skipping":
        client.reply_mode = "on"  # else this is the reply that is left out, and the next one is sent
    state.tracking.stop(client)
    client.no_touch = client.no_evict = False
    client.protocol = 2
    client.name = b""
    context.services.access.begin(context)
    context.db = state.keyspace[0]
    return "RESET"
