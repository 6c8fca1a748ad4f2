"""`streamd backup` and `streamd restore`."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from streamd.backup import copying
from streamd.backup.placing import PlaceError
from streamd.backup.remote import RemoteJournal, SourceError, connect
from streamd.base.failure import EXIT_ADDRESS, EXIT_DIRECTORY, EXIT_OK, Failure

URL = "redis://127.0.0.1:6379"


def add_commands(commands: Any, parser_class: Callable[..., argparse.ArgumentParser]) -> None:
    """Add `backup` and `restore` to the commands of a command line; redis-py is imported when one runs."""
    backup = commands.add_parser(
        "backup",
        help="copy a running server's data to this machine",
        description="Copy the journal of a running server, over the protocol, into a new data directory DIR on this"
        " machine: a state that was, whatever clients write meanwhile. The server rewrites its journal first. DIR can"
        " be served as it is. Needs redis-py: streamd[client].",
        allow_abbrev=False,
    )
    backup.add_argument(
        "--url",
        default=os.environ.get("STREAMD_URL", URL),
        help="the server: redis://[user:password@]host[:port], rediss:// for TLS, unix:// (default: the variable"
        f" STREAMD_URL, which keeps a password from other users of the machine, else {URL})",
    )
    backup.add_argument("directory", metavar="DIR", help="a data directory without a journal; made if it is not there")
    backup.set_defaults(action=_back_up)
    restore = commands.add_parser(
        "restore",
        help="put a backup into a data directory",
        description="Examine the backup COPY, and copy it into the data directory DIR, which has no journal. No server"
        " may be running there. A backup can also be served where it is.",
        allow_abbrev=False,
    )
    restore.add_argument("copy", metavar="COPY", help="what `streamd backup` has made, or another data directory")
    restore.add_argument("directory", metavar="DIR", help="a data directory without a journal; made if it is not there")
    restore.set_defaults(action=_restore)


class _ProgressLine:
    """Says on a terminal how far a copy has come, in one line that is written anew."""

    def __init__(self) -> None:
        self._shown_s = 0.0
        self._is_open = False

    def show(self, done: int, total: int) -> None:
        if not sys.stderr.isatty() or time.monotonic() - self._shown_s < 0.2:
            return
        self._shown_s = time.monotonic()
        self._is_open = True
        text = f"{done >> 20} of {total >> 20} MB" if total else "the server rewrites its journal"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_open:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _back_up(arguments: argparse.Namespace) -> int:
    line = _ProgressLine()
    try:
        client = connect(arguments.url)
        with client:
            size = copying.back_up(RemoteJournal(client), arguments.directory, line.show)
    except SourceError as error:
        raise Failure(EXIT_ADDRESS, f"backup: {error}; nothing was left in {arguments.directory}")
    except PlaceError as error:
        raise Failure(EXIT_DIRECTORY, f"backup: {error}")
    finally:
        line.end()
    print(f"{size} bytes copied; serve them with: streamd serve --dir {arguments.directory}")
    return EXIT_OK


def _restore(arguments: argparse.Namespace) -> int:
    line = _ProgressLine()
    try:
        size = copying.restore(arguments.copy, arguments.directory, line.show)
    except PlaceError as error:
        raise Failure(EXIT_DIRECTORY, f"restore: {error}")
    finally:
        line.end()
    print(f"{size} bytes restored; serve them with: streamd serve --dir {arguments.directory}")
    return EXIT_OK
