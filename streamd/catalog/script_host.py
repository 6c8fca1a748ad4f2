"""Scripts within a server: which commands they may call, and what others see while one runs.

A script runs beside the event loop (streamd/scripts/side_run.py). If it takes longer than `busy-reply-threshold` it is
interrupted now and then: its client waits like one that is blocked, others get BUSY, and what it has changed so far is
kept apart, so that the journal gets it as one unit at its end.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from streamd.base.errors import CommandError
from streamd.base.limits import SCRIPT_SLICE_MS
from streamd.catalog import Command, Context
from streamd.catalog.refusing import refuse
from streamd.resp.types import Reply
from streamd.scripts.scripts import NOT_INSTALLED, Script, Scripts
from streamd.scripts.side_run import PAUSED, SideRun
from streamd.session.blocking import BLOCKED, Waiter
from streamd.session.client import Client
from streamd.session.monitor import monitor_line

# The commands that run scripts.
SCRIPT_COMMANDS: Final = frozenset({b"eval", b"evalsha", b"eval_ro", b"evalsha_ro"})

_NEVER: Final = 1 << 63
_OOM: Final = "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
_UNKILLABLE: Final = (
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script "
    "termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
)


# A command, whether it writes, and whether nothing further is to be looked at before it is called.
_Resolved = tuple[Command, bool, bool]

# What scripts may call, but not with the option BLOCK.
_MAY_BLOCK: Final = frozenset({"xread", "xreadgroup"})


def _check_plain(command: Command, words: list[bytes]) -> None:
    if "noscript" in command.flags:
        raise CommandError("ERR This Redis command is not allowed from script")
    for word in words[1:]:
        option = word.upper()
        if option == b"STREAMS":
            return
        if option == b"BLOCK":
            raise CommandError(f"ERR {command.name} command is not allowed with BLOCK option from scripts")


class ScriptHost:
    """Runs scripts for clients, one at a time.

    scripts: those that are known.
    waiter: who waits for the script that was interrupted; to attempt it is to go on with the script.
    on_interrupted: called when that happens; somebody must then go on with it, soon.
    """

    def __init__(self, context: Context, stopwatch: Callable[[], int]) -> None:
        """context: of the client that a script's commands see; it is none, and nobody can see it. stopwatch:
        nanoseconds.
        """
        state = self._state = context.state
        self._stopwatch = stopwatch
        self.scripts = Scripts(state.config.integer("lua-memory-max"), self._tick)
        self._configure()
        state.config.on_change("busy-reply-threshold", self._configure)
        state.config.on_change("lua-memory-max", self._configure)
        self.on_interrupted: Callable[[], object] = lambda: None
        self._side = SideRun()
        self._context = context
        context.in_unit = True
        self._caller = context
        self._commands: dict[bytes, _Resolved] = {}  # by first words as scripts wrote them; without containers
        self._read_only = False
        self._has_written = False
        self._is_killed = False
        self._until_ns = _NEVER
        self.waiter: Waiter[Client]  # set when a script is interrupted

    def _configure(self) -> None:
        config = self._state.config
        self._threshold_ns = config.integer("busy-reply-threshold") * 1_000_000 or _NEVER
        self.scripts.bytes_max = config.integer("lua-memory-max")

    def run(self, context: Context, script: Script, keys: int, words: list[bytes], read_only: bool) -> Reply:
        """Return what a script returns, or BLOCKED if the client has to wait for it. Raises: CommandError."""
        shebang = script.shebang
        if self._state.is_full and shebang.is_there and not shebang.flags & {"allow-oom", "no-writes"}:
            raise CommandError(_OOM)
        read_only = read_only or "no-writes" in shebang.flags
        return self.beside(context, partial(self._run, context, script, keys, words, read_only))

    def beside(self, context: Context, work: Callable[[], Reply]) -> Reply:
        """Return what `work` returns, in which scripts run; or BLOCKED if the client has to wait for it."""
        if not SideRun.is_possible:
            raise CommandError(NOT_INSTALLED)
        reply = self._side.run(work)
        if reply is not PAUSED:
            return reply
        state = self._state
        state.blocked.add(context, context.db, (), None, self._go_on, None)
        assert context.waiter is not None
        self.waiter = context.waiter
        return BLOCKED

    def _run(self, context: Context, script: Script, keys: int, words: list[bytes], read_only: bool) -> Reply:
        self._context.db = context.db
        self._context.protocol = 2
        # Commands are looked at by the rules of who runs the script.
        self._caller, self._context.user, self._context.guard = context, context.user, context.guard
        self._read_only = read_only
        self._has_written = self._is_killed = False
        self._until_ns = self._stopwatch() + self._threshold_ns
        return self.scripts.run(script, keys, words, self)

    # -- what a script calls --------------------------------------------------------------------------------------

    def call(self, words: list[bytes]) -> Reply:
        """Execute a script's command and return its reply; the hot path of every script. Raises: CommandError."""
        command, is_write, is_plain = self._commands.get(words[0]) or self._find(words)
        if not (len(words) == command.arity if command.arity >= 0 else len(words) >= -command.arity):
            raise CommandError("ERR Wrong number of args calling Redis command from script")
        if not is_plain:
            _check_plain(command, words)
        state = self._state
        guard = self._context.guard
        if guard is not None and not guard.allows(command, words):
            raise refuse(state, self._caller, guard.decide(command, words), "lua")
        if is_write:
            if self._read_only:
                raise CommandError("ERR Write commands are not allowed from read-only scripts.")
            if not self._has_written:
                state.check_restrictions(command.flags)
            self._has_written = True
        if state.monitors and "admin" not in command.flags:
            self._show(words)
        command.calls += 1
        started = self._stopwatch()
        try:
            return command.handler(self._context, words)
        except CommandError:
            command.failed += 1
            raise
        finally:
            command.nanoseconds += self._stopwatch() - started

    def _find(self, words: list[bytes]) -> _Resolved:
        table = self._context.services.commands
        command = table.get(words[0].lower())
        is_container = command is not None and bool(command.subcommands)
        if command is not None and is_container and len(words) > 1:
            command = command.subcommands.get(words[1].lower())
        if command is None:
            raise CommandError("ERR Unknown Redis command called from script")
        is_plain = "noscript" not in command.flags and command.name not in _MAY_BLOCK
        resolved = command, "write" in command.flags, is_plain
        if not is_container and len(self._commands) < 4 * len(table):
            self._commands[words[0]] = resolved
        return resolved

    def _show(self, words: list[bytes]) -> None:
        state = self._state
        state.show_monitors(monitor_line(state.clock.now_us(), self._context.db.index, "lua", words))

    def set_protocol(self, protocol: int) -> None:
        """Note that the script wants the replies of version 2 or 3 from now on."""
        self._context.protocol = protocol

    def may_call(self, words: list[bytes]) -> bool | None:
        """Return whether the caller's user may have a request executed; None if there is no such command."""
        command = self._context.services.commands.get(words[0].lower())
        if command is not None and command.subcommands and len(words) > 1:
            command = command.subcommands.get(words[1].lower())
        if command is None:
            return None
        guard = self._context.guard
        return guard is None or (command.accepts(len(words)) and guard.allows(command, words))

    # -- while a script takes long --------------------------------------------------------------------------------

    def _tick(self) -> bool:
        """Called while a script runs; return whether it shall end."""
        if not self._is_killed and self._stopwatch() >= self._until_ns and self._side.is_current:
            self._interrupt()
        return self._is_killed

    def _interrupt(self) -> None:
        """Let others have their turn; nothing of the script's effects is seen by the journal meanwhile."""
        state = self._state
        now_ms, records = state.time.ms, state.records
        if records is not None:
            state.records = []
        state.set_busy(True)
        self.on_interrupted()
        try:
            self._side.pause()
        except BaseException:  # the server has gone
            self._is_killed = True
        state.set_busy(False)
        if records is not None:
            state.records = records
        state.time.ms = now_ms
        self._until_ns = self._stopwatch() + SCRIPT_SLICE_MS * 1_000_000

    def _go_on(self) -> Reply:
        """Give an interrupted script a slice; return the reply, or BLOCKED if it takes longer. Raises: CommandError."""
        reply = self._side.go_on()
        return BLOCKED if reply is PAUSED else reply

    def kill(self) -> None:
        """End the script that runs, at its next slice. Raises: CommandError."""
        if not self._state.is_busy:
            raise CommandError("NOTBUSY No scripts in execution right now.")
        if self._has_written:
            raise CommandError(_UNKILLABLE)
        self._is_killed = True
