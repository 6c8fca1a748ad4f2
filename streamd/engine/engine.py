"""The engine: a client's requests in, replies into its output, one command at a time, from start to end."""

import time
from collections.abc import Callable, Iterable

import streamd.commands  # noqa: F401  (declares the commands)
from streamd.acl.users import Users
from streamd.base.clock import Clock
from streamd.base.errors import RoleChanged
from streamd.base.limits import (
    BATCH_MIN,
    BATCH_OFFERED_MIN,
    GUARDED_RUN_MAX,
    LARGE_REPLY_BYTES,
    OUTPUT_TURN_BYTES,
    REQUESTS_PER_LOOK,
    TURN_REQUESTS_MAX,
    TURN_US,
)
from streamd.base.process import ProcessFacts, read_process_facts
from streamd.catalog import COMMANDS, Context, QuickTable
from streamd.catalog.named import vocabulary_of
from streamd.catalog.script_host import ScriptHost
from streamd.catalog.transfer import Transfer, no_transfer
from streamd.configuration.server_options import Config
from streamd.connected.blocking import BLOCKED, Waiter
from streamd.connected.client import Client
from streamd.connected.state import State
from streamd.engine.absences import Absences
from streamd.engine.access import Access
from streamd.engine.admission import quick_commands
from streamd.engine.calls import Calls
from streamd.engine.careful import Careful
from streamd.engine.chores import CHORES
from streamd.engine.gathering import NOBODY, Gathering
from streamd.engine.memory import MemoryLimit
from streamd.engine.slices import Slices, end_of_slice
from streamd.engine.whole_transactions import MULTI_WORDS, WholeTransactions
from streamd.resp.encoder import BULK_HEADERS, ENCODERS, SHORT_BYTES_MAX
from streamd.resp.plain import plain
from streamd.resp.slicing import sliced
from streamd.resp.template import RequestRows
from streamd.resp.types import NO_REPLY, Parts, Raw, Reply, Sliced
from streamd.stream.log.absent import Absent


class Engine:
    """Executes requests.

    A turn calls `run` for each client that sent requests, then `end_turn`, which releases the replies. `tick` does the
    due work: timeouts of blocked clients, expired keys, expired iids.

    A front end other than a connection calls `connect()`, then `call(client, words)` for a value instead of bytes.
    `client.flush` is called once the contents of `client.out` may be sent.

    want_turn: called when output waits for another turn; the owner of the event loop then calls `tick` soon.
    """

    def __init__(self, clock: Clock | None = None, config: Config | None = None) -> None:
        self.commands = COMMANDS.copy_for_server()
        self.state = State(clock or Clock(), config or Config(), Users(vocabulary_of(self.commands)))
        self.clock = self.state.clock
        self.on_shutdown: Callable[[bool | None], None] = lambda save: None
        self.want_turn: Callable[[], None] = lambda: None
        self.sleep: Callable[[float], None] = time.sleep
        self.process_facts: Callable[[], ProcessFacts] = read_process_facts
        self.transfer: Transfer = no_transfer
        self._resumed: list[Client] = []
        self._running_backlogs = False
        self.access = Access(self.state, self.commands, quick_commands(self.commands), self.disconnect)
        self.access.start()
        self.quick: QuickTable = self.access.quick
        self.state.on_restricted, self.state.forget = self.access.fill, self.disconnect
        self.state.restrict()
        self.calls = Calls(self.state, self.commands)
        self.careful = Careful(self.state, self.commands, self.calls)
        self.whole_transactions = WholeTransactions(self.commands, self.calls)
        nobody = Context(self.state, self, NOBODY)
        self.gathering = Gathering(nobody, self.calls, self.run, self._end_units, self.serve_and_resume)
        self.scripts = ScriptHost(Context(self.state, self, 0, "lua"), self.calls)
        self.absences = Absences(
            self.state, self.calls, self.unblock, self.serve, self._resume, lambda: self.want_turn()
        )
        self.make_slices = Slices(self.state, self.calls, self.run, self.absences.pause).go_on
        self.memory_limit = MemoryLimit(self.state)
        self.state.tracking.on_changed = lambda: self.want_turn()

    # -- clients --------------------------------------------------------------------------------------------------

    def connect(self, address: str = "", local_address: str = "") -> Context:
        """Return a new client."""
        state = self.state
        state.last_client_id += 1
        self.state.time.read(self.clock)
        client = Context(state, self, state.last_client_id, address, local_address, state.time.monotonic_ms)
        self.access.begin(client)
        state.clients[client.id] = client
        state.stats.connections += 1
        return client

    def disconnect(self, client: Client) -> None:
        """Forget a client and all that it waits for; its requests that were not executed yet are dropped."""
        self.gathering.run()
        state = self.state
        client.closed = client.close_soon = True
        client.backlog.clear()
        client.unfinished = None
        if client.waiter is not None:
            state.blocked.remove(client.waiter)
        if isinstance(client, Context):
            client.unwatch()
        state.pubsub.leave(client)
        state.tracking.leave(client)
        state.replication.leave(client)
        if state.clients.pop(client.id, None) is not None:
            state.stats.bytes_in += client.bytes_in
            state.stats.bytes_out += client.bytes_out
        if state.monitors.pop(client.id, None) is not None:
            state.restrict()

    # -- a turn ---------------------------------------------------------------------------------------------------

    def run(self, client: Context, requests: list[list[bytes]], replies: list[Reply] | None = None) -> None:
        """Execute requests in order; replies go to `client.out`. Requests behind a blocking one wait.

        replies: given for requests that are part of a unit, which takes them as values.

        Hot path, which is why look-up, arity and the encoding of short strings stand here and not in functions of their
        own. This is the only place that calls a handler. It times and counts the call, logs a slow one, and answers any
        exception. A pipeline is mostly a run of like requests, which goes to the command's batch if it has one.
        """
        if replies is None and not self._begins(client, requests):
            return
        state, calls = self.state, self.calls
        at, total = 0, len(requests)
        look = REQUESTS_PER_LOOK if client.resume is not None else total + 1
        # From where on a batch is tried: where one had few requests the next waits, each time twice as long.
        batch_at = 0 if total >= BATCH_MIN and replies is None else total
        patience = 1
        quick, guard, stopwatch = client.quick, client.guard, calls.stopwatch
        offered = TURN_REQUESTS_MAX if guard is None else GUARDED_RUN_MAX
        started_ns = then_ns = stopwatch()
        end = total
        while at < end:
            request = requests[at]
            command = quick.get(request[0])
            is_quick = command is not None and (
                (len(request) == command.arity if command.arity >= 0 else len(request) >= -command.arity)
                # (What was allowed before is looked up here: the call alone would be a tenth of a request.)
                and (
                    guard is None
                    or (names := guard.names.get(command.name)) is None
                    or request[1] in names
                    or guard.allows(command, request)
                )
            )
            if not is_quick:
                whole = None
                if replies is None and request[0] in MULTI_WORDS:
                    whole = self.whole_transactions.look(client, requests, at)
                if whole:
                    reply = self.whole_transactions.run(client, requests, at, whole)
                    at += len(whole) + 1
                    request, command, is_quick, then_ns = requests[at], None, True, calls.now_ns
                else:
                    mode = client.reply_mode
                    command, reply = self.careful.admit(client, request)
            if command is not None:
                client.last_command = command.name
                if at >= batch_at and command.batch is not None and is_quick:
                    run = requests[at : at + offered] if at or total > offered else requests
                    if guard is not None:
                        run = run[: guard.end_of_run(command, run, 0, len(run))]
                    taken = calls.call_batch(command, client, RequestRows(run), [client], [len(run)])
                    if taken < len(run):
                        offered = max(8 * taken, BATCH_OFFERED_MIN)
                    if taken < BATCH_MIN:
                        batch_at = at + taken + patience
                        patience *= 2
                    if taken:
                        at += taken
                        then_ns = calls.now_ns
                        if state.records:
                            self._end_units((client,))
                        if state.blocked.ready:
                            self._serve_ready()
                        if at >= look and then_ns - started_ns >= TURN_US * 1000:
                            break
                        continue
                command.calls += 1
                try:
                    reply = command.handler(client, request)
                except Exception as error:
                    reply = self.absences.answer(command, client, request, error, replies is not None)
                now_ns = stopwatch()
                took_ns = now_ns - then_ns
                command.nanoseconds += took_ns
                if took_ns >= state.slow_ns:
                    calls.note_slow(command, took_ns, client, request)
                then_ns = now_ns
            at += 1
            if not is_quick:
                reply = self.careful.end(client, command, request, reply, mode, replies is not None)
                quick, guard = client.quick, client.guard
                if client.close_soon and replies is None:
                    end = at
            if replies is not None:
                if reply is not NO_REPLY:
                    replies.append(reply if type(reply) is not Sliced else reply.content)
                continue
            if state.records:
                self._end_unit(client)
            if type(reply) is bytes and len(reply) <= SHORT_BYTES_MAX:
                text: bytes = reply
                client.out.append(BULK_HEADERS[len(text)] + text + b"\r\n")  # as any encoder, without the call
            elif reply is not BLOCKED and not self._put(client, request, reply):
                end = at
            if state.blocked.ready:
                self._serve_ready()
            if reply is BLOCKED and client.waiter is not None:
                client.waiter.request = request
                break
            if at >= look:
                if then_ns - started_ns >= TURN_US * 1000 or at >= TURN_REQUESTS_MAX:
                    break
                look = at + REQUESTS_PER_LOOK
        if at < total and not client.close_soon:
            client.backlog.extend(requests[at:])
        if self._resumed and not self._running_backlogs:
            self._run_backlogs()

    def _begins(self, client: Context, requests: list[list[bytes]]) -> bool:
        """Return whether a client's requests are executed now; those of a waiting client are kept."""
        state = self.state
        if self.gathering.size:
            self.gathering.run()
        if client.waiter is not None or client.backlog:
            client.backlog.extend(requests)
            return False
        if client.close_soon:
            return False  # what comes behind QUIT, or from a client that was killed
        state.time.ms = self.clock.now_ms()
        client.last_ms = state.time.monotonic_ms
        if not client.flush_wanted:
            client.flush_wanted = True
            state.to_flush.append(client)
        return True

    def _put(self, client: Context, request: list[bytes], reply: Reply) -> bool:
        """Put a reply into its client's output; return whether there is room for more in this turn."""
        if type(reply) is Parts:
            client.out += reply.pieces
            size = reply.size_bytes
        else:
            # (Nothing is appended for NO_REPLY, whose encoding is empty.)
            try:
                data = ENCODERS[client.protocol][type(reply)](reply)
            except TypeError:
                # (Neither Sliced nor what is long has an encoder: so to look for it costs others nothing.)
                long = sliced(reply)
                if long is not None and client.begin(long):
                    return False
                data = self.calls.encode_unusual(client, request, reply if long is None else long)
            client.out.append(data)
            size = len(data)
        if size <= LARGE_REPLY_BYTES:
            return True
        client.out_bytes += size
        return client.out_bytes <= OUTPUT_TURN_BYTES

    def end_turn(self) -> None:
        """Let the replies of this turn leave."""
        gathering = self.gathering
        if gathering.size:
            gathering.run()
        state = self.state
        gathering.note_turn(state.to_flush)
        if state.journal is not None:
            state.journal.end_turn()
            return
        clients, state.to_flush = state.to_flush, []
        state.flush(clients)

    def call(self, client: Context, request: list[bytes]) -> Reply:
        """Execute one request of a front end that wants values, and return its reply: an error is a CommandError, and
        BLOCKED says that the reply comes later, through `client.reply`.
        """
        self.gathering.run()
        self.state.time.read(self.clock)
        replies = self.execute(client, [request])
        if client.waiter is not None:
            client.waiter.request = request
        self._end_unit(client)
        self.state.wants_flush(client)
        self.serve_and_resume()
        return plain(replies[0]) if replies else NO_REPLY

    def execute(self, client: Context, requests: list[list[bytes]]) -> list[Reply]:
        """Execute requests as part of a unit and return their replies, errors included (EXEC)."""
        replies: list[Reply] = []
        self.run(client, requests, replies)
        return replies

    def _end_unit(self, client: Client | None = None) -> None:
        """Hand over to the journal the changes of `client`, or of passing time."""
        records, journal = self.state.records, self.state.journal
        if records:
            self.state.records = []
            assert journal is not None
            journal.append_unit(records)
            if client is not None:
                journal.writers.append(client)

    def _end_units(self, clients: Iterable[Client]) -> None:
        """Hand over to the journal the changes of a batch of these clients' requests: each record is a unit."""
        records, self.state.records = self.state.records, []
        assert records is not None
        journal = self.state.journal
        assert journal is not None
        for record in records:
            journal.append_unit([record])
        journal.writers.extend(clients)

    # -- blocked clients ------------------------------------------------------------------------------------------

    def _serve_ready(self) -> None:
        """Try the waiters of every key that became ready, first come first served."""
        if self.state.is_busy:
            return  # nobody sees what an interrupted script has done so far
        blocked = self.state.blocked
        while blocked.ready:
            ready = blocked.ready
            blocked.ready = {}
            blocked.shared = {}
            for (_, key), db in ready.items():
                blocked.serving = key
                try:
                    blocked.serve(db, key, self._attempt)
                except Exception:
                    self.calls.bug(f"the waiters of {key[:64]!r}")
        blocked.shared = blocked.serving = None

    def serve(self, waiters: list[Waiter[Client]]) -> None:
        """Try the commands of blocked clients again, because of something that is no request."""
        for waiter in waiters:
            if waiter.client.waiter is waiter:
                self._attempt(waiter)
        if self._resumed:
            self.want_turn()

    def _attempt(self, waiter: Waiter[Client]) -> None:
        self.state.guard(waiter.client, "the end of a wait", self._try, waiter)

    def _try(self, waiter: Waiter[Client]) -> None:
        if self.absences.waits_behind(waiter):
            return
        tracker = waiter.client.tracker
        if tracker is not None:
            self.state.tracking.hold(tracker)
        try:
            reply = self.calls.attempt(waiter)
        except Absent as absent:
            reply = self.absences.attempt(waiter, absent)
        if self.state.records:
            self._end_unit(waiter.client)
        if reply is not BLOCKED and waiter.client.waiter is waiter:
            self.unblock(waiter, reply)
        if tracker is not None:
            self.state.tracking.release(waiter.client, tracker)

    def _time_out(self, waiter: Waiter[Client]) -> None:
        self.unblock(waiter, self.state.blocked.late_reply(waiter))

    def unblock(self, waiter: Waiter[Client], reply: Reply) -> None:
        """End a client's wait with `reply`; its backlog runs when the running commands have ended."""
        client = waiter.client
        assert isinstance(client, Context)
        self.state.blocked.remove(waiter)
        if reply is not NO_REPLY and (client.reply_mode == "on" or client.wants_reply()):
            if type(reply) is Raw and client.unfinished is None:
                client.out.append(reply.data)  # as `reply` does
            else:
                self.state.guard(client, "the reply at the end of a wait", client.reply, reply)
        self.state.wants_flush(client)
        self._resumed.append(client)

    def _resume(self, client: Client) -> None:
        """Have a client's backlog run when the running commands have ended."""
        self._resumed.append(client)

    def end_waits(self) -> None:
        """End what clients wait for with an error, and their connections: this server is no primary any more."""
        for waiter in filter(None, [one.waiter for one in self.state.clients.values() if one not in self.state.paused]):
            if not waiter.is_reading:  # (a request that runs again is answered as of then)
                self.unblock(waiter, RoleChanged())
                waiter.client.close_soon = True

    def end_pause(self) -> None:
        """Let paused clients go on."""
        state = self.state
        state.pause_until_ms = 0
        paused, state.paused = state.paused, []
        for client in paused:
            if client.waiter is not None:
                self.unblock(client.waiter, NO_REPLY)
        state.restrict()

    def serve_and_resume(self) -> None:
        """Serve waiters that can be served, and run the backlogs of those that were."""
        if self.state.blocked.ready:
            self._serve_ready()
        if self._resumed and not self._running_backlogs:
            self._run_backlogs()

    def _run_backlogs(self) -> None:
        """Go on with clients whose wait has ended; clients that these wake join this loop, not the stack."""
        self._running_backlogs = True
        try:
            while self._resumed:
                resumed, self._resumed = self._resumed, []
                for client in resumed:
                    if client.closed:
                        continue
                    if client.resume is not None:
                        self.state.guard(client, "the backlog of a client", client.resume)
                    elif client.waiter is None:
                        assert isinstance(client, Context)
                        self.make_slices(client)
        finally:
            self._running_backlogs = False

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do all due work: timeouts of blocked clients, the end of a pause, broadcasts. Ends the turn."""
        self.gathering.run()
        self.state.time.read(self.clock)
        self._go_on_in_time()
        for waiter in self.state.blocked.due(self.state.time.monotonic_ms):
            if waiter.client.waiter is waiter:
                self.state.guard(waiter.client, "the end of a wait", self._time_out, waiter)
        self.absences.go_on(self.clock)
        if self._resumed:
            self._run_backlogs()
        self.absences.let_go()
        if self.state.tracking.has_news and self.state.tracking.broadcast(end_of_slice(self.clock)):
            self.want_turn()
        self.end_turn()

    def cron(self) -> bool:
        """Do the work of each tenth of a second: a slice of freeing expired data, and the journal's due work.

        Returns: whether more is due at once. A bug in one chore does not keep the others from running.
        """
        self.gathering.run()
        self.state.time.read(self.clock)
        if self.state.is_busy:
            return False  # nothing changes, nor is written, between two halves of a script
        self._go_on_in_time()
        stop, more = end_of_slice(self.clock), False
        for chore in (self.memory_limit.look, *CHORES):
            try:
                more = chore(self.state, stop) or more
                self._end_unit()
                if self.state.blocked.ready:
                    self._serve_ready()
            except Exception:
                self.calls.bug("the cron")
        if self._resumed:
            self._run_backlogs()
        self.end_turn()
        return more

    def _go_on_in_time(self) -> None:
        """End a pause, and have waiters try again, whose time has come; by the cron, too: wall times may leap."""
        if 0 < self.state.pause_until_ms <= self.state.time.monotonic_ms:
            self.end_pause()
        if not self.state.is_busy:
            self.serve(self.state.blocked.due_retries(self.state.time.ms))

    # -- services for commands ------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Give the interrupted script a slice, and its client the reply when it ends."""
        if not self.state.is_busy:
            return
        self.gathering.run()
        self._attempt(self.scripts.waiter)
        self.serve_and_resume()

    def shut_down(self, save: bool | None) -> None:
        """Stop the server once the replies of this turn are sent."""
        self.on_shutdown(save)
