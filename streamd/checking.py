"""`streamd check`: what is whole in the journal of a data directory, and what can be done about the rest."""

import argparse
import os

from streamd.base import collector
from streamd.base.config import OPTIONS, Config
from streamd.base.failure import EXIT_CODES, EXIT_DAMAGED, EXIT_DIRECTORY, EXIT_OK, Failure
from streamd.base.progress import ProgressLine
from streamd.durability import check
from streamd.durability.replay import Replay
from streamd.engine.engine import Engine
from streamd.journal.filesystem import FileSystem, LockedError
from streamd.journal.loader import Loader
from streamd.journal.recovery import DamagedError

# `check` knows no --databases: beyond these it looks at bytes only.
_TRIAL_DATABASES = 1_024


def add_options(checking: argparse.ArgumentParser) -> None:
    """Say what `streamd check` takes."""
    checking.description = (
        "Say of each file of a journal how much of it is whole, and whether a server can load it: it is loaded,\n"
        "which takes as much time and memory as a start. Nothing is changed without --fix."
    )
    checking.epilog = EXIT_CODES
    checking.add_argument("directory", metavar="DIR", help="the data directory, or the directory of the journal in it")
    checking.add_argument("--fix", action="store_true", help="cut off, for ever, all from the first fault on")
    checking.add_argument(
        "--export", metavar="OUT", help="write what is whole to a new data directory OUT that Redis 7.0 can load"
    )
    checking.add_argument(
        "--appendfilename",
        metavar="TEXT",
        default=OPTIONS["appendfilename"].default,
        help="what the names of the journal's files begin with (default: %(default)s)",
    )
    checking.set_defaults(action=_check)


def _check(arguments: argparse.Namespace) -> int:
    files, filename = FileSystem(), arguments.appendfilename
    if not os.path.isdir(arguments.directory):
        raise Failure(EXIT_DIRECTORY, f"{arguments.directory} is no directory; give the one that is served with --dir")
    data, journal = check.journal_directory(files, os.path.abspath(arguments.directory))
    line = ProgressLine("check")
    try:
        if arguments.fix:
            report = check.fix(files, data, journal, filename, _trial_loader(), line.show)
        else:
            report = check.examine(files, journal, filename, _trial_loader(), line.show)
        line.end()
        print("\n".join(report.lines()))
        if arguments.export is not None:
            _make_directory(arguments.export)
            line = ProgressLine("check: export")
            commands = check.export(files, journal, arguments.export, filename, report, line.show)
            line.end()
            place = arguments.export
            print(f"{commands} commands written to {place}: redis-server --appendonly yes --dir {place}")
    except LockedError:
        raise Failure(EXIT_DIRECTORY, f"data directory {data}: a server is running on it; stop that first")
    except DamagedError as error:
        raise Failure(EXIT_DAMAGED, str(error))
    except FileExistsError as error:
        raise Failure(EXIT_DIRECTORY, f"{error.filename}: {error.strerror}; give another directory with --export")
    except FileNotFoundError as error:
        raise Failure(EXIT_DIRECTORY, f"{error.filename}: {error.strerror}; give the directory served with --dir")
    except OSError as error:
        raise Failure(EXIT_DIRECTORY, f"{error.filename or journal}: {error.strerror}")
    finally:
        line.end()
    return EXIT_OK if report.is_whole or report.is_fixed else EXIT_DAMAGED


def _make_directory(path: str) -> None:
    """Make the directory of an export. Raises: Failure."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise Failure(EXIT_DIRECTORY, f"{path}: {error.strerror}; give another directory with --export")


def _trial_loader() -> Loader:
    """Return a loader into a state that is thrown away."""
    collector.keep_out()
    state = Engine(config=Config(databases=_TRIAL_DATABASES)).state
    replay = Replay(state)
    replay.borrow()
    return Loader(state.keyspace, replay)
