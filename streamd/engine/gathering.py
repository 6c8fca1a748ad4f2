"""Requests of many clients within one turn: those that are alike are executed as one."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from streamd.catalog import Context
from streamd.connected.client import Client
from streamd.engine.calls import Calls
from streamd.resp.reply_ends import deal_replies
from streamd.resp.template import RequestColumns, Sent, joined, rows_of

# Fewer like requests gain nothing by being executed as one: what it takes to put them together and to deal out their
# replies is what six cost.
RUN_MIN: Final = 6

# A longer pipeline gains nothing either, and when so many requests have come together they are executed.
PIPELINE_MAX: Final = 128
GATHERED_MAX: Final = 1_024

# After so many turns in a row that had the output of one client alone, the next one is taken for such a turn as well;
# but for one in so many, which shows whether it is. Under `appendfsync always` it has to be the same client: else of
# fifty that begin to send each would have a turn, and wait for a sync, of its own.
ALONE_TURNS_MIN: Final = 8
ALONE_LOOK_EVERY: Final = 64

# Where each turn waits for a sync, the sockets are looked at again before it ends, while that brings something, so many
# times at most: who comes a moment later need not wait for a sync of its own.
LOOKS_MAX: Final = 2

# The ID of the client that a batch is executed for. It is none: its replies are dealt out, and nobody can see it.
NOBODY: Final = -1


class Gathering:
    """The requests of a turn's clients, in order of arrival, before they are executed.

    All replies of a turn leave at its end. So until then requests can wait for each other: an XADD of one of 50 clients
    to one stream takes a quarter less CPU. Clients see no difference, because the engine executes gathered requests
    before anything else.

    size: how many requests wait. is_shared: the turn that runs may be one of several clients, going by those before.
    """

    def __init__(
        self,
        collector: Context,
        calls: Calls,
        run: Callable[[Context, list[list[bytes]]], None],
        end_units: Callable[[Iterable[Client]], None],
        serve: Callable[[], None],
    ) -> None:
        """collector: takes the replies of a batch. run: executes requests as if they had not been gathered. end_units:
        hands over to the journal the changes of a batch of some clients' requests. serve: serves waiters of ready keys.
        """
        self._state = collector.state
        self._calls = calls
        self._run = run
        self._end_units = end_units
        self._serve = serve
        self._clients: list[Context] = []
        self._parts: list[Sent] = []  # the requests of each client
        self._firsts: list[list[bytes]] = []  # the first request of each part, or the words that all of it share
        self._sizes: list[int] = []  # of each part
        self.size = 0
        self.is_shared = True
        self._alone: Client | None = None
        self._turns_alone = 0
        self._collector = collector
        self.turns_sync = False
        self._looks = self._seen = 0
        for name in ("appendonly", "appendfsync"):
            self._state.config.on_change(name, self._policy_changed)
        self._policy_changed()

    def _policy_changed(self) -> None:
        config = self._state.config
        self.turns_sync = bool(config["appendonly"]) and config["appendfsync"] == "always"

    def note_turn(self, clients: list[Client]) -> None:
        """Note that a turn ends, and for which clients it has replies."""
        if len(clients) == 1 and (not self.turns_sync or clients[0] is self._alone):
            alone = self._turns_alone = self._turns_alone + 1
            self.is_shared = alone <= ALONE_TURNS_MIN or alone % ALONE_LOOK_EVERY == 0
        elif clients:
            self._turns_alone = 0
            self.is_shared = True
            self._alone = clients[0]

    def looks_again(self) -> bool:
        """Return whether the turn goes on until the sockets were looked at once more; to be asked before its end."""
        seen = len(self._parts) + len(self._state.to_flush)
        if self.turns_sync and self.is_shared and self._looks < LOOKS_MAX and seen != self._seen:
            self._looks += 1
            self._seen = seen
            return True
        self._looks = self._seen = 0
        return False

    def take(self, client: Context, requests: list[list[bytes]]) -> bool:
        """Take a client's requests if those of other clients may be like them; return whether they were taken."""
        first = requests[0]
        command = client.quick.get(first[0])
        if command is None or command.batch is None or len(first) < (2 if command.batch.any_keys else 3):
            return False
        size = len(requests)
        if size > PIPELINE_MAX:
            return False
        self._clients.append(client)
        self._parts.append(requests)
        self._firsts.append(first)
        self._sizes.append(size)
        self.size += size
        if self.size >= GATHERED_MAX:
            self.run()
        return True

    def take_columns(self, client: Context, columns: RequestColumns) -> bool:
        """Take requests of a template, alone in their turn or not; return whether they were taken."""
        template = columns.template
        command = client.quick.get(columns.first[0])
        if command is None or columns.count > GATHERED_MAX or not command.accepts(len(columns.first)):
            return False
        if command.batch is None or not command.batch.takes_columns or 0 in template.places or 2 in template.places:
            template.is_asked_for_rows = True
            return False
        self._clients.append(client)
        self._parts.append(columns)
        self._firsts.append(columns.first)
        self._sizes.append(columns.count)
        self.size += columns.count
        if self.size >= GATHERED_MAX:
            self.run()
        return True

    def run(self) -> None:
        """Execute the gathered requests."""
        clients, parts, firsts, sizes = self._clients, self._parts, self._firsts, self._sizes
        if not parts:
            return
        self._clients, self._parts, self._firsts, self._sizes, self.size = [], [], [], [], 0
        self._state.time.ms = self._state.clock.now_ms()
        at, total = 0, len(parts)
        batch_at, patience = 0, 1
        while at < total:
            end = batch_end = at + 1
            try:
                taken = 0
                if at >= batch_at:
                    end = self._end_of_like(clients, firsts, at)
                    size = sum(sizes[at:end])
                    # (The rows of a single client are its own pipeline, below.)
                    if size >= RUN_MIN and (end > at + 1 or type(parts[at]) is RequestColumns):
                        batch_end = end
                        taken = self._run_batch(clients[at:end], parts[at:end], sizes[at:end], firsts[at])
                        if taken < size:
                            # (Else it would look at the same requests again and again.)
                            batch_at = at + 1 + patience
                            patience *= 2
                while at < end and taken >= sizes[at]:
                    taken -= sizes[at]
                    at += 1
                batch_end = at + 1
                if at < end:
                    # What is left of a part is that client's own pipeline.
                    self._run(clients[at], rows_of(parts[at])[taken:])
                    at += 1
            except Exception:
                self._lose(clients[at:batch_end])
                at = batch_end

    def _lose(self, clients: list[Context]) -> None:
        """Close the clients whose requests were being executed: those of the others go on."""
        self._collector.out.clear()
        if self._state.records:
            self._end_units(clients)
        for client in clients:
            self._state.lose(client, "requests that came together")

    def _end_of_like(self, clients: list[Context], firsts: list[list[bytes]], at: int) -> int:
        """Return before which part a batch must end that begins with the part number `at`."""
        first, end, total = firsts[at], at + 1, len(firsts)
        command = clients[at].quick.get(first[0])
        if command is not None and command.batch is not None and command.batch.any_keys:
            name, protocol = first[0], clients[at].protocol
            while end < total and firsts[end][0] == name and clients[end].protocol == protocol:
                end += 1
            return end
        like = first[:3]
        # (Those of one template share the list.)
        while end < total and (firsts[end] is first or (firsts[end][1] == like[1] and firsts[end][:3] == like)):
            end += 1
        return end

    def _run_batch(self, clients: list[Context], parts: list[Sent], counts: list[int], first: list[bytes]) -> int:
        """Execute the first requests as one, if they can be; return how many were executed."""
        state, collector = self._state, self._collector
        db = collector.db = clients[0].db
        collector.protocol = clients[0].protocol
        name = first[0]
        quick = clients[0].quick
        command = quick.get(name)
        if command is None or not command.accepts(len(first)):
            return 0
        for client, part in zip(clients, parts, strict=True):
            if (
                client.db is not db
                or (client.quick is not quick and client.quick.get(name) is not command)
                # By an earlier part of its own, or of one that killed it:
                or client.waiter is not None
                or client.close_soon
                or client.backlog
            ):
                return 0
            if client.guard is not None:
                has_one_key = isinstance(part, RequestColumns) and not part.template.keys_differ
                asked = [part.first] if isinstance(part, RequestColumns) and has_one_key else rows_of(part)
                if client.guard.end_of_run(command, asked, 0, len(asked)) < len(asked):
                    return 0

        taken = self._calls.call_batch(command, collector, joined(parts), clients, counts)
        over = sum(counts) - taken
        while over > 0:
            last = counts.pop()
            if last > over:
                counts.append(last - over)
            over -= last
        clients = clients[: len(counts)]
        out = collector.out
        if len(out) != taken:
            pieces = deal_replies(b"".join(out), counts)
        elif len(counts) == taken:
            pieces = out[:]
        else:
            replies = iter(out)
            pieces = [b"".join(islice(replies, count)) for count in counts]
        out.clear()  # (The next ones' replies are dealt out piece by piece.)
        now_ms, command_name, to_flush = state.time.monotonic_ms, command.name, state.to_flush
        for client, piece in zip(clients, pieces, strict=True):
            client.out.append(piece)
            client.last_ms = now_ms
            client.last_command = command_name
            if not client.flush_wanted:
                client.flush_wanted = True
                to_flush.append(client)
        if state.records is not None and clients:
            self._end_units(clients)
        if state.blocked.ready:
            self._serve()
        return taken
