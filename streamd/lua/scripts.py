"""The scripts of a server: found by SHA1, compiled once, run in a Lua state that is replaced when it has grown."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from streamd.base.errors import CommandError
from streamd.base.limits import MIB
from streamd.lua.endings import Failed, NoLua
from streamd.lua.shebang import Shebang, read_shebang
from streamd.resp.types import Reply

if TYPE_CHECKING:
    from streamd.lua.runtime import Caller, Runtime

# Of the scripts that came by EVAL so many are kept, those used last: clients that paste values into them send a new one
# each time. Those of SCRIPT LOAD are kept until SCRIPT FLUSH. Redis does the same since 7.4, with this number.
EVALUATED_MAX: Final = 500

# Between two scripts Lua is made to free memory when it holds more than this, and started anew if that did not help. A
# quarter of what a script may take is the most: what is handed to Lua before it runs must find room.
COLLECT_BYTES: Final = 16 * MIB

NOT_INSTALLED: Final = (
    "ERR Lua is not installed on this server: scripts need the packages lupa and greenlet, "
    "which `pip install 'streamd[lua]'` installs"
)


class Script:
    """One script.

    sha: 40 hexadecimal digits, lower case. function: its compiled form, for one Lua state. is_loaded: it came by SCRIPT
    LOAD, so it stays.
    """

    __slots__ = ("_text", "function", "is_loaded", "runtime", "sha", "shebang", "source")

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.sha = sha1_hex(source)
        self.shebang: Shebang
        self.shebang, self._text = read_shebang(source)
        self.function: Any = None
        self.runtime: Runtime | None = None
        self.is_loaded = False

    def compile(self, runtime: "Runtime") -> None:
        """Compile for this Lua state. Raises: CommandError."""
        try:
            self.function = runtime.compile(self._text)
        except Failed as failure:
            raise CommandError(f"ERR Error compiling script (new function): {_decoded(failure.text)}")
        self.runtime = runtime


class Scripts:
    """Finds and runs scripts.

    bytes_max: the bound of Lua's memory; it may be changed. Only a script's effects outlive its run, so the Lua state
    can be replaced between any two.
    """

    def __init__(self, bytes_max: int, tick: Callable[[], bool]) -> None:
        """bytes_max: the bound of Lua's memory. tick: called now and then while a script runs; True ends it."""
        self.bytes_max = bytes_max
        self._tick = tick
        self._runtime: Runtime | None = None
        self._by_sha: dict[bytes, Script] = {}
        self._by_source: dict[bytes, Script] = {}  # of EVAL alone, in the order of their last use

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return len(self._by_sha)

    def load(self, source: bytes) -> Script:
        """Return the script of SCRIPT LOAD, which is kept. Raises: CommandError if it does not compile."""
        script = self.evaluated(source)
        script.is_loaded = True
        self._by_source.pop(source, None)
        return script

    def evaluated(self, source: bytes) -> Script:
        """Return the script of EVAL. Raises: CommandError if it does not compile."""
        by_source = self._by_source
        script = by_source.pop(source, None)
        if script is None:
            script = self._by_sha.get(sha1_hex(source).encode())
            if script is None:
                script = Script(source)
                script.compile(self._roomy_runtime())
                self._by_sha[script.sha.encode()] = script
        if not script.is_loaded:
            by_source[source] = script
            if len(by_source) > EVALUATED_MAX:
                oldest = next(iter(by_source))
                del self._by_sha[by_source.pop(oldest).sha.encode()]
        return script

    def find(self, sha: bytes) -> Script | None:
        """Return the script with a SHA1, in any case, or None."""
        script = self._by_sha.get(sha) or self._by_sha.get(sha.lower())
        if script is not None and not script.is_loaded:
            self._by_source[script.source] = self._by_source.pop(script.source)
        return script

    def flush(self) -> None:
        """Forget all scripts."""
        self._drop()
        self._by_sha.clear()
        self._by_source.clear()

    def run(self, script: Script, keys: int, words: list[bytes], caller: "Caller") -> Reply:
        """Return a script's result; the first `keys` words are its KEYS, the others its ARGV.

        Raises: CommandError: returned by the script, not caught by it, or the reason of its end.
        """
        runtime = self._runtime
        if runtime is None or script.runtime is not runtime or runtime.bytes_max != self.bytes_max:
            runtime = self._roomy_runtime()
            script.compile(runtime)
        try:
            reply = runtime.run(script.function, keys, words, caller)
        except Failed as failure:
            raise _error(failure, script)
        finally:
            if runtime.used_bytes() > runtime.idle_bytes_max or runtime.is_spent:
                self._free(runtime)
        if isinstance(reply, CommandError):
            raise reply
        return reply

    def _ready_runtime(self) -> "Runtime":
        runtime = self._runtime
        if runtime is None or runtime.bytes_max != self.bytes_max:
            from streamd.lua.runtime import Runtime  # with the first script: a start need not wait for it

            self._drop()
            try:
                runtime = self._runtime = Runtime(self.bytes_max, self._tick, COLLECT_BYTES)
            except NoLua:
                raise CommandError(NOT_INSTALLED)
        return runtime

    def _roomy_runtime(self) -> "Runtime":
        """Return a state with room for a further script: compiled ones take memory, too."""
        runtime = self._ready_runtime()
        if runtime.used_bytes() > runtime.idle_bytes_max:
            self._free(runtime)
        return self._ready_runtime()

    def _free(self, runtime: "Runtime") -> None:
        """Have Lua free unused memory; drop the state if that is not enough."""
        if not runtime.is_spent:
            runtime.collect()
        if runtime.is_spent or runtime.used_bytes() > runtime.idle_bytes_max:
            self._drop()

    def _drop(self) -> None:
        runtime, self._runtime = self._runtime, None
        for script in self._by_sha.values():
            script.function = script.runtime = None
        if runtime is not None:
            runtime.close()

    @property
    def memory_bytes(self) -> int:
        """Lua's present memory, scripts included."""
        return 0 if self._runtime is None else self._runtime.used_bytes()


def sha1_hex(source: bytes) -> str:
    """Return the SHA1 that names a script."""
    from hashlib import sha1  # where scripts are used

    return sha1(source, usedforsecurity=False).hexdigest()


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _error(failure: Failed, script: Script) -> CommandError:
    text = _decoded(failure.text)
    if failure.source:
        text += f" script: {script.sha}, on {_decoded(failure.source)}:{failure.line}."
    return CommandError(text)
