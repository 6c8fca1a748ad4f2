"""Requests that are checked one by one: the steps before and after their command."""

from typing import Final

from streamd.base.errors import CommandError
from streamd.base.log import log
from streamd.catalog import Command, CommandTable, Context
from streamd.catalog.named import keys_of
from streamd.connected.blocking import BLOCKED
from streamd.connected.monitor import monitor_line
from streamd.connected.state import State
from streamd.data.keyspace import Database
from streamd.engine.admission import NOT_QUEUED, check_allowed, find_command, is_http, postpone
from streamd.engine.calls import Calls
from streamd.resp.slicing import sliced
from streamd.resp.types import NO_REPLY, Reply

# They read nothing themselves: what their scripts read is noted when they read it.
_READ_BY_SCRIPTS: Final = frozenset({"eval_ro", "evalsha_ro", "fcall_ro"})


class Careful:
    """Handles requests that `client.quick` does not have, which may be all: of clients in MULTI, with NO-TOUCH, CLIENT
    REPLY or tracking, and while somebody uses MONITOR.
    """

    def __init__(self, state: State, commands: CommandTable, calls: Calls) -> None:
        self._state = state
        self._commands = commands
        self._calls = calls
        self._untouched: Database | None = None

    def admit(self, client: Context, request: list[bytes]) -> tuple[Command | None, Reply]:
        """Find the command of a request that must be looked at, and whether its client may have it executed now.

        Returns: the command to be called, or None and the reply that the client gets instead.
        """
        state = self._state
        if client.reply_mode == "skip":
            client.reply_mode = "skipping"
        command: Command | None = None
        try:
            command = self._commands.get(request[0].lower())
            command = find_command(self._commands, request)
            client.last_command = command.name
            check_allowed(command, client, request)
        except CommandError as error:
            if command is None and is_http(request):
                log.warning("client-http", "client %s closed: it speaks HTTP", client.address)
                client.out.clear()
                client.close_soon = True
                return None, NO_REPLY
            return None, self._calls.reject(client, command, error)
        if (state.pause_until_ms or state.writes_wait) and postpone(command, client, request):
            return None, BLOCKED
        if client.transaction is not None and not client.in_unit and command.name not in NOT_QUEUED:
            client.transaction.append(request)
            return None, "QUEUED"
        self.begin(client, command)
        return command, None

    def begin(self, client: Context, command: Command) -> None:
        """Prepare for the call of a command."""
        if client.tracker is not None and not client.in_unit:
            self._state.tracking.begin(client, client.tracker)
        if client.no_touch and command.name != "touch":
            self._untouched = client.db
            client.db.touched = {}  # for this command, no access counts

    def end(
        self, client: Context, command: Command | None, request: list[bytes], reply: Reply, mode: str, is_value: bool
    ) -> Reply:
        """Show the request to monitors, and return its reply, or NO_REPLY if CLIENT REPLY says so.

        mode: the mode of CLIENT REPLY before the request. command: None if none was called. is_value: the reply goes to
        a caller and not over the wire.
        """
        state = self._state
        if reply is BLOCKED and client.waiter is not None and client.waiter.is_reading:
            command = None  # it comes again, as one that was postponed
        if self._untouched is not None:
            self._untouched.touched = self._untouched.used_s
            self._untouched = None
        if command is not None and state.monitors and not command.flags & {"admin", "skip_monitor"}:
            state.show_monitors(monitor_line(state.clock.now_us(), client.db.index, client.address, request))
        if client.tracker is not None and not (command is None and reply is BLOCKED):
            self._note_reads(client, command, request, reply)
        if reply is BLOCKED:
            if command is None:
                client.reply_mode = mode  # it was postponed, and comes again
        elif mode != "on" and not client.wants_reply():
            reply = NO_REPLY
        tracker = client.tracker
        if tracker is None or tracker.held is None or (client.in_unit and not _is_exec(command)):
            return reply
        if tracker.held and not is_value and reply is not BLOCKED and sliced(reply) is None:
            client.reply(reply)
            reply = NO_REPLY
        state.tracking.end(client, tracker)
        return reply

    def _note_reads(self, client: Context, command: Command | None, request: list[bytes], reply: Reply) -> None:
        state, tracker = self._state, client.tracker
        assert tracker is not None
        if command is not None and "readonly" in command.flags and command.name not in _READ_BY_SCRIPTS:
            keys = keys_of(command, request)
            if keys:
                state.tracking.keep(client, keys)
        # CLIENT CACHING is for the next command, or transaction. (An interrupted script has not ended.)
        if (
            tracker.has_chosen
            and client.transaction is None
            and not client.in_unit
            and not (command is not None and command.name.startswith("client|"))
            and not (reply is BLOCKED and state.is_busy)
        ):
            tracker.has_chosen = False


def _is_exec(command: Command | None) -> bool:
    return command is not None and command.name == "exec"
