"""The functions of a server, in libraries that are loaded again when the Lua state is replaced."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from streamd.base.errors import CommandError
from streamd.lua.endings import Failed
from streamd.lua.programs import Program, Programs, decoded
from streamd.lua.shebang import read_library_header

if TYPE_CHECKING:
    from streamd.lua.runtime import Registration, Runtime

# So long a library may take to register its functions, as in Redis.
LOAD_MS_MAX: Final = 500

_NAME: Final = re.compile(rb"[A-Za-z0-9_]+")
_ENGINE: Final = b"lua"


def never() -> bool:
    """Return False: no end is due."""
    return False


class Function(Program):
    """One function: `name` as it was registered; it is found in any case. description: None without one."""

    __slots__ = ("description", "library")

    is_function = True

    def __init__(self, library: "Library", registration: "Registration") -> None:
        flags = frozenset(registration.flags.decode().split())
        super().__init__(library.libraries, registration.name.decode(), flags, True)
        self.library = library
        self.description: bytes | None = None
        if isinstance(registration.description, bytes):
            self.description = registration.description

    def compile(self, runtime: "Runtime") -> None:
        """Load the library into this Lua state. Raises: CommandError."""
        self.library.load_into(runtime)
        if self.function is None:
            raise CommandError("ERR Function not found")


class Library:
    """One library.

    code: with its first line. functions: by their names in lower case.
    """

    __slots__ = ("_text", "code", "functions", "libraries", "name")

    def __init__(self, libraries: "Libraries", name: bytes, code: bytes, text: bytes) -> None:
        """text: the code with its first line emptied."""
        self.libraries = libraries
        self.name = name
        self.code = code
        self._text = text
        self.functions: dict[bytes, Function] = {}

    def load_into(self, runtime: "Runtime") -> None:
        """Run the code in this Lua state, and take the functions that it registers. Raises: CommandError.

        The first time decides which functions there are: later ones replace only what runs.
        """
        try:
            compiled = runtime.compile(self._text)
        except Failed as failure:
            raise CommandError(f"ERR Error compiling function: {decoded(failure.text)}")
        try:
            registered = runtime.load_library(compiled)
        except Failed as failure:
            text = "ERR FUNCTION LOAD timeout" if self.libraries.was_late else decoded(failure.text)
            raise CommandError(f"ERR Error registering functions: {text}")
        is_first = not self.functions
        for one in registered:
            key = one.name.lower()
            if is_first:
                self.functions[key] = Function(self, one)
            function = self.functions.get(key)
            if function is not None:
                function.function, function.runtime = one.function, runtime
        if not registered:
            raise CommandError("ERR No functions registered")


class Libraries(Programs):
    """Finds, changes and runs functions. A change that fails changes nothing.

    is_late: asked now and then while a library is loaded; True ends that. was_late: it has ended one.
    by_name: the libraries, in the order in which they came.
    """

    has_libraries = True

    def __init__(self, bytes_max: int) -> None:
        """bytes_max: the bound of Lua's memory. The owner sets `tick`."""
        super().__init__(bytes_max, never)
        self.by_name: dict[bytes, Library] = {}
        self._functions: dict[bytes, Function] = {}
        self._is_late: Callable[[], bool] | None = None
        self.was_late = False

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def functions_count(self) -> int:
        """The number of functions in all libraries."""
        return len(self._functions)

    @property
    def text_bytes(self) -> int:
        """The size of all libraries' code."""
        return sum(map(len, self.codes()))

    def codes(self) -> list[bytes]:
        """Return the code of each library, in their order."""
        return [library.code for library in self.by_name.values()]

    def _compiled(self) -> Iterable[Program]:
        return self._functions.values()

    def _ticked(self) -> bool:
        if self._is_late is None:
            return self.tick()
        self.was_late = self._is_late()
        return self.was_late

    def find(self, name: bytes) -> Function | None:
        """Return the function of a name, in any case, or None."""
        return self._functions.get(name) or self._functions.get(name.lower())

    def load(self, code: bytes, replace: bool, is_late: Callable[[], bool]) -> bytes:
        """Add a library and return its name. Raises: CommandError."""
        libraries = self._load([code], set() if replace else {*self.by_name}, is_late)
        self._join(libraries, self.by_name)
        return libraries[0].name

    def restore(self, codes: list[bytes], policy: bytes, is_late: Callable[[], bool]) -> None:
        """Add libraries; policy: FLUSH removes all others, REPLACE those of the same names, APPEND none.

        Raises: CommandError.
        """
        libraries = self._load(codes, set(), is_late)
        for library in libraries:
            if policy == b"APPEND" and library.name in self.by_name:
                raise CommandError(f"ERR Library {decoded(library.name)} already exists")
        self._join(libraries, {} if policy == b"FLUSH" else self.by_name)

    def delete(self, name: bytes) -> None:
        """Remove a library. Raises: CommandError."""
        library = self.by_name.pop(name, None)
        if library is None:
            raise CommandError("ERR Library not found")
        for key in library.functions:
            del self._functions[key]

    def flush(self) -> None:
        """Remove all libraries."""
        self.drop()
        self.by_name.clear()
        self._functions.clear()

    def _load(self, codes: list[bytes], taken: set[bytes], is_late: Callable[[], bool]) -> list[Library]:
        """Return libraries whose code has run, and whose names are not taken. Raises: CommandError."""
        libraries: list[Library] = []
        functions: dict[bytes, Function] = {}
        self._is_late = is_late
        try:
            for code in codes:
                name, text = _read(code)
                if name in taken:
                    raise CommandError(f"ERR Library '{decoded(name)}' already exists")
                taken.add(name)
                library = Library(self, name, code, text)
                library.load_into(self._roomy_runtime())
                libraries.append(library)
                _add_functions(library, functions)
        finally:
            self._is_late, self.was_late = None, False
        return libraries

    def _join(self, libraries: list[Library], others: dict[bytes, Library]) -> None:
        """Keep loaded libraries, and the others that have no name of theirs. Raises: CommandError."""
        by_name = others | {library.name: library for library in libraries}
        functions: dict[bytes, Function] = {}
        for library in (*[one for one in others.values() if by_name[one.name] is one], *libraries):
            _add_functions(library, functions)
        self.by_name, self._functions = by_name, functions


def _add_functions(library: Library, functions: dict[bytes, Function]) -> None:
    """Add a library's functions to others. Raises: CommandError for one that is there."""
    for key, function in library.functions.items():
        if key in functions:
            raise CommandError(f"ERR Function {function.name} already exists")
        functions[key] = function


def _read(code: bytes) -> tuple[bytes, bytes]:
    """Return a library's name, and its code with the first line emptied. Raises: CommandError."""
    engine, name, text = read_library_header(code)
    if _NAME.fullmatch(name) is None:
        raise CommandError(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one "
            "character long"
        )
    if engine.lower() != _ENGINE:
        raise CommandError(f"ERR Engine '{decoded(engine)}' not found")
    return name, text
