"""`streamd backup` and `streamd restore`."""

import argparse
import os

from streamd.backup import copying
from streamd.backup.placing import PlaceError
from streamd.base.failure import EXIT_ADDRESS, EXIT_DIRECTORY, EXIT_OK, EXIT_USAGE, Failure
from streamd.base.progress import ProgressLine
from streamd.clients.remote_journal import RemoteJournal, SourceError, UrlError, connect

URL = "redis://127.0.0.1:6379"


def add_backup_options(backup: argparse.ArgumentParser) -> None:
    """Declare the options of `streamd backup`; redis-py is imported when it runs."""
    backup.description = (
        "Copy the journal of a running server, over the protocol, into a new data directory DIR on this"
        " machine: a state that was, whatever clients write meanwhile. The server rewrites its journal first. DIR can"
        " be served as it is. Needs redis-py: the extra `client`."
    )
    backup.add_argument(
        "--url",
        default=os.environ.get("STREAMD_URL", URL),
        help="the server: redis://[user:password@]host[:port], rediss:// for TLS, unix:// (default: the variable"
        f" STREAMD_URL, which keeps a password from other users of the machine, else {URL})",
    )
    backup.add_argument("directory", metavar="DIR", help="a data directory without a journal; made if it is not there")
    backup.set_defaults(action=_back_up)


def add_restore_options(restore: argparse.ArgumentParser) -> None:
    """Declare the options of `streamd restore`."""
    restore.description = (
        "Examine the backup COPY, and copy it into the data directory DIR, which has no journal. No server"
        " may be running there. A backup can also be served where it is."
    )
    restore.add_argument("copy", metavar="COPY", help="what `streamd backup` has made, or another data directory")
    restore.add_argument("directory", metavar="DIR", help="a data directory without a journal; made if it is not there")
    restore.set_defaults(action=_restore)


class _Lines:
    """The progress and messages of a copy, as lines."""

    def __init__(self, what: str) -> None:
        self._line = ProgressLine(what)
        self.end = self._line.end

    def show(self, done: int, total: int) -> None:
        """Show the progress of the copy; without any, that the server is not ready yet."""
        if total:
            self._line.show(done, total)
        else:
            self._line.say("the server rewrites its journal")

    def examine(self, done: int, total: int) -> None:
        """Show the progress of the examination of the journal."""
        self._line.say(f"examining the journal, {100 * done // max(total, 1)} %")


def _back_up(arguments: argparse.Namespace) -> int:
    line = _Lines("backup")
    try:
        client = connect(arguments.url)
        with client:
            size = copying.back_up(RemoteJournal(client), arguments.directory, line.show, line.examine)
    except UrlError as error:
        raise Failure(EXIT_USAGE, f"backup: {error}")
    except SourceError as error:
        raise Failure(EXIT_ADDRESS, f"backup: {error}; nothing was left in {arguments.directory}")
    except PlaceError as error:
        raise Failure(EXIT_DIRECTORY, f"backup: {error}")
    finally:
        line.end()
    print(f"{size} bytes copied; serve them with: streamd serve --dir {arguments.directory}")
    return EXIT_OK


def _restore(arguments: argparse.Namespace) -> int:
    line = _Lines("restore")
    try:
        size = copying.restore(arguments.copy, arguments.directory, line.show, line.examine)
    except PlaceError as error:
        raise Failure(EXIT_DIRECTORY, f"restore: {error}")
    finally:
        line.end()
    print(f"{size} bytes restored; serve them with: streamd serve --dir {arguments.directory}")
    return EXIT_OK
