"""Which command a request names, and whether its client may have it executed now."""

from typing import Final

from streamd.base.errors import CommandError, UnknownSubcommand, WrongArity, echoed
from streamd.catalog import COMMANDS, Command, CommandTable, Context, QuickTable
from streamd.catalog.refusing import refuse
from streamd.catalog.script_host import SCRIPT_COMMANDS
from streamd.connected.blocking import BLOCKED
from streamd.lua.programs import Program
from streamd.lua.shebang import read_shebang
from streamd.resp.types import NO_REPLY

# What a client may say before it has said its password, in a transaction, and (RESP2) while subscribed.
BEFORE_AUTH: Final = frozenset({"auth", "hello", "quit", "reset"})
NOT_QUEUED: Final = frozenset({"exec", "discard", "multi", "watch", "quit", "reset"})
WHILE_SUBSCRIBED: Final = frozenset(
    {"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", "ping", "quit", "reset"}
)


# What is refused of commands that change something: while memory is full, or the disk fails.
_OF_CHANGES: Final = frozenset({"write", "denyoom"})

# What stands in front of NOAUTH and NOPERM. A replica of Redis asks later if it reads this; other errors it takes for
# those of a server without PSYNC, and connects again at once, up to a thousand times a second.
_LATER: Final = {"psync": "NOMASTERLINK Can't SYNC: "}

_FUNCTION_CALLS: Final = frozenset({"fcall", "fcall_ro"})

# What a browser sends that was told by some page to post to this port: Redis closes the connection without a reply.
_HTTP: Final = frozenset({b"post", b"host:"})


def find_command(commands: CommandTable, request: list[bytes]) -> Command:
    """Return the command or subcommand that a request names. Raises: CommandError."""
    command = commands.get(request[0].lower())
    if command is None:
        raise _unknown_command(request)
    return _subcommand(command, request) if command.subcommands else command


def is_http(request: list[bytes]) -> bool:
    """Return whether a request is the beginning of a browser's, whose connection must be closed without a reply."""
    return request[0].lower() in _HTTP


def check_allowed(command: Command, client: Context, request: list[bytes]) -> None:
    """Check whether a client may have a request executed now. Raises: CommandError."""
    if not command.accepts(len(request)):
        raise WrongArity(command.name)
    if not client.authenticated and command.name not in BEFORE_AUTH:
        raise CommandError(_LATER.get(command.name, "") + "NOAUTH Authentication required.")
    if client.transaction is not None and "no_multi" in command.flags:
        raise CommandError("ERR Command not allowed inside a transaction")
    if client.guard is not None:
        names = client.guard.names.get(command.name)
        if names is None or request[1] not in names:
            check_permitted(command, client, request)
    if (
        client.protocol == 2
        and not client.in_unit  # it was asked when the request was queued
        and client.subscription_count()
        and command.name not in WHILE_SUBSCRIBED
    ):
        raise CommandError(
            f"ERR Can't execute '{command.name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
            "are allowed in this context"
        )
    if client.in_unit:
        # EXEC was asked for all that was queued; but a REPLICAOF among that may have changed the role.
        if client.state.read_only is not None and "write" in command.flags:
            raise client.state.read_only
        return
    state, flags = client.state, command.flags
    if client.transaction is not None and (
        state.is_full
        or state.write_error is not None
        or state.read_only is not None
        or state.lacks_replicas is not None
        or state.stale is not None
    ):
        flags = _flags_in_transaction(command, client, request)
    state.check_restrictions(flags)


def check_permitted(command: Command, client: Context, request: list[bytes]) -> None:
    """Check whether the rules of a client's user allow a request. Raises: NoPermission; CommandError for PSYNC."""
    if client.guard is not None and not client.guard.allows(command, request):
        place = "exec" if client.in_unit else "toplevel" if client.transaction is None else "multi"
        error = refuse(client.state, client, client.guard.decide(command, request), place)
        if command.name in _LATER:
            raise CommandError(f"{_LATER[command.name]}{error}")
        raise error


def _flags_in_transaction(command: Command, client: Context, request: list[bytes]) -> frozenset[str]:
    """Return a command's flags: a script has those that it names, and EXEC has those of the queued commands; `stale` it
    has if all of these have it.
    """
    if command.name != "exec":
        return command.flags | _flags_of_script(command, client, request)
    flags = command.flags
    for one in client.transaction or ():
        queued = find_command(COMMANDS, one)
        flags |= (queued.flags | _flags_of_script(queued, client, one)) & _OF_CHANGES
        if "stale" not in queued.flags:
            flags -= {"stale"}
    return flags


def _flags_of_script(command: Command, client: Context, request: list[bytes]) -> frozenset[str]:
    """Return those of _OF_CHANGES that a request has as it runs a script or function which names flags."""
    named = _named_flags(command, client, request)
    if named is None or "no-writes" in named:
        return frozenset()
    return frozenset({"write"}) if "allow-oom" in named else _OF_CHANGES


def _named_flags(command: Command, client: Context, request: list[bytes]) -> frozenset[str] | None:
    """Return the flags that the script or function of a request names; None without such a program or such a line."""
    if command.name in ("eval", "eval_ro"):
        try:
            shebang, _ = read_shebang(request[1])
        except CommandError:
            return None  # it is answered with that
        return shebang.flags if shebang.is_there else None
    program: Program | None = None
    if command.name in ("evalsha", "evalsha_ro"):
        program = client.services.scripts.scripts.find(request[1])
    elif command.name in _FUNCTION_CALLS:
        program = client.state.libraries.find(request[1])
    return program.flags if program is not None and program.has_flags else None


def postpone(command: Command, client: Context, request: list[bytes]) -> bool:
    """Park a paused client with its request, which runs again when the pause is over; return whether it was."""
    state = client.state
    now_ms = state.clock.monotonic_ms()
    is_paused = state.pause_until_ms > now_ms
    if not (is_paused or state.writes_wait):
        return False
    if client.in_unit or client.kind == "replica":  # whose acknowledgements show that it is there
        return False
    if (state.pause_writes_only or not is_paused) and not _may_write(command, client, request):
        return False
    until_ms = None if state.writes_wait else state.pause_until_ms
    client.backlog.appendleft(request)
    state.blocked.add(client, client.db, (), until_ms, lambda: BLOCKED, NO_REPLY)
    state.paused.append(client)
    return True


def _unknown_command(request: list[bytes]) -> CommandError:
    """Return Redis's error for a command that does not exist."""
    if len(request) == 1:
        return CommandError(f"ERR unknown command '{echoed(request[0])}'")
    words = ""
    for word in request[1:]:
        if len(words) >= 128:
            break
        words += f"'{echoed(word, 128 - len(words))}' "
    return CommandError(f"ERR unknown command '{echoed(request[0])}', with args beginning with: {words}")


def _may_write(command: Command, client: Context, request: list[bytes]) -> bool:
    """Return whether a command must wait while writes are paused: it writes or publishes, is a script that does not
    promise to do neither, or ends a transaction of such ones.
    """
    if command.name == "exec":
        return any(_may_write(find_command(COMMANDS, one), client, one) for one in client.transaction or ())
    if command.name == "eval":
        try:
            return "no-writes" not in read_shebang(request[1])[0].flags
        except CommandError:
            return False  # it is answered with that
    if command.name == "evalsha":
        script = client.services.scripts.scripts.find(request[1])
        return script is None or "no-writes" not in script.flags
    if command.name in _FUNCTION_CALLS:
        function = client.state.libraries.find(request[1])
        return command.name == "fcall" if function is None else "no-writes" not in function.flags
    return "write" in command.flags or command.name == "publish"


def _subcommand(container: Command, request: list[bytes]) -> Command:
    if len(request) < 2:
        if container.accepts(1):
            return container
        raise WrongArity(container.name)
    found = container.subcommands.get(request[1].lower())
    if found is None:
        raise UnknownSubcommand(container.name, echoed(request[1]), container.advice)
    return found


def quick_commands(commands: CommandTable) -> QuickTable:
    """Return the commands that clients may run without further checks, by name in lower and in upper case.

    These are the commands without subcommands that do not change their client (the same that scripts may call), and
    the commands that run scripts.
    """
    return {
        name: command
        for key, command in commands.items()
        if not command.subcommands and ("noscript" not in command.flags or key in SCRIPT_COMMANDS)
        for name in (key, key.upper())
    }
