"""Scripts within a server: the commands that they may call, and the server's turns for others while one runs.

A script runs beside the event loop (streamd/lua/side_run.py). If it takes longer than `busy-reply-threshold` it is
interrupted now and then. Its client then waits like one that is blocked, and others get BUSY. The records of its
changes are kept apart, so that the journal gets them as one unit at its end.
"""

from collections.abc import Callable
from typing import Final, Protocol

from streamd.base.errors import BusyFunction, BusyScript, CommandError
from streamd.base.limits import SCRIPT_SLICE_MS
from streamd.catalog import Command, Context, Handler
from streamd.catalog.named import keys_of
from streamd.catalog.refusing import refuse
from streamd.connected.blocking import BLOCKED, Waiter
from streamd.connected.client import Client
from streamd.connected.monitor import monitor_line
from streamd.lua.libraries import LOAD_MS_MAX
from streamd.lua.programs import LuaNotInstalled, Program
from streamd.lua.scripts import Scripts
from streamd.lua.side_run import PAUSED, SideRun
from streamd.resp.plain import plain
from streamd.resp.types import Reply, Sliced

# The commands that run scripts and functions.
SCRIPT_COMMANDS: Final = frozenset({b"eval", b"evalsha", b"eval_ro", b"evalsha_ro", b"fcall", b"fcall_ro"})

# The words in front of KEYS in their requests: the command, the script or function, and the number of keys.
_HEAD_WORDS: Final = 3

_NEVER: Final = 1 << 63
_UNKILLABLE: Final = (
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script "
    "termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
)


# When a command is checked before it is called: never, up to a script's first write, always.
_READS: Final = 0
_WRITES: Final = 1
_CAREFUL: Final = 2

# A command, its handler, the least and the most words that it takes, and when it is checked.
_Resolved = tuple[Command, Handler, int, int, int]


def _is_write(command: Command) -> bool:
    """Return whether a command is forbidden to scripts that only read: it writes, or publishes."""
    return "write" in command.flags or command.name == "publish"


def _flags_of(program: Program) -> frozenset[str]:
    """Return the flags that a script has as a command, by those that it names."""
    named = program.flags
    flags = {"stale"} if "allow-stale" in named else set()
    if "no-writes" not in named:
        flags |= {"write"} if "allow-oom" in named else {"write", "denyoom"}
    return frozenset(flags)


class Watch(Protocol):
    """The watch over calls of commands. stopwatch: returns nanoseconds."""

    stopwatch: Callable[[], int]

    def answer(self, command: Command, client: Context, request: list[bytes], error: Exception) -> Reply:
        """Return the reply for an exception that a command ended with, which is counted."""


class ScriptHost:
    """Runs scripts and functions for clients, one at a time.

    scripts: the known scripts. (The functions are `State.libraries`.)
    waiter: the waiter of the client whose script was interrupted; its attempt continues the script.
    on_interrupted: called at an interruption; it must see to it that the waiter is attempted soon.
    """

    def __init__(self, context: Context, watch: Watch) -> None:
        """context: the context of the commands that scripts call; its client has no connection and is in no list."""
        state = self._state = context.state
        self._watch = watch
        self.scripts = Scripts(state.config.integer("lua-memory-max"), self._tick)
        state.libraries.tick = self._tick
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
        self._may_exceed_memory = False
        self._counted = ""
        self._has_written = False
        self._quick = _READS  # what of this and less is called without a look; less than all while somebody looks
        self._quick_if_allowed = _READS - 1  # the same of a caller with rules, if these allow it
        self._names: dict[str, set[bytes]] = {}  # of a caller with rules: see Guard.names
        self._is_killed = False
        self._kept: list[bytes] = []
        self._asked: tuple[Context, Program, int, list[bytes], bool]  # what `_run` is to run
        self._started_ns = 0
        self._until_ns = _NEVER
        self.waiter: Waiter[Client]  # set when a script is interrupted
        # Executes a script's command and returns its reply. Raises: CommandError.
        self.call: Final = self._make_call()

    def _configure(self) -> None:
        config = self._state.config
        self._threshold_ns = config.integer("busy-reply-threshold") * 1_000_000 or _NEVER
        self.scripts.bytes_max = self._state.libraries.bytes_max = config.integer("lua-memory-max")

    def run(self, context: Context, program: Program, keys: int, request: list[bytes], read_only: bool) -> Reply:
        """Return the reply of a script or function, or BLOCKED if the client has to wait for it. Raises: CommandError.

        request: of EVAL or FCALL; the first `keys` words behind the number of keys are KEYS, the others ARGV.
        """
        if not SideRun.is_possible:
            raise LuaNotInstalled()
        if program.has_flags:
            may_write = "no-writes" not in program.flags
            self._state.check_restrictions(_flags_of(program))
            if may_write and read_only:
                raise CommandError("ERR Can not execute a script with write flag using *_ro command.")
            read_only = not may_write
        self._asked = context, program, keys, request, read_only
        reply = self._side.run(self._run)
        return reply if reply is not PAUSED else self._wait(context)

    def beside(self, context: Context, work: Callable[[], Reply]) -> Reply:
        """Run `work`, which runs scripts; return its reply, or BLOCKED if the client has to wait for it."""
        if not SideRun.is_possible:
            raise LuaNotInstalled()
        reply = self._side.run(work)
        return reply if reply is not PAUSED else self._wait(context)

    def _wait(self, context: Context) -> Reply:
        """Let the client wait for the interrupted script."""
        state = self._state
        state.blocked.add(context, context.db, (), None, self._go_on, None)
        assert context.waiter is not None
        self.waiter = context.waiter
        return BLOCKED

    def _run(self) -> Reply:
        context, program, keys, request, self._read_only = self._asked
        words = request[_HEAD_WORDS:]
        self._context.db = context.db
        self._context.protocol = 2
        self._may_exceed_memory = "allow-oom" in program.flags
        # Commands are looked at by the rules of who runs the script.
        self._caller, self._context.user, self._context.guard = context, context.user, context.guard
        self._has_written = self._is_killed = False
        is_seen = bool(self._state.monitors) or context.tracker is not None or self._state.scripts_may_all
        self._quick = self._quick_if_allowed = _READS - 1 if is_seen else _READS
        if context.guard is None:
            self._quick_if_allowed = _READS - 1
        else:
            self._quick = _READS - 1
            self._names = context.guard.names
        # (As in Redis the keys of the script are kept, whichever of them it reads.)
        self._kept = words[:keys] if context.tracker is not None else []
        self._counted = ""
        self._started_ns = self._watch.stopwatch()
        self._until_ns = self._started_ns + self._threshold_ns
        self._state.tracking.in_script = True
        try:
            return program.programs.run(program, keys, words, self)
        except CommandError as error:
            # What a command ended with was counted then, and ends the script with some words more.
            error.is_counted = bool(self._counted) and str(error).startswith(self._counted)
            raise
        finally:
            self._state.tracking.in_script = False

    # -- what a script calls --------------------------------------------------------------------------------------

    def _make_call(self) -> Callable[[list[bytes]], Reply]:
        """Return the function that executes a script's command; the hot path of every script, hence a closure."""
        context, watch, find = self._context, self._watch, self._find
        find_known = self._commands.get

        def call(words: list[bytes]) -> Reply:
            command, handler, least, most, looks = find_known(words[0]) or find(words)
            if not least <= len(words) <= most:
                self._check(command, words, looks)
            elif looks > self._quick:
                # (As in `Engine.run`: what was allowed before is looked up here.)
                names = self._names.get(command.name) if looks <= self._quick_if_allowed else None
                if names is None or words[1] not in names:
                    self._check(command, words, looks)
            command.calls += 1
            stopwatch = watch.stopwatch
            started = stopwatch()
            try:
                reply = handler(context, words)
            except CommandError as error:
                command.nanoseconds += stopwatch() - started
                command.failed += 1
                self._count(error)
                raise
            except Exception as error:
                reply = watch.answer(command, context, words, error)
                if isinstance(reply, CommandError):
                    command.nanoseconds += stopwatch() - started
                    self._counted = str(reply)
                    raise reply
            command.nanoseconds += stopwatch() - started
            return reply if type(reply) is not Sliced else plain(reply)

        return call

    def _check(self, command: Command, words: list[bytes], looks: int) -> None:
        """Check a call that is not quick (most are), and show it to monitors. Raises: CommandError, counted."""
        if self._state.scripts_may_all:
            self._context.guard = self._caller.guard  # which an ACL SETUSER of the script may have changed
        guard = self._context.guard
        if looks <= self._quick_if_allowed and command.accepts(len(words)):
            # Nothing but the rules of the user is in the way, which mostly allow it.
            assert guard is not None
            if command.name in guard.names and guard.allows(command, words):
                return
        try:
            if not command.accepts(len(words)):
                raise CommandError("ERR Wrong number of args calling Redis command from script")
            if "noscript" in command.flags and not self._state.scripts_may_all:
                raise CommandError("ERR This Redis command is not allowed from script")
            if guard is not None and not guard.allows(command, words):
                raise refuse(self._state, self._caller, guard.decide(command, words), "lua")
            if not self._has_written and _is_write(command):
                if self._read_only:
                    raise CommandError("ERR Write commands are not allowed from read-only scripts.")
                self._state.check_restrictions(
                    command.flags - {"denyoom"} if self._may_exceed_memory else command.flags
                )
                self._has_written = "write" in command.flags
                if self._has_written and self._quick == _READS:
                    self._quick = _WRITES
                elif self._has_written and self._quick_if_allowed == _READS:
                    self._quick_if_allowed = _WRITES
        except CommandError as error:
            command.rejected += 1
            self._count(error)
            raise
        if self._state.monitors and "admin" not in command.flags:
            self._show(words)
        if self._kept and "readonly" in command.flags:
            for key in keys_of(command, words):
                self._context.db.peek(key)  # one whose time has passed is gone before it is read
            self._state.tracking.keep(self._caller, self._kept)

    def _count(self, error: CommandError) -> None:
        self._state.stats.count_error(error)
        self._counted = str(error)

    def _find(self, words: list[bytes]) -> _Resolved:
        table = self._context.services.commands
        command = table.get(words[0].lower())
        is_container = command is not None and bool(command.subcommands)
        if command is not None and is_container and len(words) > 1:
            command = command.subcommands.get(words[1].lower())
        if command is None:
            raise CommandError("ERR Unknown Redis command called from script")
        looks = _WRITES if "write" in command.flags else _READS
        if "noscript" in command.flags or (looks == _READS and _is_write(command)):
            looks = _CAREFUL
        arity = command.arity
        resolved = command, command.handler, abs(arity), max(arity, -arity * _NEVER), looks
        if not is_container and len(self._commands) < 4 * len(table):
            self._commands[words[0]] = resolved
        return resolved

    def _show(self, words: list[bytes]) -> None:
        state = self._state
        state.show_monitors(monitor_line(state.clock.now_us(), self._context.db.index, "lua", words))

    def set_protocol(self, protocol: int) -> None:
        """Note that the script wants the replies of version 2 or 3 from now on."""
        self._context.protocol = protocol

    def may_call(self, words: list[bytes]) -> bool | bytes:
        """Return whether the caller's user may have a request executed, or what is wrong with the request."""
        command = self._context.services.commands.get(words[0].lower())
        if command is not None and command.subcommands and len(words) > 1:
            command = command.subcommands.get(words[1].lower())
        if command is None:
            return b"Invalid command passed to redis.acl_check_cmd()"
        if not command.accepts(len(words)):
            return b"Wrong number of args for redis.acl_check_cmd()"
        guard = self._context.guard
        return guard is None or guard.allows(command, words)

    # -- while a script takes long --------------------------------------------------------------------------------

    def _tick(self) -> bool:
        """Interrupt a running script whose time is up; return whether it has to end."""
        if not self._is_killed and self._watch.stopwatch() >= self._until_ns and self._side.is_current:
            self._interrupt()
        return self._is_killed

    def _interrupt(self) -> None:
        """Let other clients have their turn; the journal sees none of the script's effects meanwhile."""
        state = self._state
        now_ms, records = state.time.ms, state.records
        if records is not None:
            state.records = []
        state.set_busy(BusyFunction if self._asked[1].is_function else BusyScript)
        self.on_interrupted()
        try:
            self._side.pause()
        except BaseException:  # the server has gone
            self._is_killed = True
        state.set_busy(None)
        if records is not None:
            state.records = records
        state.time.ms = now_ms
        self._until_ns = self._watch.stopwatch() + SCRIPT_SLICE_MS * 1_000_000

    def _go_on(self) -> Reply:
        """Give an interrupted script a slice; return the reply, or BLOCKED if it takes longer. Raises: CommandError."""
        reply = self._side.go_on()
        return BLOCKED if reply is PAUSED else reply

    def runs_for(self, client: Client) -> bool:
        """Return whether a client waits for its own interrupted script."""
        return self._state.is_busy and client.waiter is self.waiter

    def running(self) -> tuple[str, list[bytes], int] | None:
        """Return the name, the request and the milliseconds so far of an interrupted function; None without a script.

        Raises: CommandError, if a script was interrupted.
        """
        if not self._state.is_busy:
            return None
        _, program, _, request, _ = self._asked
        self._check_kind(is_function=True)
        return program.name, request, (self._watch.stopwatch() - self._started_ns) // 1_000_000

    def close(self) -> None:
        """Free the Lua states and a stack when the server has ended: the garbage collector does not see into them,
        so each server of a test suite would stay in memory.
        """
        if not self._state.is_busy:
            self.scripts.drop()
            self._state.libraries.drop()
            self._side.close()

    def _check_kind(self, is_function: bool) -> None:
        """Check that the interrupted program is a function, or a script. Raises: CommandError."""
        if self._asked[1].is_function != is_function:
            self._state.check_restrictions(frozenset())

    def kill(self, is_function: bool) -> None:
        """End the script or function that runs, at its next slice. Raises: CommandError."""
        if not self._state.is_busy:
            raise CommandError("NOTBUSY No scripts in execution right now.")
        if self._has_written:
            raise CommandError(_UNKILLABLE)
        self._check_kind(is_function)
        self._is_killed = True

    def load_deadline(self) -> Callable[[], bool]:
        """Return a function that tells whether libraries that are loaded from now on take too long."""
        stopwatch = self._watch.stopwatch
        until_ns = stopwatch() + LOAD_MS_MAX * 1_000_000
        return lambda: stopwatch() >= until_ns
