"""The options and state of one client's CLIENT TRACKING."""


class Tracker:
    """How a client is told of changes.

    is_broadcast: of those to keys that begin with one of `prefixes`; otherwise of those to keys that it has read.
    choice: `optin`: only what follows CLIENT CACHING YES is noted; `optout`: all but what follows CLIENT CACHING NO;
        empty: all. has_chosen: such a CLIENT CACHING came for the next command or transaction.
    no_loop: not of what it changes itself.
    redirect: the number of the client that is told in its place, 0 for none. is_broken: that one had gone when there
        was something to tell.
    held: what it is told behind the reply to the command that runs, keys, or None for all keys; None while none runs.
    """

    __slots__ = ("choice", "has_chosen", "held", "is_broadcast", "is_broken", "no_loop", "prefixes", "redirect")

    def __init__(self) -> None:
        self.is_broadcast = self.is_broken = self.no_loop = self.has_chosen = False
        self.choice = ""
        self.redirect = 0
        self.prefixes: set[bytes] = set()
        self.held: list[bytes | None] | None = None
