"""Hands words of the command line over to click, which is imported only then, so that a server starts without it."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Final

from streamd.clients.terminal.words import COMMANDS, COMPLETE
from streamd.distribution import install_line

_EXIT_USAGE: Final = 2


def takes(words: list[str]) -> bool:
    """Return whether `run` takes a command line."""
    return bool(words and words[0] in COMMANDS) or COMPLETE in os.environ


def run(words: list[str], parser: Callable[[], argparse.ArgumentParser]) -> int:
    """Run one of the commands, or answer a shell's completion; return the exit code.

    parser: makes the parser of all other commands, whose words are completed, too.
    """
    try:
        from streamd.clients.terminal import app
    except ImportError as error:
        if error.name is None or error.name.startswith("streamd"):
            raise
        if COMPLETE not in os.environ:
            print(f"streamd: {words[0]} needs {error.name}: {install_line('cli')}", file=sys.stderr)
        return _EXIT_USAGE
    return app.run(words, parser)
