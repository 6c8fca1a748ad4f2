"""CLIENT: the connections, one's own and the others'."""

from streamd.base.errors import CommandError, NotAnInteger, SubcommandSyntax, SyntaxError_, echoed
from streamd.catalog import EVERY_NODE, Context, command, container
from streamd.catalog.arguments import Arguments, parse_integer, parse_timeout_ms
from streamd.connected.client import Client
from streamd.resp.types import NO_REPLY, Reply, Verbatim

_FLAGS = "noscript loading stale"
_ADMIN = "admin noscript loading stale"

container(
    "CLIENT",
    since="2.4.0",
    help_since="5.0.0",
    group="connection",
    help_lines=[
        "CACHING (YES|NO)",
        "    Say whether what the next command reads is to be tracked.",
        "GETNAME",
        "    Show the connection's name.",
        "GETREDIR",
        "    Show which connection gets this one's messages of tracking: 0 this one, -1 none, as it does not track.",
        "ID",
        "    Show the connection's number.",
        "INFO",
        "    Show the connection as a line of CLIENT LIST.",
        "KILL <ip:port>",
        "KILL <filter> <value> [...]",
        "    Close a connection, or all that match: ID, TYPE, USER, ADDR, LADDR, SKIPME, MAXAGE.",
        "LIST [TYPE (normal|master|replica|pubsub) | ID <id> [<id> ...]]",
        "    Show connections, one a line.",
        "NO-EVICT (ON|OFF)",
        "    Accepted: no connection is closed for lack of memory.",
        "NO-TOUCH (ON|OFF)",
        "    Do not count the connection's commands, but TOUCH, as accesses to keys.",
        "PAUSE <milliseconds> [WRITE|ALL]",
        "    Let commands, or those that write, wait.",
        "REPLY (ON|OFF|SKIP)",
        "    Send replies, none, or not the next one.",
        "SETINFO (LIB-NAME|LIB-VER) <value>",
        "    Say which library the connection is used by.",
        "SETNAME <name>",
        "    Give the connection a name.",
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
        "    Tell this connection, or another, when keys change that this one has read, or that begin so.",
        "TRACKINGINFO",
        "    Show how this connection tracks.",
        "UNBLOCK <id> [TIMEOUT|ERROR]",
        "    End a blocking command of another connection.",
        "UNPAUSE",
        "    End a pause.",
    ],
)


@command("CLIENT ID", arity=2, flags=_FLAGS, since="5.0.0", complexity="O(1)", group="connection")
def client_id(context: Context, args: list[bytes]) -> Reply:
    """Return the connection's number, which rises from connection to connection."""
    return context.client.id


@command("CLIENT GETNAME", arity=2, flags=_FLAGS, since="2.6.9", complexity="O(1)", group="connection")
def client_getname(context: Context, args: list[bytes]) -> Reply:
    """Return the connection's name, or nil."""
    return context.client.name or None


@command(
    "CLIENT SETNAME", arity=3, flags=_FLAGS, since="2.6.9", complexity="O(1)", group="connection",
    syntax="connection-name", tips=EVERY_NODE,
)  # fmt: skip
def client_setname(context: Context, args: list[bytes]) -> Reply:
    """Give the connection a name; an empty one takes it away."""
    if not _is_plain(args[2]):
        raise CommandError("ERR Client names cannot contain spaces, newlines or special characters.")
    context.client.name = args[2]
    return "OK"


@command(
    "CLIENT SETINFO", arity=4, flags=_FLAGS, since="7.2.0", complexity="O(1)", group="connection",
    syntax="LIB-NAME libname | LIB-VER libver", tips=EVERY_NODE,
)  # fmt: skip
def client_setinfo(context: Context, args: list[bytes]) -> Reply:
    """Set the name or the version of the client's library."""
    attribute, value = args[2].upper(), args[3]
    if attribute not in (b"LIB-NAME", b"LIB-VER"):
        raise CommandError(f"ERR Unrecognized option '{echoed(args[2])}'")
    if not _is_plain(value):
        raise CommandError(f"ERR {attribute.lower().decode()} cannot contain spaces, newlines or special characters.")
    if attribute == b"LIB-NAME":
        context.client.lib_name = value
    else:
        context.client.lib_version = value
    return "OK"


# What can be seen, but for blanks.
_PLAIN = bytes(range(33, 127))


def _is_plain(word: bytes) -> bool:
    return not word.translate(None, _PLAIN)


# -- showing ----------------------------------------------------------------------------------------------------------


@command(
    "CLIENT INFO", arity=2, flags=_FLAGS, since="6.2.0", complexity="O(1)", group="connection",
    tips="nondeterministic_output",
)  # fmt: skip
def client_info(context: Context, args: list[bytes]) -> Reply:
    """Return the connection as a line of CLIENT LIST."""
    return Verbatim(context.client.describe(context.state.time.monotonic_ms) + b"\n")


@command(
    "CLIENT LIST", arity=-2, flags=_ADMIN, since="2.4.0", complexity="O(N), N the connections", group="connection",
    syntax="[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
    tips="nondeterministic_output",
)  # fmt: skip
def client_list(context: Context, args: list[bytes]) -> Reply:
    """Return the connections, one a line."""
    clients = list(context.state.clients.values())
    if len(args) == 4 and args[2].upper() == b"TYPE":
        wanted = _parse_type(args[3])
        clients = [client for client in clients if _type(client) == wanted]
    elif len(args) > 3 and args[2].upper() == b"ID":
        clients = [found for word in args[3:] if (found := context.state.clients.get(_parse_id(word))) is not None]
    elif len(args) > 2:
        raise SyntaxError_()
    return Verbatim(b"".join([client.describe(context.state.time.monotonic_ms) + b"\n" for client in clients]))


def _parse_id(word: bytes) -> int:
    try:
        return parse_integer(word)
    except NotAnInteger:
        raise CommandError("ERR Invalid client ID")


def _parse_type(word: bytes) -> str:
    name = word.lower().decode("utf-8", "surrogateescape")
    if name not in ("normal", "slave", "replica", "master", "pubsub"):
        raise CommandError(f"ERR Unknown client type '{echoed(word)}'")
    return "replica" if name == "slave" else name


def _type(client: Client) -> str:
    return "pubsub" if client.kind == "normal" and client.subscription_count() else client.kind


# -- acting on other connections --------------------------------------------------------------------------------------


@command(
    "CLIENT KILL", arity=-3, flags=_ADMIN, since="2.4.0", complexity="O(N), N the connections", group="connection",
    syntax="ip:port | <[ID client-id] [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] [USER username] "
    "[ADDR ip:port] [LADDR ip:port] [SKIPME yes/no] [MAXAGE maxage:integer]>",
)  # fmt: skip
def client_kill(context: Context, args: list[bytes]) -> Reply:
    """Close a connection, or those that match all filters.

    Reply: with an address: OK; with filters: the number of closed connections.
    """
    clients = list(context.state.clients.values())
    if len(args) == 3:
        address = args[2].decode("utf-8", "surrogateescape")
        for client in clients:
            if client.address == address:
                _kill(context, client)
                return "OK"
        raise CommandError("ERR No such client")
    skip_me = True
    words = Arguments(args, 2)
    while words.left() > 1:
        name, value = words.word().upper(), words.word()
        text = value.decode("utf-8", "surrogateescape")
        if name == b"ID":
            number = _parse_kill_id(value)
            clients = [client for client in clients if client.id == number]
        elif name == b"TYPE":
            wanted = _parse_type(value)
            clients = [client for client in clients if _type(client) == wanted]
        elif name == b"ADDR":
            clients = [client for client in clients if client.address == text]
        elif name == b"LADDR":
            clients = [client for client in clients if client.local_address == text]
        elif name == b"USER":
            user = context.state.users.get(value)
            if user is None:
                raise CommandError(f"ERR No such user '{text}'")
            clients = [client for client in clients if client.user is user]
        elif name == b"MAXAGE":
            oldest_ms = context.state.time.monotonic_ms - parse_integer(value) * 1000
            clients = [client for client in clients if client.created_ms <= oldest_ms]
        elif name == b"SKIPME" and value.lower() in (b"yes", b"no"):
            skip_me = value.lower() == b"yes"
        else:
            raise SyntaxError_()
    words.end()
    clients = [client for client in clients if not (skip_me and client is context.client)]
    for client in clients:
        _kill(context, client)
    return len(clients)


def _parse_kill_id(word: bytes) -> int:
    try:
        number = parse_integer(word)
    except NotAnInteger:
        number = 0
    if number < 1:
        raise CommandError("ERR client-id should be greater than 0")
    return number


def _kill(context: Context, client: Client) -> None:
    if client is context.client:
        client.close_soon = True
    else:
        context.services.disconnect(client)  # from this moment on it waits for nothing and executes nothing
        client.kill()


@command(
    "CLIENT UNBLOCK", arity=-3, flags=_ADMIN, since="5.0.0", complexity="O(1)", group="connection",
    syntax="client-id [TIMEOUT | ERROR]",
)  # fmt: skip
def client_unblock(context: Context, args: list[bytes]) -> Reply:
    """End another connection's blocking command, by its time-out or with an error; return whether it did."""
    with_error = False
    if len(args) == 4:
        if args[3].upper() not in (b"TIMEOUT", b"ERROR"):
            raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
        with_error = args[3].upper() == b"ERROR"
    elif len(args) > 4:
        raise SubcommandSyntax(args)
    client = context.state.clients.get(parse_integer(args[2]))
    waiter = None if client is None else client.waiter
    if client is None or waiter is None or waiter.is_reading or client in context.state.paused:
        return 0
    error = CommandError("UNBLOCKED client unblocked via CLIENT UNBLOCK")
    context.services.unblock(waiter, error if with_error else context.state.blocked.late_reply(waiter))
    return 1


@command(
    "CLIENT PAUSE", arity=-3, flags=_ADMIN, since="3.0.0", complexity="O(1)", group="connection",
    syntax="timeout [WRITE | ALL]",
)  # fmt: skip
def client_pause(context: Context, args: list[bytes]) -> Reply:
    """Hold the commands of all connections for a number of milliseconds, or with WRITE only those that write."""
    state = context.state
    writes_only = False
    if len(args) > 4:
        raise SubcommandSyntax(args)
    if len(args) == 4:
        if args[3].upper() not in (b"WRITE", b"ALL"):
            raise CommandError("ERR CLIENT PAUSE mode must be WRITE or ALL")
        writes_only = args[3].upper() == b"WRITE"
    timeout_ms = parse_timeout_ms(args[2], context.now_ms)
    now_ms = state.clock.monotonic_ms()
    paused = state.pause_until_ms > now_ms
    state.pause_until_ms = max(state.pause_until_ms, now_ms + timeout_ms)
    state.pause_writes_only = writes_only and (state.pause_writes_only or not paused)
    state.restrict()
    return "OK"


@command(
    "CLIENT UNPAUSE", arity=2, flags=_ADMIN, since="6.2.0", complexity="O(N), N the paused connections",
    group="connection",
)  # fmt: skip
def client_unpause(context: Context, args: list[bytes]) -> Reply:
    """End a pause."""
    context.services.end_pause()
    return "OK"


# -- modes of one's own connection ------------------------------------------------------------------------------------


@command(
    "CLIENT REPLY", arity=3, flags=_FLAGS, since="3.2.0", complexity="O(1)", group="connection",
    syntax="ON | OFF | SKIP",
)  # fmt: skip
def client_reply(context: Context, args: list[bytes]) -> Reply:
    """Turn replies on, off from here on, or off for the next command."""
    client, mode = context.client, args[2].lower()
    if mode == b"on":
        client.reply_mode = "on"
        context.update_quick()
        return "OK"
    if mode == b"off":
        client.reply_mode = "off"
    elif mode == b"skip":
        if client.reply_mode != "off":
            client.reply_mode = "skip"
    else:
        raise SyntaxError_()
    context.update_quick()
    return NO_REPLY


def _on_or_off(word: bytes) -> bool:
    if word.upper() not in (b"ON", b"OFF"):
        raise SyntaxError_()
    return word.upper() == b"ON"


@command(
    "CLIENT NO-EVICT", arity=3, flags=_ADMIN, since="7.0.0", complexity="O(1)", group="connection", syntax="ON | OFF",
)  # fmt: skip
def client_no_evict(context: Context, args: list[bytes]) -> Reply:
    """Keep the connection when memory is short; accepted, as streamd closes no connection for that."""
    context.client.no_evict = _on_or_off(args[2])
    return "OK"


@command(
    "CLIENT NO-TOUCH", arity=3, flags=_FLAGS, since="7.2.0", complexity="O(1)", group="connection", syntax="ON | OFF",
)  # fmt: skip
def client_no_touch(context: Context, args: list[bytes]) -> Reply:
    """Do not count the connection's commands, except TOUCH, as accesses to keys: OBJECT IDLETIME goes on."""
    context.client.no_touch = _on_or_off(args[2])
    context.update_quick()
    return "OK"
