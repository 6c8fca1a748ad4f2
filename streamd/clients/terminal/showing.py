"""Text for a terminal or a pipe, in which an entry's bytes cannot control the terminal."""

import os
import sys

from rich.console import Console

# The width of a table in a pipe, where no terminal gives one.
_PIPE_WIDTH = 160
# They join letters of many scripts, and the parts of an emoji; beside ASCII they are nothing but invisible.
_JOINERS = "\u200c\u200d"


class _Console(Console):
    """A console that raises BrokenPipeError when the reader of the output is gone, for the command to handle."""

    def on_broken_pipe(self) -> None:
        """Raise the error again; rich would exit."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """Return the output: without colours in a pipe, and with NO_COLOR."""
    colours = None if os.environ.get("NO_COLOR") else "auto"
    found = _Console(
        stderr=stderr,
        color_system=colours,  # type: ignore[arg-type]
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = _PIPE_WIDTH
    return found


def printable(data: bytes, length_max: int = 0) -> str:
    """Return bytes as text in which control characters, and bytes that are no UTF-8, are escaped.

    length_max: in characters, 0 for all of them; shortened text ends with an ellipsis.
    """
    text = data.decode("utf-8", "backslashreplace")
    if length_max and len(text) > length_max:
        text = text[: length_max - 1] + "…"
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or (one in _JOINERS and _joins(text, at)) else ascii(one)[1:-1]
        for at, one in enumerate(text)
    )


def _joins(text: str, at: int) -> bool:
    """Return whether a joiner stands between two characters beyond ASCII."""
    around = text[max(at - 1, 0) : at] + text[at + 1 : at + 2]
    return len(around) == 2 and all(one > "\x7f" and one.isprintable() for one in around)


def count(number: float | None) -> str:
    """Return a number for people."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:,.1f}"


def size(number_bytes: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if number_bytes < 1024:
            return f"{number_bytes:.0f} {unit}" if unit == "B" else f"{number_bytes:.1f} {unit}"
        number_bytes /= 1024
    return f"{number_bytes:.1f} TB"


def span(seconds: float) -> str:
    """Return a length of time for people, in one or two units."""
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 86_400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86_400} d {seconds % 86_400 // 3600} h"


def let_go_of_output() -> None:
    """Let the interpreter flush to nowhere at its exit, because the reader of the output is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
