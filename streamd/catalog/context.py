"""A command as the engine holds it, with the context that its handler works in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from streamd.acl.decision import Decision
from streamd.acl.user import User
from streamd.base.process import ProcessFacts
from streamd.data.types import STREAM
from streamd.resp.template import Requests
from streamd.resp.types import Reply
from streamd.scripts.scripts import Script, Scripts
from streamd.session.blocking import BLOCKED, Waiter
from streamd.session.client import Client
from streamd.session.filter_table import Filtering
from streamd.session.state import State
from streamd.stream.stream import Stream


class ScriptServices(Protocol):
    """What commands ask of the script host; see streamd.catalog.script_host."""

    scripts: Scripts

    def run(self, context: "Context", script: Script, keys: int, words: list[bytes], read_only: bool) -> Reply:
        """Return what a script returns, or BLOCKED if the client has to wait for it. Raises: CommandError."""

    def beside(self, context: "Context", work: Callable[[], Reply]) -> Reply:
        """Return what `work` returns, in which scripts run; or BLOCKED if the client has to wait for it."""

    def kill(self) -> None:
        """End the script that runs, at its next slice. Raises: CommandError."""


# Whether a request is allowed, going by what is prepared for its command. False: that has to be decided.
Check = Callable[[list[bytes]], bool]


def _undecided(request: list[bytes]) -> bool:
    return False


def _unknown(requests: list[list[bytes]]) -> bool:
    return False


def _unknown_keys(keys: Sequence[bytes]) -> bool:
    return False


class Known:
    """How requests of one command are looked at.

    names: first words that are known to be allowed, where that is a request's only key or channel; empty elsewhere.
    covers(requests): True only if all of these are allowed that are of this command; False also where each of them has
    to be looked at. covers_keys(keys): the same of requests that have one key each, which are these.
    is_wide: a request has many keys, so looking at few of them together is worth it.
    """

    __slots__ = ("check", "covers", "covers_keys", "is_wide", "names")

    def __init__(
        self,
        check: Check = _undecided,
        names: set[bytes] | None = None,
        covers: Callable[[list[list[bytes]]], bool] = _unknown,
        covers_keys: Callable[[Sequence[bytes]], bool] = _unknown_keys,
        is_wide: bool = False,
    ) -> None:
        self.check = check
        self.names = set() if names is None else names
        self.covers = covers
        self.covers_keys = covers_keys
        self.is_wide = is_wide


class Permissions(Protocol):
    """What is known of the rules of one user; see streamd.catalog.guard.

    quick, known, names: as there.
    """

    quick: "QuickTable"
    known: dict[str, Known]
    names: dict[bytes, set[bytes]]

    def allows(self, command: "Command", request: list[bytes]) -> bool:
        """Return whether the user may have a request executed, which has as many words as it must."""

    def decide(self, command: "Command", request: list[bytes], every_key: int = 0) -> Decision:
        """Return what is refused, if anything, besides of READ | WRITE for all keys."""

    def look_ahead(self, command: "Command", requests: list[list[bytes]], at: int, since: int) -> tuple[int, int]:
        """Look at requests of a run together; return before which they are allowed, and from where to count."""

    def end_of_run(self, command: "Command", requests: list[list[bytes]], at: int) -> int:
        """Return before which request a run must end that begins at requests[at], which is allowed."""

    def count_allowed(self, command: "Command", requests: list[list[bytes]], at: int, count: int) -> int:
        """Return how many of `count` requests of a run are allowed that begin at requests[at], which is."""


class AccessServices(Protocol):
    """What commands ask of the users of a server; see streamd.engine.access."""

    def log_in(self, context: "Context", word: bytes, name: bytes, password: bytes) -> None:
        """Let a client be a user from here on; `word` is the command that says so. Raises: WrongPassword."""

    def begin(self, client: "Context") -> None:
        """Let a client be who new clients are."""

    def set_user(self, context: "Context", name: bytes, rules: Sequence[bytes]) -> None:
        """Change a user by rules, or add one. Raises: CommandError, and then nothing is changed."""

    def remove_user(self, context: "Context", name: bytes) -> bool:
        """Remove a user and close its clients; return whether there was one."""

    def load(self, context: "Context") -> None:
        """Take all users from the file. Raises: CommandError, and then nothing is changed."""

    def save(self) -> None:
        """Write all users to the file. Raises: CommandError."""

    def rewrite(self) -> None:
        """Write options and users that were changed into the configuration file. Raises: CommandError."""

    def guard_of(self, user: User) -> "Permissions":
        """Return the rules of any user."""

    def random_bits(self, bits: int) -> int:
        """Return a number that nobody can guess."""


class Services(Protocol):
    """What commands need of the engine above them.

    commands: all of them, with this server's statistics. quick: see `Context.quick`.
    """

    commands: "CommandTable"
    quick: "QuickTable"

    @property
    def scripts(self) -> ScriptServices:
        """The script host."""

    @property
    def access(self) -> AccessServices:
        """The users of the server."""

    def execute(self, client: "Context", requests: list[list[bytes]]) -> list[Reply]:
        """Execute requests as part of a unit and return their replies, errors included (EXEC)."""

    def unblock(self, waiter: Waiter[Client], reply: Reply) -> None:
        """End a client's wait with `reply`."""

    def end_pause(self) -> None:
        """Let paused clients go on."""

    def disconnect(self, client: Client) -> None:
        """Forget a client and all that it waits for."""

    def shut_down(self, save: bool | None) -> None:
        """Stop the server once the replies of this turn are sent."""

    def process_facts(self) -> ProcessFacts:
        """Return what the operating system says of the process (INFO)."""

    def sleep(self, seconds: float) -> None:
        """Stand still (DEBUG SLEEP)."""


class Context(Client):
    """What a command handler gets: the client that sent the request, and what all clients share.

    quick: the commands that this client may run without a further look, by their names in lower and in upper case. All
    ordinary clients share one table, which is empty while commands are restricted, monitored or paused; a client in
    MULTI, without its password, subscribed, without replies, with NO-TOUCH or TRACKING has one that is always empty.
    guard: None while its user may do everything; otherwise what is asked before each request, or run of requests.
    Clients of such a user have a table of their own, without what they may not do.
    vouched: in a transaction, the guard at its MULTI. If it still is the guard at EXEC (where rules change there is a
    new one), all that was queued was looked at by it, and is not again.
    """

    __slots__ = ("guard", "quick", "services", "state", "vouched")

    def __init__(
        self,
        state: State,
        services: Services,
        id: int,
        address: str = "",
        local_address: str = "",
        created_ms: int = 0,
    ) -> None:
        super().__init__(id, state.keyspace[0], state.users.default, address, local_address, created_ms)
        self.state = state
        self.services = services
        self.quick: QuickTable = services.quick
        self.guard: Permissions | None = None
        self.vouched: Permissions | None = None

    @property
    def client(self) -> Client:
        """The client, without what all share."""
        return self

    @property
    def is_script(self) -> bool:
        """Whether a script asks: their one client is none that ever connected."""
        return self.id == 0

    @property
    def now_ms(self) -> int:
        """The Unix time of this turn in milliseconds."""
        return self.state.time.ms

    def update_quick(self) -> None:
        """Choose the table of quick commands again, after a rarer state of the client began or ended."""
        is_ordinary = (
            self.authenticated
            and self.transaction is None
            and self.reply_mode == "on"
            and not self.no_touch
            and self.tracker is None
            and not self.subscription_count()
        )
        table = self.services.quick if self.guard is None else self.guard.quick
        self.quick = table if is_ordinary else _NOTHING_QUICK

    def wants_reply(self) -> bool:
        """Return whether the reply that is ready is to be sent, going by CLIENT REPLY; a SKIP is used up."""
        if self.reply_mode == "skipping":
            self.reply_mode = "on"
            self.update_quick()
            return False
        return self.reply_mode == "on"

    def stream(self, key: bytes) -> Stream | None:
        """Return the stream at `key` for a command that may change it, or None. Raises: WrongType."""
        return self.db.stream(key)

    def read_stream(self, key: bytes) -> Stream | None:
        """Return the stream at `key` for a command that reads it, or None. Raises: WrongType."""
        return self.db.read_as(key, STREAM)

    def create_stream(self, key: bytes) -> Stream:
        """Store and return a new stream with the settings that hold now; the key must be free."""
        config = self.state.config.values
        stream = Stream(
            config["stream-node-max-entries"],  # type: ignore[arg-type]
            config["stream-idmp-duration"],  # type: ignore[arg-type]
            config["stream-idmp-maxsize"],  # type: ignore[arg-type]
        )
        stream.idmp.leave_to(self.state.sweeper)
        self.db.put(key, stream)
        return stream

    def record(self, *words: bytes, changes: int = 1) -> None:
        """Note what was decided, as the command that repeats it, for the journal; as Redis it counts as `changes`."""
        state = self.state
        state.dirty += changes
        if state.records is not None:
            state.records.append((self.db.index, list(words)))

    def record_words(self, words: list[bytes], changes: int = 1) -> None:
        """Do what `record` does, with a list that nobody else changes: quicker where there are any number of words."""
        state = self.state
        state.dirty += changes
        if state.records is not None:
            state.records.append((self.db.index, words))

    def changed(self, key: bytes, kind: str, event: str) -> None:
        """Tell those who follow `key`, and subscribers of keyspace events, that it changed.

        kind: the class letter of `notify-keyspace-events`: g generic, $ string, h hash, t stream, z sorted set ...
        """
        db = self.db
        if key in db.followed:
            db.touch(key)
            if self.state.notify_flags:
                self.state.notify(kind, event, key, db.index)

    def notify(self, key: bytes, kind: str, event: str) -> None:
        """Publish a keyspace event without telling those who follow the key."""
        if self.state.notify_flags:
            self.state.notify(kind, event, key, self.db.index)

    def unwatch(self) -> None:
        """Forget what the client watches."""
        for db_index, key in self.watched:
            self.state.keyspace.followers.unwatch(db_index, key, self)
        self.watched.clear()
        self.touched = False

    def discard_transaction(self) -> None:
        """End a transaction: nothing is queued and nothing watched any more."""
        self.transaction = self.vouched = None
        self.transaction_broken = False
        self.unwatch()
        self.update_quick()

    def block(
        self,
        keys: Sequence[bytes],
        timeout_ms: int,
        attempt: Callable[[], Reply],
        on_timeout: Reply = None,
        line: bytes | None = None,
        filtering: Filtering | None = None,
    ) -> Reply:
        """Park the client until `attempt` gives a reply; return what the handler must return.

        attempt: called, in the order clients came, whenever one of `keys` may have become useful; returns BLOCKED
        to go on waiting. timeout_ms: 0 waits for ever. Inside a transaction nothing blocks: the time-out's
        reply is returned at once. line, filtering: see Waiter.
        """
        if self.in_unit:
            return on_timeout
        deadline_ms = None if timeout_ms == 0 else self.state.clock.monotonic_ms() + timeout_ms
        self.state.blocked.add(self, self.db, tuple(keys), deadline_ms, attempt, on_timeout, line, filtering)
        return BLOCKED


QuickTable = dict[bytes, "Command"]
_NOTHING_QUICK: Final[QuickTable] = {}

Handler = Callable[[Context, list[bytes]], Reply]


# batch(context, requests, at): executes requests[at], requests[at + 1] ... as the handler would one by one, as far as
# they are alike and nobody watches, waits or listens who would see a difference; puts their replies, all bulk strings
# without `$` or all integers, or each as a piece of its own, into the client's output and returns how many it executed.
# Each record that it leaves is a unit of its own. 0: it executed none, the handler is to be asked. That the client may
# have requests[at] executed was looked at; of all others that name the same key it follows. A command that `mixes` is
# given no more than was looked at, unless it `asks`; another batch that takes further keys asks `context.guard`, too.
Batch = Callable[[Context, list[list[bytes]], int], int]

# Executes requests at once, all or none, without making those of templates, and returns whether it did; see Batch, in
# whose place it is tried first. Those of a template have two shared words at least behind the command's name, key
# included, so that whoever may have the first one executed may have all; of the others each was looked at.
AlikeBatch = Callable[[Context, Sequence[Requests]], bool]


@dataclass(slots=True)
class Command:
    """One command, or one subcommand of a container.

    name: lower case; `xinfo|stream` for a subcommand.
    arity: number of words with the name; negative: at least so many.
    keys: (first, last, step) positions of the keys; (0, 0, 0) for none.
    find_keys: for commands whose keys are not at fixed places.
    access: what happens to the keys, in the words of COMMAND INFO: `RW access update`; with `;` one part for each key,
        otherwise one for all.
    acl: the command's ACL category besides those that follow from its flags; None: what follows from its group.
    tips: hints for clients, separated by blanks.
    batch: executes a run of like requests at once, see Batch; None for most. mixes: whatever their keys are, and with
        one piece of output for each. asks: the batch itself asks `context.guard` for the keys that it takes.
    alike: executes requests of templates at once, see AlikeBatch.
    syntax: the words behind the name in the notation of Redis's documentation.
    calls, nanoseconds, rejected, failed: statistics.
    """

    name: str
    handler: Handler
    arity: int
    flags: frozenset[str]
    keys: tuple[int, int, int]
    since: str
    complexity: str
    group: str
    syntax: str
    summary: str
    find_keys: Callable[[list[bytes]], list[bytes]] | None = None
    access: str = ""
    acl: str | None = None
    tips: str = ""
    batch: "Batch | None" = None
    mixes: bool = False
    asks: bool = False
    alike: "AlikeBatch | None" = None
    subcommands: "dict[bytes, Command]" = field(default_factory=dict)
    calls: int = 0
    nanoseconds: int = 0
    rejected: int = 0
    failed: int = 0

    @property
    def source(self) -> str:
        """Where what the command does is documented."""
        return f"https://redis.io/docs/latest/commands/{self.name.replace('|', '-')}/"

    def copy_for_server(self) -> "Command":
        """Return the same command, and its subcommands, with statistics of their own."""
        # (A start makes hundreds; `replace` of dataclasses takes ten times as long.)
        return Command(
            self.name,
            self.handler,
            self.arity,
            self.flags,
            self.keys,
            self.since,
            self.complexity,
            self.group,
            self.syntax,
            self.summary,
            self.find_keys,
            self.access,
            self.acl,
            self.tips,
            self.batch,
            self.mixes,
            self.asks,
            self.alike,
            {name: one.copy_for_server() for name, one in self.subcommands.items()},
        )

    def accepts(self, words: int) -> bool:
        """Return whether a request of so many words fits the arity."""
        return words == self.arity if self.arity >= 0 else words >= -self.arity


class CommandTable(dict[bytes, Command]):
    """Lower-case name -> command."""

    def leaves(self) -> Iterator[Command]:
        """Iterate what can be called: subcommands, and the commands that have none."""
        for one in self.values():
            if not one.subcommands or one.arity == -1:
                yield one
            yield from one.subcommands.values()

    def copy_for_server(self) -> "CommandTable":
        """Return the same commands with statistics of their own."""
        table = CommandTable()
        for name, one in self.items():
            table[name] = one.copy_for_server()
        return table

    def find(self, name: bytes) -> Command | None:
        """Return the command `name`, or the subcommand `container|name`, in any case, or None."""
        container, _, sub = name.lower().partition(b"|")
        found = self.get(container)
        return found.subcommands.get(sub) if found is not None and sub else found
