"""A command as the engine holds it, with the context that its handler works in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamd.catalog.engine_ports import Permissions, Services
from streamd.connected.blocking import BLOCKED, Line
from streamd.connected.client import Client
from streamd.connected.filter_table import Filtering
from streamd.connected.state import State
from streamd.data.keyspace import Database
from streamd.data.types import STREAM, KeyValue, type_of
from streamd.resp.template import Requests
from streamd.resp.types import Reply
from streamd.stream.stream import Stream


class Context(Client):
    """The context of a command handler: the client that sent the request, and the state that all clients share.

    quick: the commands that this client may run without a further check, by their names in lower and in upper case.
    All ordinary clients share one table, which is empty while commands are restricted, monitored or paused. A client in
    MULTI, without its password, subscribed, without replies, with NO-TOUCH or TRACKING has a table that stays empty.
    guard: None while its user may do everything; otherwise the check before each request, or run of requests.
    Clients of such a user have another quick table, without the commands that the user may not run.
    """

    __slots__ = ("guard", "quick", "services", "state")

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

    @property
    def client(self) -> Client:
        """This context itself, as the client alone."""
        return self

    @property
    def is_script(self) -> bool:
        """Whether this is the context of scripts, whose client (ID 0) has no connection."""
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

    def new_stream(self) -> Stream:
        """Return a new stream with the settings that hold now, which no key holds yet."""
        config = self.state.config.values
        stream = Stream(
            config["stream-node-max-entries"],  # type: ignore[arg-type]
            config["stream-idmp-duration"],  # type: ignore[arg-type]
            config["stream-idmp-maxsize"],  # type: ignore[arg-type]
            self.state.cold,
        )
        stream.idmp.leave_to(self.state.sweeper)
        return stream

    def create_stream(self, key: bytes) -> Stream:
        """Store and return a new stream with the settings that hold now; the key must be free."""
        stream = self.new_stream()
        self.db.put(key, stream)
        return stream

    def record(self, *words: bytes, changes: int = 1) -> None:
        """Record a command for the journal that repeats this change; it counts as `changes`, as in Redis."""
        self.state.record(self.db.index, list(words), changes)

    def record_words(self, words: list[bytes], changes: int = 1) -> None:
        """Record a command like `record`, given as a list that no caller changes later; quicker for many words."""
        self.state.record(self.db.index, words, changes)

    def counts_as_write(self) -> None:
        """Have WAIT cover what was written before this reply, which speaks of an earlier write and makes none.

        A client repeats a request on a new connection if no answer came; without this, WAIT there would wait for
        nothing.
        """
        if self.state.journal is not None:
            self.state.journal.writers.append(self.client)

    def changed(self, key: bytes, kind: str, event: str, subkeys: Sequence[bytes] = ()) -> None:
        """Tell the followers of `key`, and subscribers of keyspace events, that it changed.

        kind: the class letter of `notify-keyspace-events`: g generic, $ string, h hash, t stream, z sorted set ...
        subkeys: the fields of a hash that changed.
        """
        db = self.db
        if key in db.followed:
            db.touch(key)
            if self.state.notify_flags:
                self.state.notify(kind, event, key, db.index, subkeys)

    def notify(self, key: bytes, kind: str, event: str) -> None:
        """Publish a keyspace event without telling the followers of the key."""
        if self.state.notify_flags:
            self.state.notify(kind, event, key, self.db.index)

    def notify_overwritten(
        self, key: bytes, before: KeyValue | None, value: KeyValue, db: Database | None = None
    ) -> None:
        """Publish that `value` takes the place of the value `before`, if there is one, and whether the type changes.

        db: the key's database, if that is not the client's.
        """
        state, index = self.state, (self.db if db is None else db).index
        if before is not None and state.notify_flags:
            state.notify("o", "overwritten", key, index)
            if type_of(before) is not type_of(value):
                state.notify("c", "type_changed", key, index)

    def unwatch(self) -> None:
        """Forget the keys that the client watches."""
        for db_index, key in self.watched:
            self.state.keyspace.followers.unwatch(db_index, key, self)
        self.watched.clear()
        self.touched = False

    def discard_transaction(self) -> None:
        """End a transaction: nothing is queued and nothing watched any more."""
        self.transaction = None
        self.transaction_broken = False
        self.unwatch()
        self.update_quick()

    def block(
        self,
        keys: Sequence[bytes],
        timeout_ms: int,
        attempt: Callable[[], Reply],
        on_timeout: Reply = None,
        line: Line | None = None,
        filtering: Filtering | None = None,
        late: Callable[[], Reply] | None = None,
        least_id: int = 0,
    ) -> Reply:
        """Park the client until `attempt` gives a reply; return what the handler must return.

        attempt: tries the command again when one of `keys` may serve it, clients in the order they came; returns the
        reply, or BLOCKED to go on waiting. timeout_ms: 0 waits for ever. In a transaction or a script no command
        blocks, and `on_timeout` is returned at once. line, filtering, late, least_id: see
        Waiter.
        """
        if self.in_unit:
            return on_timeout
        deadline_ms = None if timeout_ms == 0 else self.state.clock.monotonic_ms() + timeout_ms
        self.state.blocked.add(self, self.db, tuple(keys), deadline_ms, attempt, on_timeout, line, filtering, least_id)
        assert self.waiter is not None
        self.waiter.late = late
        return BLOCKED


QuickTable = dict[bytes, "Command"]
_NOTHING_QUICK: Final[QuickTable] = {}

Handler = Callable[[Context, list[bytes]], Reply]


@dataclass(frozen=True, slots=True)
class Batch:
    """Executes requests of one command at once, as its handler would one by one.

    take(context, requests): executes requests from the front, while they are alike and no client that watches, waits
    or listens would see a difference; returns their number, 0 to leave the first one to the handler. The first request
    fits the arity; the engine's guard has allowed all. `take` puts the replies into the client's output: one piece for
    each, or one piece for all if they are bulk strings without `$`. Each record that it leaves is a unit of its own.
    any_keys: it takes requests with any keys together; else only requests with the same first three words.
    takes_columns: the requests may be RequestColumns that have the first and the third word in common; else they are
    RequestRows.
    """

    take: Callable[[Context, Requests], int]
    any_keys: bool = False
    takes_columns: bool = False


@dataclass(slots=True)
class Command:
    """One command, or one subcommand of a container.

    name: lower case; `xinfo|stream` for a subcommand.
    arity: the number of words, the name included; negative: the least number.
    keys: (first, last, step) positions of the keys; (0, 0, 0) for none.
    find_keys: finds the keys of a request where they are not at fixed places.
    access: the access to the keys, in the words of COMMAND INFO: `RW access update`; with `;` one part for each key,
        otherwise one for all.
    acl: the command's ACL categories besides those of its flags; None: the category of its group.
    tips: hints for clients, separated by blanks.
    batch: executes a run of like requests at once; None for most.
    advice: for a container: what the error says to clients that ask for a subcommand that it does not have.
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
    batch: Batch | None = None
    advice: str = ""
    subcommands: "dict[bytes, Command]" = field(default_factory=dict)
    calls: int = 0
    nanoseconds: int = 0
    rejected: int = 0
    failed: int = 0

    @property
    def source(self) -> str:
        """The URL of the command's documentation."""
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
            self.advice,
            {name: one.copy_for_server() for name, one in self.subcommands.items()},
        )

    def accepts(self, words: int) -> bool:
        """Return whether a request of so many words fits the arity."""
        return words == self.arity if self.arity >= 0 else words >= -self.arity


class CommandTable(dict[bytes, Command]):
    """Lower-case name -> command."""

    def leaves(self) -> Iterator[Command]:
        """Iterate the commands that can be called: subcommands, commands without any, and containers of arity -1."""
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
        container, bar, sub = name.lower().partition(b"|")
        found = self.get(container)
        return found.subcommands.get(sub) if found is not None and bar else found
