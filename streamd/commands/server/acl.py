"""ACL: users, their rules, and the log of refusals."""

from streamd.acl.categories import CATEGORIES
from streamd.acl.selector import Selector
from streamd.acl.users import is_name
from streamd.base.errors import CommandError, SubcommandSyntax, echoed
from streamd.catalog import EVERY_NODE, Context, command, container
from streamd.catalog.arguments import parse_integer
from streamd.catalog.describe import categories
from streamd.resp.types import Reply, SetReply

_FLAGS = "noscript loading stale"
_ADMIN = "admin noscript loading stale"
_BITS_MAX = 4096
_SHOWN = 10  # entries of the log, where nobody says how many

container(
    "ACL",
    since="6.0.0",
    group="server",
    help_lines=[
        "CAT [<category>]",
        "    Show the commands of a category, or all categories.",
        "DELUSER <username> [<username> ...]",
        "    Remove users, and close their connections.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Show whether a user may have a request executed, without executing it.",
        "GETUSER <username>",
        "    Show what a user may do.",
        "GENPASS [<bits>]",
        "    Make a password that nobody can guess, of 256 bits or so many.",
        "LIST",
        "    Show all users as lines of an ACL file.",
        "LOAD",
        "    Take the users from the ACL file.",
        "LOG [<count> | RESET]",
        "    Show what was refused, or forget it.",
        "SAVE",
        "    Write the users to the ACL file.",
        "SETUSER <username> <attribute> [<attribute> ...]",
        "    Change a user, or add one.",
        "USERS",
        "    Show the names of all users.",
        "WHOAMI",
        "    Show who this connection has logged in as.",
    ],
)


@command(
    "ACL CAT", arity=-2, flags=_FLAGS, since="6.0.0", group="server",
    complexity="O(1), as categories and commands do not change", syntax="[category]",
)  # fmt: skip
def acl_cat(context: Context, args: list[bytes]) -> Reply:
    """Return the categories of commands, or the commands of one."""
    if len(args) > 3:
        raise SubcommandSyntax(args)
    if len(args) == 2:
        return [name.encode() for name in CATEGORIES]
    wanted = args[2].lower().decode("utf-8", "surrogateescape")
    if wanted not in CATEGORIES:
        raise CommandError(f"ERR Unknown category '{echoed(args[2])}'")
    parents = context.services.commands.values()
    everything = [one for parent in parents for one in (parent, *parent.subcommands.values())]
    return [one.name.encode() for one in everything if wanted in categories(one)]


@command(
    "ACL SETUSER", arity=-3, flags=_ADMIN, since="6.0.0", complexity="O(N), N the rules", group="server",
    syntax="username [rule [rule ...]]", tips=EVERY_NODE,
)  # fmt: skip
def acl_setuser(context: Context, args: list[bytes]) -> Reply:
    """Change a user by rules from left to right, or add one; all rules are taken or none."""
    if not is_name(args[2]):
        raise CommandError("ERR Usernames can't contain spaces or null characters")
    context.services.access.set_user(context, args[2], args[3:])
    return "OK"


@command(
    "ACL DELUSER", arity=-3, flags=_ADMIN, since="6.0.0", complexity="O(N), N the connections", group="server",
    syntax="username [username ...]", tips=EVERY_NODE,
)  # fmt: skip
def acl_deluser(context: Context, args: list[bytes]) -> Reply:
    """Remove users and close their connections; return how many there were."""
    if b"default" in args[2:]:
        raise CommandError("ERR The 'default' user cannot be removed")
    return sum(context.services.access.remove_user(context, name) for name in args[2:])


@command(
    "ACL GETUSER", arity=3, flags=_ADMIN, since="6.0.0", complexity="O(N), N the rules that the user has",
    group="server", syntax="username",
)  # fmt: skip
def acl_getuser(context: Context, args: list[bytes]) -> Reply:
    """Return the rules of a user.

    Reply: map: flags, passwords (their hashes), commands, keys, channels, selectors; nil without such a user.
    """
    user = context.state.users.get(args[2])
    if user is None:
        return None
    first, *others = user.selectors
    return {
        b"flags": SetReply([flag.encode() for flag in user.flags()]),
        b"passwords": list(user.passwords),
        **_described(first),
        b"selectors": [_described(selector) for selector in others],
    }


def _described(selector: Selector) -> dict[bytes, Reply]:
    return {
        b"commands": selector.commands_text(),
        b"keys": selector.keys_text(),
        b"channels": selector.channels_text(),
    }


@command("ACL LIST", arity=2, flags=_ADMIN, since="6.0.0", complexity="O(N), N the users", group="server")
def acl_list(context: Context, args: list[bytes]) -> Reply:
    """Return all users, each as a line of an ACL file."""
    return context.state.users.lines()


@command("ACL USERS", arity=2, flags=_ADMIN, since="6.0.0", complexity="O(N), N the users", group="server")
def acl_users(context: Context, args: list[bytes]) -> Reply:
    """Return the names of all users."""
    return context.state.users.names()


@command("ACL WHOAMI", arity=2, flags=_FLAGS, since="6.0.0", complexity="O(1)", group="server")
def acl_whoami(context: Context, args: list[bytes]) -> Reply:
    """Return the name of the user that the connection has logged in as."""
    return context.client.user.name


@command("ACL LOAD", arity=2, flags=_ADMIN, since="6.0.0", complexity="O(N), N the users", group="server")
def acl_load(context: Context, args: list[bytes]) -> Reply:
    """Load all users from the ACL file, or none if any line is wrong."""
    context.services.access.load(context)
    return "OK"


@command(
    "ACL SAVE", arity=2, flags=_ADMIN, since="6.0.0", complexity="O(N), N the users", group="server", tips=EVERY_NODE,
)  # fmt: skip
def acl_save(context: Context, args: list[bytes]) -> Reply:
    """Write all users to the ACL file."""
    context.services.access.save()
    return "OK"


@command("ACL GENPASS", arity=-2, flags=_FLAGS, since="6.0.0", complexity="O(1)", group="server", syntax="[bits]")
def acl_genpass(context: Context, args: list[bytes]) -> Reply:
    """Return a random password in hexadecimal digits, of 256 bits or a given number."""
    if len(args) > 3:
        raise SubcommandSyntax(args)
    bits = parse_integer(args[2]) if len(args) == 3 else 256
    if not 0 < bits <= _BITS_MAX:
        raise CommandError(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to "
            f"{_BITS_MAX}"
        )
    digits = (bits + 3) // 4
    return f"{context.services.access.random_bits(4 * digits):0{digits}x}".encode()


@command(
    "ACL LOG", arity=-2, flags=_ADMIN, since="6.0.0", complexity="O(N), N the entries echoed", group="server",
    syntax="[count | RESET]",
)  # fmt: skip
def acl_log(context: Context, args: list[bytes]) -> Reply:
    """Return the newest refusals, ten or a given number, or forget them all.

    Reply: array of maps: count, reason, context, object, username, age-seconds, client-info, entry-id,
    timestamp-created, timestamp-last-updated.
    """
    if len(args) > 3:
        raise SubcommandSyntax(args)
    log = context.state.refusals
    count = _SHOWN
    if len(args) == 3:
        if args[2].lower() == b"reset":
            log.entries.clear()
            return "OK"
        count = parse_integer(args[2])
    now_ms = context.state.clock.now_ms()
    return [
        {
            b"count": entry.count,
            b"reason": entry.reason.encode(),
            b"context": entry.context.encode(),
            b"object": entry.object,
            b"username": entry.username,
            b"age-seconds": max(0, now_ms - entry.updated_ms) / 1000,
            b"client-info": entry.client,
            b"entry-id": entry.number,
            b"timestamp-created": entry.created_ms,
            b"timestamp-last-updated": entry.updated_ms,
        }
        for entry in list(log.entries)[: max(0, count)]
    ]


@command(
    "ACL DRYRUN", arity=-4, flags=_ADMIN, since="7.0.0", complexity="O(1)", group="server",
    syntax="username command [arg [arg ...]]",
)  # fmt: skip
def acl_dryrun(context: Context, args: list[bytes]) -> Reply:
    """Return OK if a user may run a request, or the reason why not; it is not executed."""
    user = context.state.users.get(args[2])
    if user is None:
        raise CommandError(f"ERR User '{echoed(args[2], len(args[2]))}' not found")
    request = args[3:]
    found = context.services.commands.get(request[0].lower())
    if found is not None and found.subcommands and len(request) > 1:
        found = found.subcommands.get(request[1].lower())
    if found is None:
        raise CommandError(f"ERR Command '{echoed(request[0], len(request[0]))}' not found")
    if not found.accepts(len(request)):
        raise CommandError(f"ERR wrong number of arguments for '{found.name}' command")
    decision = context.services.access.guard_of(user).decide(found, request)
    if decision.reason == "ok":
        return "OK"
    if decision.reason == "command":
        return b"User %b has no permissions to run the '%b' command" % (user.name, found.name.encode())
    return b"User %b has no permissions to access the '%b' %b" % (user.name, decision.object, decision.reason.encode())
