"""Reads the settings of a file in redis.conf's format, one a line."""

import codecs
import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streamd.base.errors import ProtocolError
from streamd.resp.inline import split_inline

# A file that includes itself, by way of others maybe, is an error and no endless loop. (Redis includes to any depth.)
_DEPTH_MAX: Final = 16
# One that is larger is something else than a configuration file.
FILE_BYTES_MAX: Final = 16 * 1024 * 1024


class ConfigFileError(Exception):
    """A fault of a file, in one line: file, line, fault, and advice.

    Quotes of the file may hold line ends or control sequences: they are shown in Python's notation.
    """

    def __init__(self, text: str) -> None:
        super().__init__("".join(char if char.isprintable() else ascii(char)[1:-1] for char in text))


@dataclass(frozen=True, slots=True)
class Setting:
    """One line: an option's name in lower case, its values, and the line's place."""

    name: str
    words: list[str]
    path: str
    line: int

    def fault(self, text: str) -> ConfigFileError:
        """Return an error about this line."""
        return ConfigFileError(f"{self.path}, line {self.line}: {text}")


def read_bytes(path: str) -> bytes:
    """Return the contents of a file. Raises: ConfigFileError."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigFileError(f"{path}: {error.strerror}; give a file that can be read")
    if len(data) > FILE_BYTES_MAX or b"\0" in data:
        raise ConfigFileError(f"{path}: no configuration file; give one in the words of redis.conf")
    return data


def split_line(line: bytes) -> list[str]:
    """Return the words of a line, none for a comment or a blank one. Raises: ProtocolError for unbalanced quotes."""
    line = line.strip(b" \t\r\n")
    if not line or line.startswith(b"#"):
        return []
    return [word.decode("utf-8", "surrogateescape") for word in split_inline(line)]


def read_settings(path: str, faults: list[ConfigFileError], depth: int = 0) -> Iterator[Setting]:
    """Return the settings of a file and of its includes, in their order; errors go to `faults`."""
    try:
        data = read_bytes(path)
    except ConfigFileError as error:
        faults.append(error)
        return
    # (Some editors begin a text with a mark of its order of bytes.)
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        try:
            words = split_line(line)
        except ProtocolError:
            faults.append(ConfigFileError(f"{path}, line {number}: unbalanced quotes; close the quote or escape it"))
            continue
        if not words:
            continue
        setting = Setting(words[0].lower(), words[1:], path, number)
        if setting.name == "include":
            yield from _included(setting, faults, depth)
        else:
            yield setting


def _included(setting: Setting, faults: list[ConfigFileError], depth: int) -> Iterator[Setting]:
    if len(setting.words) != 1:
        faults.append(setting.fault("include takes one file or pattern; write a line for each"))
        return
    if depth == _DEPTH_MAX:
        faults.append(setting.fault("files include each other without an end; take this line out"))
        return
    pattern = os.path.join(os.path.dirname(setting.path), setting.words[0])
    found = sorted(glob.glob(pattern))
    if not found and not glob.has_magic(pattern):
        faults.append(setting.fault(f"there is no file {pattern}; correct the name or take the line out"))
    for path in found:
        yield from read_settings(path, faults, depth + 1)
