"""The surroundings of a command's call: batches and attempts, counting, the slow log, errors and bugs as replies."""

import time
from collections.abc import Callable, Sequence
from itertools import chain, takewhile
from typing import Final

from streamd.base.errors import CommandError
from streamd.catalog import Command, CommandTable, Context
from streamd.cold.blocks import Blocks
from streamd.connected.blocking import Waiter
from streamd.connected.client import Client
from streamd.connected.state import State
from streamd.data.keyspace import Database
from streamd.engine.admission import check_permitted
from streamd.resp.encoder import encode
from streamd.resp.template import Requests
from streamd.resp.types import Reply, Sliced
from streamd.stream.log.absent import Absent

# What a request of a run takes at most, unless its command has taken longer so far: all are small.
_USUAL_NS: Final = 20_000
# So many calls say what is usual.
_CALLS_MIN: Final = 100


def slow_in_run(command: Command, took_ns: int, count: int, slow_ns: int) -> tuple[bool, int]:
    """Return whether each request of a run took `slow_ns` or more, and the time of the only request that did, else 0.

    A run is timed as a whole, so that its requests cost nothing more. A request that may take long by itself is never
    part of a run. So each takes about the usual time, and all time beyond that belongs to one request, or to a pause of
    the process.
    """
    calls, each_ns = command.calls - count, took_ns // count
    usual_ns = (command.nanoseconds - took_ns) // calls if calls >= _CALLS_MIN else min(each_ns, _USUAL_NS)
    if count == 1 or slow_ns <= min(usual_ns, each_ns):
        return each_ns >= slow_ns, 0
    if each_ns < slow_ns and took_ns - (count - 1) * max(usual_ns, _USUAL_NS) < slow_ns:
        return False, 0
    return False, took_ns - (count - 1) * min(usual_ns, each_ns)


class Calls:
    """Calls batch functions and the attempts of blocked commands; makes replies of their exceptions and of handlers'.

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
        requests: Requests,
        owners: Sequence[Client],
        counts: Sequence[int],
    ) -> int:
        """Have the first of these requests executed as one; return how many were, 0 for none.

        client: its output takes the replies. owners, counts: the clients and how many requests each sent.

        The effects of a batch that ends with a bug are unknown: all requests that it may have taken get an error, and
        none is executed again.
        """
        assert command.batch is not None
        started_ns, before = self.stopwatch(), len(client.out)
        try:
            taken = command.batch.take(client, requests)
        except Absent as absent:
            taken = 0  # one by one the requests can wait for what they need
            del client.out[before:]
            if self._state.records:
                self._state.note_bug(f"the batch of {command.name}, which had changed something", error=absent)
        except Exception as error:
            name = requests.first[0]
            rows = [*takewhile(lambda request: request[0] == name, requests.rows())]
            taken = len(rows)
            reply = self.failure(command, client.db, [*chain(*rows)], error)
            client.out[before:] = [encode(reply, client.protocol)] * taken
        if taken:
            client.last_command = command.name
            command.calls += taken
            now_ns = self.now_ns = self.stopwatch()
            took_ns = now_ns - started_ns
            command.nanoseconds += took_ns
            if took_ns >= self._state.slow_ns:
                senders = [owner for owner, count in zip(owners, counts, strict=True) for _ in range(count)]
                self._note_slow_run(command, took_ns, requests.rows()[:taken], senders)
        return taken

    def _note_slow_run(
        self,
        command: Command,
        took_ns: int,
        requests: list[list[bytes]],
        senders: list[Client],
    ) -> None:
        """Note the slow requests of a run that took `took_ns` in all; see `slow_in_run`."""
        count = len(requests)
        state, latency, each_ns = self._state, self._state.latency, took_ns // count
        if latency.is_tracking:
            latency.count(command.name, each_ns, count)
        if latency.threshold_ms:
            all_slow, one_ns = slow_in_run(command, took_ns, count, latency.threshold_ms * 1_000_000)
            latency.note_event("fast" in command.flags, each_ns if all_slow else one_ns, state.time.ms // 1000)
        all_slow, one_ns = slow_in_run(command, took_ns, count, state.log_slow_ns)
        if all_slow:
            for sender, request in zip(senders, requests, strict=False):
                state.note_slow(sender, each_ns // 1000, request)
        elif one_ns:
            words = [requests[0][0], b"... (one of %d requests that were executed as one)" % count]
            state.note_slow(senders[0], one_ns // 1000, words)

    def answer(self, command: Command, client: Context, request: list[bytes], error: Exception) -> Reply:
        """Return the reply for an exception that a handler has ended with. If blocks were absent, that is the reply of
        the request executed again, which reads them in place.
        """
        if isinstance(error, Absent):
            store = error.store
            assert isinstance(store, Blocks)
            store.in_place += 1
            try:
                return command.handler(client, request)
            except Exception as again:
                error = again
            finally:
                store.in_place -= 1
        return self.failure(command, client.db, request, error)

    def attempt_in_place(self, waiter: Waiter[Client], absent: Absent) -> Reply:
        """As `attempt`, which has raised Absent: the blocks are read in place."""
        store = absent.store
        assert isinstance(store, Blocks)
        store.in_place += 1
        try:
            return self.attempt(waiter)
        finally:
            store.in_place -= 1

    def attempt(self, waiter: Waiter[Client]) -> Reply:
        """Have a blocked command tried again and return its reply, an error included; BLOCKED if it is to go on
        waiting. Raises: Absent, before it has changed anything.
        """
        client = waiter.client
        try:
            if isinstance(client, Context) and client.guard is not None and waiter.request:
                command = self._commands.find(waiter.command.encode())
                assert command is not None
                check_permitted(command, client, waiter.request)  # its rules may have changed meanwhile
            return waiter.attempt()
        except Absent:
            raise
        except Exception as error:
            command = self._commands.find(waiter.command.encode())
            return self.failure(command, waiter.db, [waiter.command.encode(), *waiter.keys, *waiter.request], error)

    def count_error(self, error: CommandError) -> CommandError:
        """Count an error by its code and return it as a reply."""
        if not error.is_counted:
            self._state.stats.count_error(error)
        return error.as_reply()

    def bug(self, where: str, may_have_changed: bool = True) -> CommandError:
        """Note the exception that is being handled, see `State.note_bug`; return the client's error."""
        self._state.note_bug(where, may_have_changed)
        return self.count_error(CommandError("ERR internal error"))

    def encode_unusual(self, client: Client, request: list[bytes], reply: Reply) -> bytes:
        """Encode a reply without an encoder: a long one is made whole; a value that is no reply is a bug."""
        if type(reply) is Sliced:
            return encode(reply.content, client.protocol)
        return encode(self.bug(f"the reply to {request[0][:64]!r}", may_have_changed=False), client.protocol)

    def reject(self, client: Context, command: Command | None, error: CommandError) -> CommandError:
        """Count a request that is not executed, which breaks its client's transaction; return the client's error."""
        if command is not None:
            command.rejected += 1
        if client.transaction is not None:
            client.transaction_broken = True
        if command is not None and command.name == "exec":
            client.discard_transaction()
            error = CommandError(f"EXECABORT Transaction discarded because of: {str(error).removeprefix('ERR ')}")
        return self.count_error(error)

    def failure(self, command: Command | None, db: Database, words: list[bytes], error: Exception) -> CommandError:
        """Count an exception that a command ended with, and return its client's error.

        db, words: the database and the request. A bug may have left an empty collection in it.
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
        if client.waiter is not None and client.waiter.is_reading:
            return  # it runs again, from its beginning
        if state.latency.is_tracking:
            state.latency.count(command.name, took_ns)
        if state.latency.threshold_ms:
            state.latency.note_event("fast" in command.flags, took_ns, state.time.ms // 1000)
        if took_ns >= state.log_slow_ns and "skip_slowlog" not in command.flags:
            state.note_slow(client, took_ns // 1000, request)
