"""The options and state of one client's CLIENT TRACKING."""


class Tracker:
    """The options and state of a client's invalidations.

    is_broadcast: they are of keys that begin with one of `prefixes`; otherwise of keys that the client has read.
    choice: `optin` notes only the keys of commands behind CLIENT CACHING YES; `optout` all but those behind CLIENT
        CACHING NO; empty all. has_chosen: such a CLIENT CACHING came for the next command or transaction.
    no_loop: the client gets none for its own changes.
    redirect: the number of the client that gets them in its place, 0 for none. is_broken: that client had gone when
        there was an invalidation to send.
    held: the keys to send behind the reply to the running command, or None for all keys; None while no command runs.
    """

    __slots__ = ("choice", "has_chosen", "held", "is_broadcast", "is_broken", "no_loop", "prefixes", "redirect")

    def __init__(self) -> None:
        self.is_broadcast = self.is_broken = self.no_loop = self.has_chosen = False
        self.choice = ""
        self.redirect = 0
        self.prefixes: set[bytes] = set()
        self.held: list[bytes | None] | None = None
