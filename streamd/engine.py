"""The engine: a client's requests in, replies into its output, one command at a time, from start to end."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

import streamd.commands  # noqa: F401  (declares the commands)
from streamd.admission import NOT_QUEUED, both_cases, check_allowed, find_command, is_http, postpone
from streamd.blocking import BLOCKED, Waiter
from streamd.client import Client
from streamd.clock import Clock
from streamd.command import COMMANDS, Command, Context, handler_for
from streamd.config import Config
from streamd.errors import CommandError
from streamd.gathering import Gathering
from streamd.limits import LARGE_REPLY_BYTES, OUTPUT_TURN_BYTES, SLICE_US, TURN_REQUESTS_MAX, TURN_US
from streamd.memory_limit import MemoryLimit
from streamd.monitor_line import monitor_line
from streamd.process import ProcessFacts, read_process_facts
from streamd.resp.encoder import encode
from streamd.resp.types import NO_REPLY, Parts, Reply
from streamd.state import Record, State

log = logging.getLogger("streamd")


class Journal(Protocol):
    """Where the effects of a unit go; see streamd.persistence."""

    writers: dict[Client, None]  # who has written something in this turn

    def append_unit(self, records: list[Record]) -> None:
        """Take the effects of one command or one transaction, which stand or fall together."""

    def end_turn(self) -> None:
        """Let the replies of this turn leave, as soon as what it has recorded is as durable as it has to be."""

    def tick(self) -> bool:
        """Do what time demands; return whether more is to be done at once."""


# So many requests of a pipeline are executed between two looks at the time they took.
_REQUESTS_PER_LOOK = 64

# A run of fewer like requests gains nothing by being executed as one.
BATCH_MIN = 3

# While commands are restricted `run` finds none, so that all take the careful path.
_NONE: dict[bytes, Command] = {}


class Engine:
    """Executes requests.

    A turn is: `run` for each client that sent something, then `end_turn`, which lets replies leave.
    `tick` does what time demands: blocked clients whose time is up, expired keys, expired iids.
    """

    def __init__(self, clock: Clock | None = None, config: Config | None = None) -> None:
        self.state = State(clock or Clock(), config or Config(), self)
        self.clock = self.state.clock
        self.journal: Journal | None = None
        self.on_shutdown: Callable[[bool | None], None] = lambda save: None
        self.sleep: Callable[[float], None] = time.sleep
        self.process_facts: Callable[[], ProcessFacts] = read_process_facts
        self.stopwatch: Callable[[], int] = time.perf_counter_ns
        self._resumed: list[Client] = []
        self._running_backlogs = False
        self.state.commands = COMMANDS.copy_for_server()
        self._commands = both_cases(self.state.commands)
        self.gathering = Gathering(self.state, self._commands, self)
        self.memory_limit = MemoryLimit(self.state)

    # -- clients --------------------------------------------------------------------------------------------------

    def connect(self, address: str = "", local_address: str = "") -> Client:
        """Return a new client with its context."""
        state = self.state
        state.last_client_id += 1
        self._read_clock()
        client = Client(state.last_client_id, address, local_address, state.time.ms)
        client.context = Context(state, client)
        client.authenticated = not state.config.text("requirepass")
        client.supervised = state.supervised
        client.update_special()
        state.clients[client.id] = client
        state.stats.connections += 1
        return client

    def disconnect(self, client: Client) -> None:
        """Forget a client and all that waits for it."""
        self.gathering.run()
        state = self.state
        client.closed = True
        client.backlog.clear()
        if client.waiter is not None:
            state.blocked.remove(client.waiter)
        if client.context is not None:
            client.context.unwatch()
        state.pubsub.leave(client)
        state.clients.pop(client.id, None)
        if state.monitors.pop(client.id, None) is not None:
            state.supervise()

    # -- a turn ---------------------------------------------------------------------------------------------------

    def run(self, client: Client, requests: list[list[bytes]]) -> None:
        """Execute requests in order; replies go to `client.out`. What comes behind a blocking request waits.

        Hot path, which is why look-up, arity and encoding stand here and not in functions of their own. A pipeline is
        mostly a run of like requests: such a run goes to the command's batch function where it has one, and is timed as
        a whole (reading the clock for each request would be 5 % of a pipelined XADD).
        """
        if self.gathering.size:
            self.gathering.run()
        if client.waiter is not None or client.backlog:
            client.backlog.extend(requests)
            return
        state = self.state
        state.time.ms = self.clock.now_ms()
        context = client.context
        assert context is not None
        if len(requests) == 1:
            self.run_one(client, context, requests[0])
            return
        commands = self._commands if not state.is_restricted else _NONE
        append = client.out.append
        stopwatch = self.stopwatch
        state.wants_flush(client)
        client.last_ms = state.time.ms
        timed: Command | None = None
        first = started = 0
        rest: list[list[bytes]] = []
        if client.resume is not None and len(requests) > TURN_REQUESTS_MAX:
            rest = requests[TURN_REQUESTS_MAX:]
            requests = requests[:TURN_REQUESTS_MAX]
        at, total = -1, len(requests)
        look = _REQUESTS_PER_LOOK if client.resume is not None else total
        until = stopwatch() + TURN_US * 1000 if look < total else 0
        may_batch = total >= BATCH_MIN
        while at + 1 < total:
            if at >= look:
                if stopwatch() >= until:
                    client.backlog.extend(requests[at + 1 :])
                    break
                look = at + _REQUESTS_PER_LOOK
            at += 1
            request = requests[at]
            command = commands.get(request[0])
            is_careful = (
                command is None
                or client.special
                or command.subcommands
                or not (len(request) == command.arity if command.arity >= 0 else len(request) >= -command.arity)
            )
            if command is not timed or is_careful:
                now = stopwatch()
                if timed is not None:
                    client.last_command = timed.name
                    timed.nanoseconds += now - started
                    if now - started >= state.slow_ns:
                        self.note_slow(timed, now - started, client, requests[first:at])
                timed, first, started = None if is_careful else command, at, now
            if timed is None or command is None:
                reply = self.execute(context, request)  # which measures by itself
            else:
                if may_batch and command.batch is not None:
                    taken = command.batch(context, requests, at)
                    may_batch = taken >= BATCH_MIN
                    if taken:
                        command.calls += taken
                        at += taken - 1
                        if state.records:
                            self.end_units(client)
                        continue
                command.calls += 1
                try:
                    reply = command.handler(context, request)
                except CommandError as error:
                    reply = self._failed(command, error)
                except Exception:
                    reply = self._internal_error(request)
            if state.records:
                self._end_unit(client)
            if reply is BLOCKED:
                if state.blocked.ready:
                    self._serve_ready()
                if client.waiter is not None:
                    client.waiter.command = command
                    client.backlog.extend(requests[at + 1 :])
                    break
            elif reply is not NO_REPLY:
                if type(reply) is Parts:
                    client.out += reply.pieces
                    size = reply.size_bytes
                else:
                    is_bulk = type(reply) is bytes
                    data = b"$%d\r\n%b\r\n" % (len(reply), reply) if is_bulk else encode(reply, client.protocol)
                    append(data)
                    size = len(data)
                if size > LARGE_REPLY_BYTES:
                    client.out_bytes += size
                    if client.out_bytes > OUTPUT_TURN_BYTES:
                        client.backlog.extend(requests[at + 1 :])
                        break
            if state.blocked.ready:
                self._serve_ready()
            if client.close_soon:
                rest = []
                break
        if rest:
            client.backlog.extend(rest)
        if timed is not None:
            client.last_command = timed.name
            now = stopwatch()
            timed.nanoseconds += now - started
            if now - started >= state.slow_ns:
                self.note_slow(timed, now - started, client, requests[first : at + 1])
        if self._resumed and not self._running_backlogs:
            self._run_backlogs()

    def run_one(self, client: Client, context: Context, request: list[bytes]) -> None:
        """Do what `run` does for a request that came alone, without what pipelines need: 1.2 us instead of 1.8 beside
        the handler's time.
        """
        state = self.state
        if not client.flush_wanted:
            client.flush_wanted = True
            state.to_flush.append(client)
        client.last_ms = state.time.ms
        command = self._commands.get(request[0])
        if (
            command is None
            or client.special
            or command.subcommands
            or state.is_restricted
            or not (len(request) == command.arity if command.arity >= 0 else len(request) >= -command.arity)
        ):
            reply = self.execute(context, request)
        else:
            client.last_command = command.name
            command.calls += 1
            started = self.stopwatch()
            try:
                reply = command.handler(context, request)
            except CommandError as error:
                reply = self._failed(command, error)
            except Exception:
                reply = self._internal_error(request)
            took = self.stopwatch() - started
            command.nanoseconds += took
            if took >= state.slow_ns:
                self.note_slow(command, took, client, [request])
        if state.records:
            records, state.records = state.records, []
            assert self.journal is not None
            self.journal.append_unit(records)
            self.journal.writers[client] = None
        if type(reply) is bytes:
            client.out.append(b"$%d\r\n%b\r\n" % (len(reply), reply))
        elif reply is BLOCKED:
            if state.blocked.ready:
                self._serve_ready()
            if client.waiter is not None:
                client.waiter.command = command
        elif type(reply) is Parts:
            client.out += reply.pieces
            client.out_bytes += reply.size_bytes
        elif reply is not NO_REPLY:
            client.out.append(encode(reply, client.protocol))
        if state.blocked.ready:
            self._serve_ready()
        if self._resumed and not self._running_backlogs:
            self._run_backlogs()

    def end_turn(self) -> None:
        """Let the replies of this turn leave."""
        gathering = self.gathering
        if gathering.size:
            gathering.run()
        gathering.note_turn(len(self.state.to_flush))
        if self.journal is not None:
            self.journal.end_turn()
            return
        state = self.state
        clients, state.to_flush = state.to_flush, []
        for client in clients:
            client.flush_wanted = False
            client.flush()

    def execute(self, context: Context, request: list[bytes]) -> Reply:
        """Execute one request on the careful path and return its reply, an error included."""
        client = context.client
        if client.reply_mode == "on":
            return self._execute(context, request)
        if client.reply_mode == "skip":
            client.reply_mode = "skipping"
        reply = self._execute(context, request)
        if reply is BLOCKED or client.reply_mode == "on":  # the request was CLIENT REPLY ON
            return reply
        if client.reply_mode == "skipping":
            client.reply_mode = "on"
            client.update_special()
        return NO_REPLY

    def _execute(self, context: Context, request: list[bytes]) -> Reply:
        client = context.client
        command: Command | None = None
        try:
            command = self.state.commands.get(request[0].lower())
            command = find_command(self.state.commands, request)
            check_allowed(command, context, len(request))
        except CommandError as error:
            if command is None and is_http(request):
                log.warning("client %s closed: it speaks HTTP", client.address)
                client.out.clear()
                client.close_soon = True
                return NO_REPLY
            return self._reject(client, command, error)
        if client.supervised and postpone(self.state, command, client, request):
            return BLOCKED
        if client.transaction is not None and not context.in_unit and command.name not in NOT_QUEUED:
            client.transaction.append(request)
            return "QUEUED"
        client.last_command = command.name
        command.calls += 1
        started = self.stopwatch()
        try:
            reply: Reply = handler_for(client, command)(context, request)
        except CommandError as error:
            reply = self._failed(command, error)
        except Exception:
            reply = self._internal_error(request)
        nanoseconds = self.stopwatch() - started
        command.nanoseconds += nanoseconds
        if nanoseconds >= self.state.slow_ns:
            self.note_slow(command, nanoseconds, client, [request])
        if self.state.monitors and "admin" not in command.flags:
            self.state.show_monitors(monitor_line(self.clock.now_us(), context.db.index, client.address, request))
        return reply

    def _reject(self, client: Client, command: Command | None, error: CommandError) -> CommandError:
        if command is not None:
            command.rejected += 1
        if client.transaction is not None:
            client.transaction_broken = True
        if command is not None and command.name == "exec":
            assert client.context is not None
            client.context.discard_transaction()
            error = CommandError(f"EXECABORT Transaction discarded because of: {str(error).removeprefix('ERR ')}")
        return self._count_error(error)

    def note_slow(self, command: Command, nanoseconds: int, client: Client, requests: list[list[bytes]]) -> None:
        """Put a run of one command into the slow log: as requests that took equally long, if that is long enough."""
        each_ns = nanoseconds // len(requests)
        if each_ns >= self.state.slow_ns and "skip_slowlog" not in command.flags:
            for request in requests:
                self.state.note_slow(client, each_ns // 1000, request)

    def _failed(self, command: Command, error: CommandError) -> CommandError:
        command.failed += 1
        return self._count_error(error)

    def _count_error(self, error: CommandError) -> CommandError:
        errors = self.state.stats.errors
        code = str(error).partition(" ")[0]
        errors[code] = errors.get(code, 0) + 1
        return error

    def _internal_error(self, request: list[bytes]) -> CommandError:
        log.exception("a bug in the handler of %r", request[0][:64])
        self.state.stats.internal_errors += 1
        return self._count_error(CommandError("ERR internal error"))

    def _end_unit(self, client: Client | None = None) -> None:
        """Hand over what `client`, or the passing of time, has changed."""
        records = self.state.records
        if records:
            self.state.records = []
            assert self.journal is not None
            self.journal.append_unit(records)
            if client is not None:
                self.journal.writers[client] = None

    def end_units(self, client: Client) -> None:
        """Hand over what a batch has changed: each record is a unit."""
        records, self.state.records = self.state.records, []
        assert records is not None
        assert self.journal is not None
        append_unit = self.journal.append_unit
        for record in records:
            append_unit([record])
        self.journal.writers[client] = None

    # -- blocked clients ------------------------------------------------------------------------------------------

    def _serve_ready(self) -> None:
        """Try the waiters of every key that became ready, first come first served."""
        blocked = self.state.blocked
        while blocked.ready:
            ready = blocked.ready
            blocked.ready = {}
            blocked.shared = {}
            for (_, key), db in ready.items():
                for waiter in blocked.waiters(db, key):
                    if waiter.client.waiter is waiter:
                        self.attempt(waiter)
        blocked.shared = None

    def attempt(self, waiter: Waiter) -> None:
        """Try a blocked client's command again."""
        try:
            reply = waiter.attempt()
        except CommandError as error:
            reply = self._count_error(error) if waiter.command is None else self._failed(waiter.command, error)
        except Exception:
            reply = self._internal_error([b"blocked"])
        if self.state.records:
            self._end_unit(waiter.client)
        if reply is not BLOCKED:
            self.unblock(waiter, reply)

    def unblock(self, waiter: Waiter, reply: Reply) -> None:
        """End a client's wait with `reply`; its backlog runs when the running commands have ended."""
        client = waiter.client
        self.state.blocked.remove(waiter)
        client.reply(reply)
        self.state.wants_flush(client)
        self._resumed.append(client)

    def _run_backlogs(self) -> None:
        """Go on with clients whose wait has ended; what they wake in turn joins this loop, not the stack."""
        self._running_backlogs = True
        try:
            while self._resumed:
                resumed, self._resumed = self._resumed, []
                for client in resumed:
                    if client.closed:
                        continue
                    if client.resume is not None:
                        client.resume()
                    elif client.backlog and client.waiter is None:
                        requests = list(client.backlog)
                        client.backlog.clear()
                        self.run(client, requests)
        finally:
            self._running_backlogs = False

    # -- time -----------------------------------------------------------------------------------------------------

    def _read_clock(self) -> None:
        self.state.time.set(self.clock.now_ms())

    def tick(self) -> None:
        """Do what is due now: time-outs of blocked clients. Ends the turn."""
        self.gathering.run()
        self._read_clock()
        if 0 < self.state.pause_until_ms <= self.state.time.ms:
            self.state.end_pause()
        for waiter in self.state.blocked.due_retries(self.state.time.ms):
            self.attempt(waiter)
        for waiter in self.state.blocked.due(self.state.time.ms):
            if waiter.client.waiter is waiter:
                self.unblock(waiter, waiter.on_timeout)
        if self._resumed:
            self._run_backlogs()
        self.end_turn()

    def cron(self) -> bool:
        """Free what has expired, for at most a slice; return whether more is due at once."""
        self.gathering.run()
        self._read_clock()
        deadline_us = self.clock.monotonic_us() + SLICE_US

        def stop() -> bool:
            return self.clock.monotonic_us() >= deadline_us

        self.memory_limit.check()
        more = self.state.sweeper.run(self.state.time.ms, stop)
        if self.state.active_expire and not self.state.is_loading:
            for db in self.state.keyspace:
                if db.deadlines and db.expire_due(stop):
                    more = True
            self._end_unit()
            if self.state.blocked.ready:
                self._serve_ready()
            if self._resumed:
                self._run_backlogs()
        if self.journal is not None and self.journal.tick():
            more = True
        self.end_turn()
        return more

    # -- services for commands ------------------------------------------------------------------------------------

    def shut_down(self, save: bool | None) -> None:
        """Stop the server once the replies of this turn are sent."""
        self.on_shutdown(save)
