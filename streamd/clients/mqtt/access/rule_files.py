"""Reads the lines of a password or ACL file, with errors that say where a file is wrong."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

# A million users with their passwords are 130 MB: more is no file of users but a mistake, such as a disk image.
FILE_BYTES_MAX: Final = 256 * 1024 * 1024
# What mosquitto takes for blanks: others, such as a no-break space, are characters of a name.
BLANKS: Final = " \t\r\v\f"


class FileFault(ValueError):
    """A file cannot be used: its text is one line with the file, the line's number, what is wrong, and what to do."""

    def __init__(self, path: Path, number: int | None, fault: str) -> None:
        """number: of the line, from 1; None when the fault is the file's."""
        where = f"{path}: " if number is None else f"{path}, line {number}: "
        super().__init__(where + fault)


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line's number, from 1, and its text without the end of line and the blanks before that.

    Raises: FileFault, when the file cannot be read, is larger than FILE_BYTES_MAX, or a line is not UTF-8 or has a NUL.
    """
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise FileFault(path, None, f"cannot be read ({error.strerror}); check the path and who may read it")
    if len(data) > FILE_BYTES_MAX:
        raise FileFault(path, None, f"more than {FILE_BYTES_MAX // 1024 // 1024} MiB; check that it is the right file")
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FileFault(path, number, f"byte {error.start + 1} is not UTF-8; save the file as UTF-8")
        if "\0" in text:
            raise FileFault(path, number, "a NUL character; remove it")
        if number == 1 and text.startswith("\ufeff"):
            raise FileFault(path, number, "a byte order mark; save the file as UTF-8 without one")
        yield number, text.rstrip(BLANKS)


def shown(text: str) -> str:
    """Return a part of a line as an error shows it: quoted, on one line, not longer than a reader looks."""
    return repr(text if len(text) <= 60 else text[:60] + "...")
