"""What surrounds the call of a command: batches and attempts, counting, the slow log, errors and bugs as replies."""

import time
from collections.abc import Callable, Sequence
from itertools import chain

from streamd.base.errors import CommandError
from streamd.base.log import log
from streamd.catalog import Command, CommandTable, Context
from streamd.data.keyspace import Database
from streamd.engine.admission import check_permitted
from streamd.resp.encoder import encode
from streamd.resp.template import Requests, rows_of
from streamd.resp.types import Reply, Sliced
from streamd.session.blocking import Waiter
from streamd.session.client import Client
from streamd.session.state import State


class Calls:
    """Calls batch functions and the attempts of blocked commands, and says what becomes of an exception, there as in a
    handler.

    stopwatch: returns nanoseconds. now_ns: when the last batch ended.
    """

    def __init__(self, state: State, commands: CommandTable) -> None:
        self._state = state
        self._commands = commands
        self.stopwatch: Callable[[], int] = time.perf_counter_ns
        self.now_ns = 0

    def call_batch(
        self,
        command: Command,
        client: Context,
        requests: list[list[bytes]],
        at: int,
        end: int,
        owner_of: Callable[[int], Client] | None = None,
    ) -> int:
        """Have a run of requests, from requests[at] on and before requests[end], executed as one; return how many were,
        0 for none.

        owner_of: whose a request is, by its position; None: all are the client's. Nobody knows what a batch has done
        that ends with a bug: all requests that it may have taken are answered with that, and none is executed again.
        """
        assert command.batch is not None
        if end < len(requests):
            requests = requests[:end]
        started_ns, before = self.stopwatch(), len(client.out)
        try:
            taken = command.batch(client, requests, at)
        except Exception as error:
            name = requests[at][0]
            taken = 0
            while at + taken < len(requests) and requests[at + taken][0] == name:
                taken += 1
            reply = self.failure(command, client.db, [*chain(*requests[at : at + taken])], error)
            client.out[before:] = [encode(reply, client.protocol)] * taken
        if taken and (each_ns := self._count_batch(command, client, taken, started_ns)) >= self._state.slow_ns:
            for number in range(at, at + taken):
                owner = client if owner_of is None else owner_of(number)
                self.note_slow(command, each_ns, owner, requests[number])
        return taken

    def call_alike(
        self,
        command: Command,
        client: Context,
        parts: Sequence[Requests],
        size: int,
        owner_of: Callable[[int], Client],
    ) -> int:
        """Have all requests of several clients, `size` together, executed as one without making those of templates;
        return how many were, 0 for none. See `call_batch`.
        """
        assert command.alike is not None
        started_ns, before = self.stopwatch(), len(client.out)
        try:
            if not command.alike(client, parts):
                return 0
        except Exception as error:
            words = [*chain(*chain(*map(rows_of, parts)))]
            reply = self.failure(command, client.db, words, error)
            client.out[before:] = [encode(reply, client.protocol)] * size
        if (each_ns := self._count_batch(command, client, size, started_ns)) >= self._state.slow_ns:
            for number, request in enumerate(chain(*map(rows_of, parts))):
                self.note_slow(command, each_ns, owner_of(number), request)
        return size

    def _count_batch(self, command: Command, client: Context, taken: int, started_ns: int) -> int:
        """Count a batch that ends now; return how long each of its requests took, in nanoseconds."""
        client.last_command = command.name
        command.calls += taken
        now_ns = self.now_ns = self.stopwatch()
        took_ns = now_ns - started_ns
        command.nanoseconds += took_ns
        return took_ns // taken

    def attempt(self, waiter: Waiter[Client]) -> Reply:
        """Have a blocked command tried again and return its reply, an error included; BLOCKED if it is to go on
        waiting.
        """
        client = waiter.client
        try:
            if isinstance(client, Context) and client.guard is not None and waiter.request:
                command = self._commands.find(waiter.command.encode())
                assert command is not None
                check_permitted(command, client, waiter.request)  # its rules may have changed meanwhile
            return waiter.attempt()
        except Exception as error:
            command = self._commands.find(waiter.command.encode())
            return self.failure(command, waiter.db, [waiter.command.encode(), *waiter.keys], error)

    def count_error(self, error: CommandError) -> CommandError:
        """Count an error by its code and return it."""
        if not error.is_counted:
            self._state.stats.count_error(error)
        return error

    def bug(self, where: str, may_have_changed: bool = True) -> CommandError:
        """Log and count the exception that is being handled, which nobody expected; return what a client is told.

        may_have_changed: something may be there that is not recorded. The journal is then rewritten, so that a start
        does not bring back something else, or find a record that it cannot apply.
        """
        log.exception("bug", "a bug in %s", where)
        self._state.stats.internal_errors += 1
        if may_have_changed and self._state.journal is not None:
            self._state.journal.doubt()
        return self.count_error(CommandError("ERR internal error"))

    def encode_unusual(self, client: Client, request: list[bytes], reply: Reply) -> bytes:
        """Return a reply that has no encoder as it is sent: a long one, made whole, or what was none, a bug."""
        if type(reply) is Sliced:
            return encode(reply.content, client.protocol)
        return encode(self.bug(f"the reply to {request[0][:64]!r}", may_have_changed=False), client.protocol)

    def reject(self, client: Context, command: Command | None, error: CommandError) -> CommandError:
        """Count a request that is not executed, which breaks its client's transaction; return what it is answered."""
        if command is not None:
            command.rejected += 1
        if client.transaction is not None:
            client.transaction_broken = True
        if command is not None and command.name == "exec":
            client.discard_transaction()
            error = CommandError(f"EXECABORT Transaction discarded because of: {str(error).removeprefix('ERR ')}")
        return self.count_error(error)

    def failure(self, command: Command | None, db: Database, words: list[bytes], error: Exception) -> CommandError:
        """Count an exception that a command ended with, and return what its client is answered.

        db, words: what it was to do, and where. A bug may have left a collection that has no elements yet, or no more.
        """
        if isinstance(error, CommandError):
            if command is not None:
                command.failed += 1
            return self.count_error(error)
        may_have_changed = command is None or "readonly" not in command.flags
        if may_have_changed:
            for word in words:  # (its keys are among them)
                db.drop_empty(word)
        return self.bug(f"the handler of {words[0][:64]!r}", may_have_changed)

    def note_slow(self, command: Command, took_ns: int, client: Client, request: list[bytes]) -> None:
        """Note a command that took as long as somebody asks for: in the slow log, for LATENCY, or both."""
        state = self._state
        if state.latency.is_tracking or state.latency.threshold_ms:
            state.latency.note_command(command.name, "fast" in command.flags, took_ns, state.time.ms // 1000)
        if took_ns >= state.log_slow_ns and "skip_slowlog" not in command.flags:
            state.note_slow(client, took_ns // 1000, request)
