"""Looking at a running server from a shell: `streamd tail`, `streamd top`, `streamd bench`.

A client like any other, of streamd or redis-server: it imports redis-py, click and rich (the extra `streamd[cli]`) and
nothing of the server. This file imports none of them, so that the start of a server need not wait for what it does not
need; `run` does.
"""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Final

# The words that click takes, and what the list of commands says of them.
COMMANDS: Final = {
    "tail": "print a stream's entries, and go on with what comes",
    "top": "watch a server: streams, groups, rates, clients",
    "bench": "measure a server, beside redis-server where that is installed",
    "completion": "print what makes a shell complete these words",
}
# The variable by which a shell asks for completions; click's name for a program called streamd.
COMPLETE: Final = "_STREAMD_COMPLETE"

_EXIT_USAGE: Final = 2


def takes(words: list[str]) -> bool:
    """Return whether a command line is for `run`."""
    return bool(words and words[0] in COMMANDS) or COMPLETE in os.environ


def run(words: list[str], parser: Callable[[], argparse.ArgumentParser]) -> int:
    """Run one of the commands, or answer a shell that asks for completions; return the exit code.

    parser: makes the parser of all the other commands, whose words are completed, too.
    """
    try:
        from streamd.terminal import app
    except ImportError as error:
        if error.name is None or error.name.startswith("streamd"):
            raise
        if COMPLETE not in os.environ:
            print(f"streamd: {words[0]} needs {error.name}: pip install 'streamd[cli]'", file=sys.stderr)
        return _EXIT_USAGE
    return app.run(words, parser)
