"""The scripts of a server, found by SHA1 and compiled once."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from streamd.base.errors import CommandError
from streamd.lua.endings import Failed
from streamd.lua.programs import Program, Programs, decoded
from streamd.lua.shebang import read_shebang

if TYPE_CHECKING:
    from streamd.lua.runtime import Runtime

# Of the scripts that came by EVAL so many are kept, those used last: clients that paste values into them send a new one
# each time. Those of SCRIPT LOAD are kept until SCRIPT FLUSH. Redis does the same since 7.4, with this number.
EVALUATED_MAX: Final = 500


class Script(Program):
    """One script.

    name: its SHA1, 40 hexadecimal digits, lower case. is_loaded: it came by SCRIPT LOAD, so it stays.
    """

    __slots__ = ("_text", "is_loaded", "source")

    def __init__(self, scripts: "Scripts", source: bytes) -> None:
        """Raises: CommandError for a first line that makes no sense."""
        shebang, text = read_shebang(source)
        super().__init__(scripts, sha1_hex(source), shebang.flags, shebang.is_there)
        self.source = source
        self._text = text
        self.is_loaded = False

    def compile(self, runtime: "Runtime") -> None:
        """Set the compiled form for this Lua state. Raises: CommandError."""
        try:
            self.function = runtime.compile(self._text)
        except Failed as failure:
            raise CommandError(f"ERR Error compiling script (new function): {decoded(failure.text)}")
        self.runtime = runtime


class Scripts(Programs):
    """Finds and runs scripts. Only a script's effects outlive its run."""

    def __init__(self, bytes_max: int, tick: Callable[[], bool]) -> None:
        """bytes_max: the bound of Lua's memory. tick: called now and then while a script runs; True ends it."""
        super().__init__(bytes_max, tick)
        self._by_sha: dict[bytes, Script] = {}
        self._by_source: dict[bytes, Script] = {}  # of EVAL alone, in the order of their last use

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return len(self._by_sha)

    @property
    def text_bytes(self) -> int:
        """The size of the scripts' texts."""
        return sum([len(script.source) for script in self._by_sha.values()])

    def _compiled(self) -> Iterable[Program]:
        return self._by_sha.values()

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
                script = Script(self, source)
                script.compile(self._roomy_runtime())
                self._by_sha[script.name.encode()] = script
        if not script.is_loaded:
            by_source[source] = script
            if len(by_source) > EVALUATED_MAX:
                oldest = next(iter(by_source))
                del self._by_sha[by_source.pop(oldest).name.encode()]
        return script

    def find(self, sha: bytes) -> Script | None:
        """Return the script with a SHA1, in any case, or None."""
        script = self._by_sha.get(sha) or self._by_sha.get(sha.lower())
        if script is not None and not script.is_loaded:
            self._by_source[script.source] = self._by_source.pop(script.source)
        return script

    def flush(self) -> None:
        """Forget all scripts."""
        self.drop()
        self._by_sha.clear()
        self._by_source.clear()


def sha1_hex(source: bytes) -> str:
    """Return the SHA1 that names a script."""
    from hashlib import sha1  # where scripts are used

    return sha1(source, usedforsecurity=False).hexdigest()
