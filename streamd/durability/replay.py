"""Applying recorded commands through the handlers that clients use, while a journal is loaded."""

from typing import cast

from streamd.base.config import OPTIONS
from streamd.base.errors import CommandError
from streamd.catalog import COMMANDS, Context, QuickTable, Services
from streamd.session.state import State
from streamd.stream.stream import Stream

_DEFAULTS = ("stream-idmp-duration", "stream-idmp-maxsize")
# What was recorded was allowed when it was recorded, and CONFIG SET may have allowed longer strings then.
_LENGTH_MAX = "proto-max-bulk-len"
_SETTINGS = (*_DEFAULTS, _LENGTH_MAX)


class _Services:
    """What a recorded command needs of an engine: nothing."""

    commands = COMMANDS
    quick: QuickTable = {}


class Replay:
    """The loader's client: no clock (it is always the year 1970, so nothing expires), nothing is recorded.

    borrow() before, and finish() after each slice of loading: in between the journal's settings and time hold,
    outside the server's own.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._context = Context(state, cast(Services, _Services()), 0)
        self._context.in_unit = True  # nothing blocks
        values = state.config.values
        self._own = {name: values[name] for name in _SETTINGS}
        self._dirty = state.dirty
        self._defaults = {name: values[name] for name in _DEFAULTS}
        assert state.records is None

    def borrow(self) -> None:
        """Let the settings and the time of the journal hold."""
        self._own = {name: self._state.config.values[name] for name in _SETTINGS}
        self._dirty = self._state.dirty
        self._state.config.values.update(self._defaults)
        self._state.config.values[_LENGTH_MAX] = OPTIONS[_LENGTH_MAX].maximum
        self._state.time.ms = 0

    def finish(self) -> None:
        """Let the configuration and the time of the server hold again."""
        self._state.config.values.update(self._own)
        self._state.dirty = self._dirty
        self._state.time.ms = self._state.clock.now_ms()

    def apply(self, db_index: int, words: list[bytes]) -> str | None:
        """Apply a command as it was recorded; return what is wrong with it, or None."""
        command = COMMANDS.get(words[0]) or COMMANDS.get(words[0].lower())
        if command is not None and command.subcommands and len(words) > 1:
            command = command.subcommands.get(words[1].lower())
        if command is None:
            return "this version has no such command"
        if "write" not in command.flags:
            return "it writes nothing, so it was never recorded"
        if not command.accepts(len(words)):
            return "it has a wrong number of words"
        self._context.db = self._state.keyspace[db_index]
        try:
            command.handler(self._context, words)
        except CommandError as error:
            return str(error)
        return None

    def create_stream(self, db_index: int, key: bytes) -> Stream:
        """Store and return a new stream at a free key."""
        self._context.db = self._state.keyspace[db_index]
        return self._context.create_stream(key)

    def set_defaults(self, duration_s: int, maxsize: int) -> None:
        """Take these as the settings of streams that are created from here on."""
        self._defaults = {"stream-idmp-duration": duration_s, "stream-idmp-maxsize": maxsize}
        self._state.config.values.update(self._defaults)
