"""The Lua state of scripts or of functions: made when it is first needed, and replaced when it has grown."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from streamd.base.errors import CommandError, FixedError
from streamd.base.limits import MIB
from streamd.distribution import install_line
from streamd.lua.endings import Failed, NoLua
from streamd.resp.types import Reply

if TYPE_CHECKING:
    from streamd.lua.runtime import Caller, Runtime

# Between two scripts Lua is made to free memory when it holds more than this, and started anew if that did not help. A
# quarter of what a script may take is the most: what is handed to Lua before it runs must find room.
COLLECT_BYTES: Final = 16 * MIB


class LuaNotInstalled(FixedError):
    """lupa or greenlet is not installed."""

    line = (
        "ERR Lua is not installed on this server: scripts need the packages lupa and greenlet, "
        f"which `{install_line('lua')}` installs"
    )


class Program:
    """A script or a function.

    name: how errors name it, a script's SHA1 or a function's name. flags: names out of shebang.FLAGS. has_flags: its
    flags are complete, so what they forbid is checked before it runs; a script without a shebang is checked at each
    call. function: its compiled form, for one Lua state.
    """

    __slots__ = ("flags", "function", "has_flags", "name", "programs", "runtime")

    # Whether FUNCTION KILL ends it, or SCRIPT KILL.
    is_function = False

    def __init__(self, programs: "Programs", name: str, flags: frozenset[str], has_flags: bool) -> None:
        self.programs = programs
        self.name = name
        self.flags = flags
        self.has_flags = has_flags
        self.function: Any = None
        self.runtime: Runtime | None = None

    def compile(self, runtime: "Runtime") -> None:
        """Set the compiled form for this Lua state. Raises: CommandError."""
        raise NotImplementedError


class Programs:
    """Runs the programs of one kind, in one Lua state.

    bytes_max: the bound of Lua's memory; it may be changed. The Lua state can be replaced between any two runs.
    """

    # Whether the state is one for functions.
    has_libraries = False

    def __init__(self, bytes_max: int, tick: Callable[[], bool]) -> None:
        """bytes_max: the bound of Lua's memory. tick: called now and then while a program runs; True ends it."""
        self.bytes_max = bytes_max
        self.tick = tick
        self._runtime: Runtime | None = None

    def _compiled(self) -> Iterable[Program]:
        """Return the programs that may be compiled for the present state."""
        raise NotImplementedError

    def run(self, program: Program, keys: int, words: list[bytes], caller: "Caller") -> Reply:
        """Return a program's result; the first `keys` words are its KEYS, the others its ARGV.

        Raises: CommandError: returned by the program, not caught by it, or the reason of its end.
        """
        runtime = self._runtime
        if runtime is None or program.runtime is not runtime or runtime.bytes_max != self.bytes_max:
            runtime = self._roomy_runtime()
            program.compile(runtime)
        try:
            reply = runtime.run(program.function, keys, words, caller)
        except Failed as failure:
            raise _error(failure, program)
        finally:
            self._tidy(runtime)
        if isinstance(reply, CommandError):
            raise reply
        return reply

    def _ticked(self) -> bool:
        return self.tick()

    def _ready_runtime(self) -> "Runtime":
        runtime = self._runtime
        if runtime is None or runtime.bytes_max != self.bytes_max:
            from streamd.lua.runtime import Runtime  # with the first script: a start need not wait for it

            self.drop()
            try:
                runtime = self._runtime = Runtime(self.bytes_max, self._ticked, COLLECT_BYTES, self.has_libraries)
            except NoLua:
                raise LuaNotInstalled()
        return runtime

    def _roomy_runtime(self) -> "Runtime":
        """Return a state with room for a further program: compiled ones take memory, too."""
        self._tidy(self._ready_runtime())
        return self._ready_runtime()

    def _tidy(self, runtime: "Runtime") -> None:
        """Have Lua free unused memory if it holds much; drop the state if that is not enough."""
        if not runtime.is_spent and runtime.used_bytes() > runtime.idle_bytes_max:
            runtime.collect()
        if runtime.is_spent or runtime.used_bytes() > runtime.idle_bytes_max:
            self.drop()

    def drop(self) -> None:
        """Free the Lua state, which the next program makes anew; no program may be running."""
        runtime, self._runtime = self._runtime, None
        for program in self._compiled():
            program.function = program.runtime = None
        if runtime is not None:
            runtime.close()

    @property
    def text_bytes(self) -> int:
        """The size of the programs' texts."""
        raise NotImplementedError

    @property
    def memory_bytes(self) -> int:
        """Lua's present memory, programs included."""
        return 0 if self._runtime is None else self._runtime.used_bytes()


def decoded(text: bytes) -> str:
    """Return a text of Lua's for an error."""
    return text.decode("utf-8", "surrogateescape")


def _error(failure: Failed, program: Program) -> CommandError:
    text = decoded(failure.text)
    if failure.source:
        text += f" script: {program.name}, on {decoded(failure.source)}:{failure.line}."
    return CommandError(text)
