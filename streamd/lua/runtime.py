"""One Lua state with the environment of scripts, and the way from Python into it.

`lupa` bounds its memory (max_memory). When Lua itself finds no byte left, the script ends with an error like any other.
But when Lua finds none left for a value from *Python*, its error would jump over Python's frames, which must never
happen. So Python hands a value over only if there is room for the most that Lua may allocate for it. A new string may
double Lua's table of strings, and the new table takes half as much as all strings. Hence a script that holds more than
two thirds of the bound is refused further commands.

At most WORDS_MAX values go over at a time (RESULTS_MAX in redis.lua), which always fit onto Lua's stack.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha1
from math import copysign
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from streamd.base.errors import CommandError
from streamd.base.log import log
from streamd.base.small_files import read_file
from streamd.base.version import REDIS_VERSION, version_number
from streamd.lua import tokens
from streamd.lua.bytecode import UnknownBytecode, without_library_tail_calls
from streamd.lua.endings import Failed, NoLua
from streamd.lua.random48 import Random48
from streamd.lua.tokens import ERROR, FLAT, NESTED, NIL, STATUS, Token, build_reply, error_text, put_tokens
from streamd.resp.floats import format_float
from streamd.resp.types import NULL_ARRAY, Reply

LUA: Final = os.path.join(os.path.dirname(__file__), "prelude")
CHUNK: Final = 15  # as in prelude/redis.lua
FEW_WORDS: Final = 8
WORDS_MAX: Final = 200  # so many words are handed over at once
NO_MEMORY: Final = 13
NO_MEMORY_TEXT: Final = b"ERR not enough memory"
SMALL_BYTES: Final = 64 * 1024  # a value of this length fits wherever any value fits
_TOKEN_BYTES: Final = 64  # a value in a table, with its share of the table
_OK: Final = (STATUS, b"OK")
_NIL2: Final = (True, False)
_NOTHING: Final[Iterator[Token]] = iter(())
_NO_ROOM: Final = (NO_MEMORY,)
_LEVELS: Final = (logging.DEBUG, logging.INFO, logging.INFO, logging.WARNING)


class Caller(Protocol):
    """Executes the commands that a script calls."""

    def call(self, words: list[bytes]) -> Reply:
        """Execute a command and return its reply. Raises: CommandError."""

    def set_protocol(self, protocol: int) -> None:
        """Note that the script wants replies of RESP 2 or 3 from now on."""

    def may_call(self, words: list[bytes]) -> bool | bytes:
        """Return whether a command may be executed, or what is wrong with it."""


class Registration(NamedTuple):
    """A function as its library registered it: description may be False, flags stand between blanks."""

    name: bytes
    description: bytes | bool
    flags: bytes
    function: Any


def _lua() -> Any:
    try:
        import lupa.lua51
    except ImportError:
        raise NoLua
    return lupa.lua51


def _new_state(bytes_max: int) -> Any:
    return _lua().LuaRuntime(
        encoding=None,
        unpack_returned_tuples=True,
        register_eval=False,
        register_builtins=False,
        attribute_filter=_no_attributes,
        overflow_handler=None,
        max_memory=bytes_max,
    )


def _no_attributes(owner: object, name: object, is_setting: bool) -> NoReturn:
    """Refuse all attributes: a script can reach no Python object, and could do nothing with one."""
    raise AttributeError("access denied")


class Runtime:
    """A Lua state; the functions that `compile` returns belong to it."""

    def __init__(
        self, bytes_max: int, tick: Callable[[], bool], idle_bytes_max: int, has_libraries: bool = False
    ) -> None:
        """bytes_max: Lua's memory. tick: called now and then while a script runs; True ends it. Raises: NoLua.

        has_libraries: the state is for functions, not for scripts.
        """
        self.bytes_max = bytes_max
        # Between two scripts no more may be used, so that the first values of a script find room.
        self.idle_bytes_max = min(idle_bytes_max, bytes_max // 4)
        self.is_spent = False
        self._error: type[Exception] = _lua().LuaError
        self._full = bytes_max * 2 // 3
        self._state = state = _new_state(bytes_max)
        self.used_bytes: Any = state.get_memory_used  # what Lua has allocated beyond the empty state
        self._caller: Caller | None = None
        self._call_of: list[Callable[[list[bytes]], Reply]] = [_no_command]  # of the script that runs
        self._protocol = 2
        self._words: list[bytes | int | float] = []
        self._tokens: Iterator[Token] = _NOTHING
        self._invoke, self._let_go = self._make_invoke()
        self._tick = tick
        random = Random48()
        execute = self._execute
        self._chunk_name = b"user_function" if has_libraries else b"user_script"
        sandbox = execute("sandbox", self._ticked, bytes_max, random.next, random.seed, self._chunk_name)
        null = execute("null", sandbox)
        floats = execute("cmsgpack", sandbox)
        execute("cjson", sandbox, null, self._quote)
        execute("struct", sandbox, *floats)
        execute("bit", sandbox, _lowest_bits)
        self._compile, self._load, self._run, self._feed, self._run_fed, self._more = execute(
            "redis",
            sandbox,
            self._invoke,
            self._invoke_any,
            self._pull,
            _write_log,
            self._sha1,
            self._set_protocol,
            self._may_call,
            _word_of,
            REDIS_VERSION.encode(),
            version_number(REDIS_VERSION),
            has_libraries,
        )
        # The functions of libraries.lua; None in a state for scripts.
        self._load_library: Any = None
        self._registration: Any = None
        if has_libraries:
            self._load_library, self._registration = execute("libraries", sandbox)
        sandbox[b"close"]()

    def _execute(self, name: str, *args: object) -> Any:
        return self._state.execute(read_file(os.path.join(LUA, f"{name}.lua")), *args, name=b"=streamd")

    def collect(self) -> None:
        """Free the Lua objects that no script refers to any more."""
        self._state.set_max_memory(0)  # here nothing would catch Lua's error
        self._state.gccollect()
        self._state.set_max_memory(self.bytes_max)

    def close(self) -> None:
        """Free the Lua state after its last function; it must not be used any more.

        The state refers to the functions that it calls, and these refer to it. The garbage collector would free such a
        cycle late, because it counts objects, and a state of many megabytes is only one.
        """
        self._let_go()
        self._state = self.used_bytes = None
        self._compile = self._load = self._run = self._feed = self._run_fed = self._more = None
        self._load_library = self._registration = None

    def compile(self, text: bytes) -> Any:
        """Return the function of a script. Raises: Failed, with Lua's message."""
        if len(text) > self.bytes_max // 8:
            raise Failed(b"not enough memory")
        if text.startswith(b"\x1b"):  # bytecode
            raise Failed(self._chunk_name + b":1: unexpected symbol near '\x1b'")
        code = self._compile(text)
        if isinstance(code, tuple):
            raise Failed(code[1])
        try:
            code = without_library_tail_calls(code)
        except UnknownBytecode:
            pass  # an error may then name no line
        return self._load(code)

    def load_library(self, function: Any) -> list[Registration]:
        """Run the compiled code of a library; return what it registered, in its order. Raises: Failed."""
        try:
            ok, *result = self._load_library(function)
            if ok:
                return [Registration(*self._registration(at + 1)) for at in range(int(result[0]))]
        except (MemoryError, self._error):
            self.is_spent = True
            raise Failed(NO_MEMORY_TEXT)
        text, source, line = result
        raise Failed(text, source or b"", line)

    def run(self, function: Any, keys: int, words: list[bytes], caller: Caller) -> Reply:
        """Return a script's result; the first `keys` words are its KEYS. Raises: Failed."""
        # (To join few words takes half the time of adding up their lengths.)
        size = len(b"".join(words)) if len(words) <= FEW_WORDS else sum(map(len, words))
        if size + _TOKEN_BYTES * len(words) > self._full - self.idle_bytes_max:
            raise Failed(NO_MEMORY_TEXT)
        if self._caller is not caller:
            self._caller = caller
            self._call_of[0] = caller.call
        if self._words:
            self._words.clear()
        try:
            if len(words) <= WORDS_MAX:
                result = self._run(function, keys, *words)
            else:
                for first in range(0, len(words), WORDS_MAX):
                    self._feed(*words[first : first + WORDS_MAX])
                result = self._run_fed(function, keys)
        except (MemoryError, self._error):
            # Lua had no memory even for its error: this state is not used again.
            self.is_spent = True
            raise Failed(NO_MEMORY_TEXT)
        finally:
            self._tokens = _NOTHING
        kind = type(result)
        if kind is bytes or kind is int:
            return result
        if kind is tuple:
            return self._finish(result)
        if kind is float:
            return tokens.integer(result)
        return 1 if result is True else None

    def _finish(self, result: tuple[Any, ...]) -> Reply:
        if result[0] is False:
            _, text, source, line = result
            raise Failed(text, source or b"", line)
        return build_reply(self._results(result))

    def _results(self, result: tuple[Any, ...]) -> Iterator[Token]:
        while True:
            left = result[0]
            yield from result[1:]
            if not left:
                return
            result = self._more()

    # -- called by Lua: nothing may be raised ---------------------------------------------------------------------

    def _ticked(self) -> bool:
        try:
            return self._tick()
        except BaseException:
            log.exception("bug", "a bug in what runs beside scripts")
            return True

    def _make_invoke(self) -> tuple[Callable[..., tuple[Any, ...]], Callable[[], None]]:
        """Return the function that executes a command of strings (the hot path of scripts, hence a closure), and one
        that makes it release the Lua state.
        """
        used, full, call_of, answer = self.used_bytes, self._full, self._call_of, self._answer

        def invoke(*words: bytes) -> tuple[Any, ...]:
            if used() > full:
                return _NO_ROOM
            try:
                reply = call_of[0]([*words])
                kind = type(reply)
                if kind is int or (kind is bytes and len(reply) <= SMALL_BYTES):
                    return True, reply
                if kind is str and reply == "OK":
                    return _OK
                return answer(reply)
            except CommandError as error:
                return ERROR, error_text(error)[:SMALL_BYTES]
            except BaseException:
                log.exception("bug", "a bug in a command that a script called")
                return ERROR, b"ERR internal error"

        def let_go() -> None:
            nonlocal used
            used = None

        return invoke, let_go

    def _invoke_any(self, *words: Any) -> tuple[Any, ...]:
        """Execute a command; its words may be numbers, and `_pull` may have taken its first ones before."""
        if self._words:
            words = (*self._words, *words)
            self._words.clear()
        return self._invoke(*[word if type(word) is bytes else _word_of(word) for word in words])

    def _answer(self, reply: Reply) -> tuple[Any, ...]:
        kind = type(reply)
        if kind is bytes:
            return (True, reply) if self._has_room(len(reply)) else _NO_ROOM
        if kind is str:
            return STATUS, reply.encode("utf-8", "surrogateescape")
        if reply is None or reply is NULL_ARRAY:
            return _NIL2 if self._protocol == 2 else (NIL,)
        if kind is list and len(reply) <= CHUNK and self._protocol == 2:
            values = _flat(reply)
            if values is not None:
                return FLAT, *values
        return self._send_tokens(reply)

    def _send_tokens(self, reply: Reply) -> tuple[Any, ...]:
        tokens: list[Token] = []
        put_tokens(tokens, reply, self._protocol)
        size = sum([len(token) for token in tokens if type(token) is bytes]) + _TOKEN_BYTES * len(tokens)
        if size > SMALL_BYTES and not self._has_room(size):
            return _NO_ROOM
        tokens += (False,) * (-len(tokens) % CHUNK)
        self._tokens = iter(tokens)
        return (NESTED,)

    def _pull(self, *words: Any) -> tuple[Any, ...]:
        """Return the next tokens of the reply; with words: take the first words of a long command."""
        if words:
            self._words += words
            return ()
        if self.used_bytes() > self._full:
            return (False,)
        tokens = self._tokens
        return True, *[next(tokens) for _ in range(CHUNK)]

    def _has_room(self, size_bytes: int) -> bool:
        return self.used_bytes() + size_bytes <= self._full

    def _sha1(self, text: bytes) -> bytes | bool:
        if self.used_bytes() > self._full:
            return False
        return sha1(text, usedforsecurity=False).hexdigest().encode()

    def _quote(self, text: bytes) -> bytes | bool:
        """Return a string as JSON writes it, without its quotes; False if there is no room for it."""
        if not self._has_room(6 * len(text) + SMALL_BYTES):
            return False
        if len(text.translate(None, _ESCAPED)) == len(text):
            return text.replace(b"/", b"\\/")
        return _ESCAPED_OR_SLASH.sub(_escape, text)

    def _set_protocol(self, protocol: int) -> None:
        self._protocol = int(protocol)
        if self._caller is not None:
            self._caller.set_protocol(self._protocol)

    def _may_call(self, *words: Any) -> bool | bytes:
        """Return whether the script may run a command, or what is wrong; `_pull` may have taken its first words."""
        words = (*self._words, *words)
        self._words.clear()
        try:
            assert self._caller is not None
            return self._caller.may_call([*words])
        except BaseException:
            log.exception("bug", "a bug in what a script may call")
            return False


# The bytes that JSON escapes besides the slash, which base64 has without the others.
_ESCAPED: Final = bytes([*range(32), 34, 92, 127])
_ESCAPED_OR_SLASH: Final = re.compile(rb'[\x00-\x1f"\\/\x7f]')
_SHORT_ESCAPES: Final = {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 47: b"\\/", 92: b"\\\\"}


def _escape(match: re.Match[bytes]) -> bytes:
    code = match[0][0]
    return _SHORT_ESCAPES.get(code) or b"\\u%04x" % code


def _no_command(words: list[bytes]) -> NoReturn:
    raise CommandError("ERR no script runs")


def _word_of(number: int | float) -> bytes:
    """Return a number of Lua as a word of a request; there is no negative zero."""
    if number != number:
        return b"-nan" if copysign(1.0, number) < 0 else b"nan"
    return format_float(number + 0.0)


def _flat(items: list[Any]) -> list[bytes | int] | None:
    """Return the values of a small array as Lua has them in version 2; None if it is not small, or not flat."""
    size = 0
    values: list[bytes | int] = []
    for item in items:
        kind = type(item)
        if kind is bytes:
            size += len(item)
        elif kind is float:
            item = format_float(item)
        elif kind is not int:
            return None
        values.append(item)
    return values if size <= SMALL_BYTES else None


def _write_log(level: float, text: bytes) -> None:
    log.write("script", _LEVELS[int(level)], "%s", text.decode("utf-8", "replace"))


def _lowest_bits(number: float) -> int:
    """Return a Lua number's lowest 32 bits, rounded half to even, as in the library `bit`."""
    if number - number != 0:  # inf, nan
        return 0
    whole: int = round(number)
    return whole & 0xFFFFFFFF
