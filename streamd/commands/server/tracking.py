"""CLIENT TRACKING and its relatives: invalidations for clients that cache the keys they read."""

from streamd.base.errors import CommandError, SyntaxError_, echoed
from streamd.base.prefixes import overlapping
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_integer
from streamd.connected.tracker import Tracker
from streamd.resp.types import Reply, SetReply

_FLAGS = "noscript loading stale"
_OPTIONS = frozenset({b"BCAST", b"OPTIN", b"OPTOUT", b"NOLOOP"})


@command(
    "CLIENT TRACKING", arity=-3, flags=_FLAGS, since="6.0.0", complexity="O(1); O(N) with prefixes, N of them",
    group="connection",
    syntax="<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
)  # fmt: skip
def client_tracking(context: Context, args: list[bytes]) -> Reply:
    """Tell the connection, or another one, when keys change that it has read, or that begin with a prefix.

    A client that speaks RESP3 gets a push: `invalidate`, and a list of keys, or null when all are gone. A client that
    speaks RESP2 gets messages of the channel `__redis__:invalidate`, if another redirects its own there.
    """
    redirect, prefixes, options = _parse(context, Arguments(args, 3))
    word, tracking, client = args[2].upper(), context.state.tracking, context.client
    if word == b"OFF":
        tracking.stop(client)
    elif word == b"ON":
        _check(client.tracker, prefixes, options)
        tracker = tracking.start(client)
        tracker.redirect, tracker.is_broken = redirect, False
        tracker.is_broadcast, tracker.no_loop = b"BCAST" in options, b"NOLOOP" in options
        tracker.choice = "optin" if b"OPTIN" in options else "optout" if b"OPTOUT" in options else ""
        if tracker.is_broadcast:
            for prefix in prefixes or [b""]:
                tracking.add_prefix(client, prefix)
    else:
        raise SyntaxError_()
    context.update_quick()
    return "OK"


def _parse(context: Context, words: Arguments) -> tuple[int, list[bytes], set[bytes]]:
    """Return the redirect (0: none), the prefixes, and the other options. Raises: CommandError."""
    redirect = 0
    prefixes: list[bytes] = []
    options: set[bytes] = set()
    while words.left():
        option = words.word().upper()
        if option == b"REDIRECT" and words.left():
            if redirect:
                raise CommandError("ERR A client can only redirect to a single other client")
            redirect = parse_integer(words.word())
            if redirect not in context.state.clients:
                raise CommandError("ERR The client ID you want redirect to does not exist")
        elif option == b"PREFIX" and words.left():
            prefixes.append(words.word())
        elif option in _OPTIONS:
            options.add(option)
        else:
            raise SyntaxError_()
    return redirect, prefixes, options


def _check(tracker: Tracker | None, prefixes: list[bytes], options: set[bytes]) -> None:
    """Check that the options agree, with each other and with earlier ones. Raises: CommandError."""
    is_broadcast = b"BCAST" in options
    if prefixes and not is_broadcast:
        raise CommandError("ERR PREFIX option requires BCAST mode to be enabled")
    if tracker is not None and tracker.is_broadcast != is_broadcast:
        raise CommandError(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it "
            "with a different mode."
        )
    choices = options & {b"OPTIN", b"OPTOUT"}
    if is_broadcast and choices:
        raise CommandError("ERR OPTIN and OPTOUT are not compatible with BCAST")
    if len(choices) > 1:
        raise CommandError("ERR You can't specify both OPTIN mode and OPTOUT mode")
    if tracker is not None and tracker.choice and choices - {tracker.choice.upper().encode()}:
        raise CommandError(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it "
            "with a different mode."
        )
    known = set() if tracker is None else tracker.prefixes
    found = overlapping([*known, *prefixes])
    if not found:
        return
    at, prefix = next((at, prefix) for at, prefix in enumerate(prefixes) if prefix in found)
    for others, which in ((sorted(known), "an existing"), (prefixes[at + 1 :], "another provided")):
        for other in others:
            if prefix.startswith(other) or other.startswith(prefix):
                raise CommandError(
                    f"ERR Prefix '{echoed(prefix)}' overlaps with {which} prefix '{echoed(other)}'. "
                    "Prefixes for a single client must not overlap."
                )


@command(
    "CLIENT CACHING", arity=3, flags=_FLAGS, since="6.0.0", complexity="O(1)", group="connection", syntax="YES | NO",
)  # fmt: skip
def client_caching(context: Context, args: list[bytes]) -> Reply:
    """Choose whether the reads of the next command, or transaction, are tracked."""
    tracker = context.client.tracker
    if tracker is None:
        raise CommandError(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode "
            "enabled"
        )
    word = args[2].upper()
    if word == b"YES" and tracker.choice != "optin":
        raise CommandError("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
    if word == b"NO" and tracker.choice != "optout":
        raise CommandError("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
    if word not in (b"YES", b"NO"):
        raise SyntaxError_()
    tracker.has_chosen = True
    return "OK"


@command("CLIENT GETREDIR", arity=2, flags=_FLAGS, since="6.0.0", complexity="O(1)", group="connection")
def client_getredir(context: Context, args: list[bytes]) -> Reply:
    """Return the number of the connection that gets the invalidations: 0 this one; -1 without tracking."""
    tracker = context.client.tracker
    return -1 if tracker is None else tracker.redirect


@command("CLIENT TRACKINGINFO", arity=2, flags=_FLAGS, since="6.2.0", complexity="O(1)", group="connection")
def client_trackinginfo(context: Context, args: list[bytes]) -> Reply:
    """Return how the connection tracks: flags, receiver, prefixes."""
    tracker = context.client.tracker
    if tracker is None:
        return {b"flags": SetReply([b"off"]), b"redirect": -1, b"prefixes": []}
    flags: list[Reply] = [b"on"]
    if tracker.is_broadcast:
        flags.append(b"bcast")
    if tracker.choice:
        flags.append(tracker.choice.encode())
        if tracker.has_chosen:
            flags.append(b"caching-yes" if tracker.choice == "optin" else b"caching-no")
    if tracker.no_loop:
        flags.append(b"noloop")
    if tracker.is_broken:
        flags.append(b"broken_redirect")
    return {b"flags": SetReply(flags), b"redirect": tracker.redirect, b"prefixes": [*sorted(tracker.prefixes)]}
