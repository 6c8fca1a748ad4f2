"""Lua 5.1 bytecode in which calls of a library's functions are not tail calls.

The functions of `redis` and `string` that Redis has in C are partly Lua here. Where a script ends in `return
redis.call(...)`, Lua drops the script's own frame before it calls a function in Lua, and with it the line that an error
has to name. So such calls become ordinary ones; and so do those of a script's outermost part, which runs once. Calls of
a script's own functions stay tail calls: loops may rely on that.
"""

import struct
from typing import Final

HEADER_BYTES: Final = 12
_MOVE, _GETGLOBAL, _GETTABLE, _SELF, _CALL, _TAILCALL = 0, 5, 6, 11, 28, 29

# Which registers an instruction writes: A alone, for most of them.
_WRITES_NOTHING: Final = frozenset({7, 8, 9, 22, 23, 24, 25, 26, 27, 30, 34, 35})


class UnknownBytecode(ValueError):
    """Bytecode of another Lua, or for another machine."""


class _Reader:
    def __init__(self, code: bytes) -> None:
        header = code[:HEADER_BYTES]
        if header[:6] != b"\x1bLua\x51\x00" or header[6] != 1 or header[7] != 4 or header[9] != 4 or header[10] != 8:
            raise UnknownBytecode(header.hex())
        self.size_format = "<Q" if header[8] == 8 else "<I"
        self.code = bytearray(code)
        self.at = HEADER_BYTES

    def integer(self) -> int:
        number: int = struct.unpack_from("<i", self.code, self.at)[0]
        self.at += 4
        return number

    def skip_string(self) -> None:
        length: int = struct.unpack_from(self.size_format, self.code, self.at)[0]
        self.at += struct.calcsize(self.size_format) + length


def without_library_tail_calls(code: bytes) -> bytes:
    """Return bytecode of `string.dump` in which tail calls of fields and globals are ordinary calls.

    Raises: UnknownBytecode.
    """
    reader = _Reader(code)
    _read_function(reader, is_main=True)
    return bytes(reader.code)


def _read_function(reader: _Reader, is_main: bool = False) -> None:
    reader.skip_string()  # its source
    reader.at += 8 + 4  # first and last line; counts of upvalues, parameters, variables, registers
    _patch(reader, reader.integer(), is_main)
    for _ in range(reader.integer()):  # constants
        kind = reader.code[reader.at]
        reader.at += 1
        if kind == 1:
            reader.at += 1
        elif kind == 3:
            reader.at += 8
        elif kind == 4:
            reader.skip_string()
    for _ in range(reader.integer()):
        _read_function(reader)
    lines = reader.integer()
    reader.at += 4 * lines
    for _ in range(reader.integer()):  # local variables
        reader.skip_string()
        reader.at += 8
    for _ in range(reader.integer()):  # names of upvalues
        reader.skip_string()


def _patch(reader: _Reader, count: int, all_of_them: bool) -> None:
    """Change the instructions at the reader's place, and go behind them."""
    start = reader.at
    words = struct.unpack_from(f"<{count}I", reader.code, start)
    for index, word in enumerate(words):
        if word & 0x3F == _TAILCALL and (all_of_them or _calls_library(words, index, word >> 6 & 0xFF)):
            struct.pack_into("<I", reader.code, start + 4 * index, word & ~0x3F | _CALL)
    reader.at += 4 * count


def _calls_library(words: tuple[int, ...], index: int, register: int) -> bool:
    """Return whether the last instruction that wrote the called register took a field or a global."""
    for word in reversed(words[:index]):
        opcode = word & 0x3F
        if word >> 6 & 0xFF == register and opcode not in _WRITES_NOTHING:
            return opcode in (_GETGLOBAL, _GETTABLE, _SELF)
    return False
