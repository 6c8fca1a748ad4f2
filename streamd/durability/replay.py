"""Applies the records of a journal while it is loaded."""

from collections.abc import Sequence
from typing import cast

from streamd.base.errors import CommandError
from streamd.catalog import COMMANDS, Command, Context, QuickTable, Services
from streamd.catalog.applying import APPLIERS, Applier, Applying, CannotApply, applies
from streamd.commands.stream.xack import apply_acknowledgements
from streamd.commands.stream.xadd import apply_columns
from streamd.configuration.server_options import OPTIONS
from streamd.connected.state import State
from streamd.journal.cold_loading import ColdLoading
from streamd.resp.template import Column

# What was recorded was allowed when it was recorded, and CONFIG SET may have allowed longer strings then.
_LENGTH_MAX = "proto-max-bulk-len"
_NO_SENSE = "its words make no sense"


class _Services:
    """The engine for recorded commands, which need nothing of it."""

    commands = COMMANDS
    quick: QuickTable = {}


class Replay:
    """Finds for each record the function beside the command that writes it.

    Commands of other types than streams repeat their own effect, as a client without a clock: it is always the year
    1970, so nothing expires, and nothing is recorded. borrow() before, and finish() after each slice of loading: that
    time holds only in between.
    """

    def __init__(self, state: State, cold: ColdLoading | None = None, is_ours: bool = False) -> None:
        """cold: finds the segment files that a base names; None: it may name none. is_ours: whether streamd has written
        all that comes.
        """
        self._state = state
        self._applying = Applying(state, cold, is_ours)
        self._context = Context(state, cast(Services, _Services()), 0)
        self._context.in_unit = True  # nothing blocks
        self._dirty = state.dirty
        self._length_max = state.config.values[_LENGTH_MAX]
        assert state.records is None

    @property
    def defaults(self) -> tuple[int, int]:
        """The settings of streams that are created from here on: seconds, idempotent IDs of a producer."""
        return self._applying.duration_s, self._applying.maxsize

    @defaults.setter
    def defaults(self, settings: tuple[int, int]) -> None:
        self._applying.duration_s, self._applying.maxsize = settings

    @property
    def history(self) -> list[bytes] | None:
        """The last note of where the state stands in its replication history; None without one."""
        return self._applying.history

    def borrow(self) -> None:
        """Switch to the journal's time; blocks that are needed are read at once."""
        if self._state.cold is not None:
            self._state.cold.in_place += 1
        values = self._state.config.values
        self._length_max, values[_LENGTH_MAX] = values[_LENGTH_MAX], OPTIONS[_LENGTH_MAX].maximum
        self._dirty = self._state.dirty
        self._state.time.ms = 0

    def finish(self) -> None:
        """Switch back to the server's time."""
        if self._state.cold is not None:  # one that was opened meanwhile has counted itself
            self._state.cold.in_place -= 1
        self._state.config.values[_LENGTH_MAX] = self._length_max
        self._state.dirty = self._dirty
        self._state.time.ms = self._state.clock.now_ms()

    def apply(self, db_index: int, words: list[bytes]) -> str | None:
        """Apply a command or a note; return its fault, or None."""
        applier = APPLIERS.get(words[0]) or _find_applier(words)
        if applier is None:
            return self._repeat(db_index, words)
        self._applying.select(db_index)
        try:
            applier(self._applying, words)
        except (CannotApply, CommandError) as error:
            return str(error)
        except (ValueError, IndexError, KeyError):
            command = _find_command(words)
            return _NO_SENSE if command is None or command.accepts(len(words)) else _WRONG_NUMBER
        return None

    def take_columns(self, db_index: int, places: Sequence[Column], count: int) -> bool:
        """Apply so many records, given by the places of their words, if they add entries of one stream, or acknowledge
        one each of one group; return whether that is so: else nothing has happened.
        """
        self._applying.select(db_index)
        applying = self._applying
        return apply_columns(applying, places, count) or apply_acknowledgements(applying, places, count)

    def _repeat(self, db_index: int, words: list[bytes]) -> str | None:
        """Repeat a command that records itself."""
        command = _find_command(words)
        if command is None:
            return "this version has no such command"
        if "write" not in command.flags:
            return "it writes nothing, so it was never recorded"
        if not command.accepts(len(words)):
            return _WRONG_NUMBER
        if command.group == "stream":
            return "it is never recorded, but what it decided"
        self._context.db = self._state.keyspace[db_index]
        try:
            command.handler(self._context, words)
        except CommandError as error:
            return str(error)
        return None


_WRONG_NUMBER = "it has a wrong number of words"


def _find_applier(words: list[bytes]) -> Applier | None:
    name = words[0].upper()
    return APPLIERS.get(name) or (APPLIERS.get(name + b" " + words[1].upper()) if len(words) > 1 else None)


def _find_command(words: list[bytes]) -> Command | None:
    command = COMMANDS.get(words[0].lower())
    if command is not None and command.subcommands and len(words) > 1:
        return command.subcommands.get(words[1].lower())
    return command


@applies("HISTORY")
def apply_history(applying: Applying, words: list[bytes]) -> None:
    """Keep where the state stands in its replication history."""
    applying.history = words


@applies("DEFAULTS")
def apply_defaults(applying: Applying, words: list[bytes]) -> None:
    """Apply the settings for streams that are created from here on."""
    applying.duration_s, applying.maxsize = map(int, words[1:])
