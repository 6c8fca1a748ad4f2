"""Commands about the journal: rewriting it, and waiting for it."""

from streamd.base.errors import CommandError, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_integer, parse_timeout_ms
from streamd.connected.blocking import BLOCKED
from streamd.connected.durability_ports import Journal
from streamd.resp.types import Reply

_ADMIN = "admin noscript no_async_loading"


def _journal(context: Context) -> Journal:
    journal = context.state.journal
    if journal is None:
        raise CommandError("ERR there is no journal to write: the server was started with appendonly no")
    return journal


def _start_rewrite(context: Context) -> None:
    try:
        _journal(context).start_rewrite()
    except OSError as error:
        raise CommandError(f"ERR Can't execute an AOF background rewriting: {error.strerror}")


@command(
    "BGREWRITEAOF", arity=1, flags=_ADMIN, since="1.0.0", complexity="O(1)", group="server", acl="admin dangerous",
)  # fmt: skip
def bgrewriteaof(context: Context, args: list[bytes]) -> Reply:
    """Rewrite the journal in the background, in its shortest form."""
    _start_rewrite(context)
    return "Background append only file rewriting started"


@command(
    "BGSAVE", arity=-1, flags=_ADMIN, since="1.0.0", complexity="O(1)", group="server", syntax="[SCHEDULE]",
    acl="admin dangerous",
)  # fmt: skip
def bgsave(context: Context, args: list[bytes]) -> Reply:
    """Rewrite the journal in the background: streamd saves data in no other form."""
    if len(args) > 2 or (len(args) == 2 and args[1].upper() != b"SCHEDULE"):
        raise SyntaxError_()
    if _journal(context).is_rewriting:
        raise CommandError("ERR Background save already in progress")
    _start_rewrite(context)
    return "Background saving started"


@command(
    "SAVE", arity=1, flags=_ADMIN + " no_multi", since="1.0.0", complexity="O(N), N the keys and entries",
    group="server", acl="admin dangerous",
)  # fmt: skip
def save(context: Context, args: list[bytes]) -> Reply:
    """Rewrite the journal while all clients wait."""
    _journal(context).save()
    return "OK"


@command(
    "WAITAOF", arity=4, flags="blocking", since="7.2.0", complexity="O(1)", group="generic",
    acl="connection", syntax="numlocal numreplicas timeout",
    tips="request_policy:all_shards response_policy:agg_min",
)  # fmt: skip
def waitaof(context: Context, args: list[bytes]) -> Reply:
    """Wait until all writes so far are on disks; return for how many journals here, and on how many replicas."""
    local, replicas, timeout_ms = (
        parse_integer(args[1]),
        parse_integer(args[2]),
        parse_timeout_ms(args[3], context.now_ms),
    )
    if not 0 <= local <= 1:
        raise CommandError("ERR value is out of range, value must between 0 and 1")
    if replicas < 0:
        raise CommandError("ERR value is out of range, must be positive")
    state, client = context.state, context.client
    if state.read_only is not None:
        raise CommandError(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just "
            "local and are not propagated."
        )
    journal, replication = state.journal, state.replication
    if journal is None:
        if local:
            raise CommandError("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
        return [0, 0] if not replicas else context.block((), timeout_ms, lambda: BLOCKED, [0, 0])
    goal = journal.sync_goal()

    def found() -> list[Reply]:
        return [int(journal.is_synced(goal)), replication.count(client, synced=True)]

    def attempt() -> Reply:
        here, there = journal.is_synced(goal), replication.count(client, synced=True)
        return [int(here), there] if here >= local and there >= replicas else BLOCKED

    reply = attempt()
    if reply is not BLOCKED or context.in_unit:
        return found()
    parked = context.block((), timeout_ms, attempt, None, late=found)
    assert context.waiter is not None
    journal.serve_when_synced(context.waiter)
    if replicas:
        replication.ask(context.waiter)
    return parked
