"""`streamd check`: examines the journal of a data directory, mends it, or compares two servers."""

import argparse
import os
import sys

from streamd.base.clock import Clock
from streamd.base.failure import EXIT_CODES, EXIT_DAMAGED, EXIT_DIRECTORY, EXIT_OK, EXIT_USAGE, Failure
from streamd.base.filesystem import FileSystem, LockedError
from streamd.base.progress import ProgressLine
from streamd.checking.trial_start import Trials
from streamd.configuration.server_options import OPTIONS
from streamd.durability import check, fixing
from streamd.durability.moving import commands_for_redis
from streamd.journal.recovery import DamagedError

# So many differences of two servers are printed.
_SHOWN_MAX = 20


def add_options(checking: argparse.ArgumentParser) -> None:
    """Declare the options of `streamd check`."""
    checking.description = (
        "Say of each file of a journal how much of it is whole, and whether a server can load it: it is loaded,\n"
        "which takes as much time and memory as a start. Nothing is changed without --skip or --fix. These say first\n"
        "what goes, and ask; what goes is kept in FILE.cut-TIME beside each file. Copy the directory before."
    )
    checking.epilog = EXIT_CODES
    checking.add_argument(
        "directory", metavar="DIR", nargs="?", help="the data directory, or the directory of the journal in it"
    )
    checking.add_argument(
        "--compare",
        nargs=2,
        metavar="URL",
        help="instead: compare the data of two running servers, a primary and its replica for instance, over the"
        " protocol; nothing is changed. The name of a variable stands for the URL in it, which keeps a password from"
        " other users of the machine. Needs redis-py: the extra `client`",
    )
    change = checking.add_mutually_exclusive_group()
    change.add_argument(
        "--skip", action="store_true", help="leave out only what is damaged or does not fit, and list it"
    )
    change.add_argument("--fix", action="store_true", help="cut off all from the first fault on")
    checking.add_argument(
        "--yes",
        action="store_true",
        help="do not ask; where there is no terminal, nothing but a torn end goes without it",
    )
    checking.add_argument(
        "--export", metavar="OUT", help="write what is whole to a new data directory OUT that Redis 7.0 can load"
    )
    checking.add_argument(
        "--windows",
        action="store_true",
        help="with --export: for Redis 8.6.2 or later, with the windows, also of entries that are trimmed or deleted",
    )
    checking.add_argument(
        "--appendfilename",
        metavar="TEXT",
        default=OPTIONS["appendfilename"].default,
        help="beginning of the names of the journal's files (default: %(default)s)",
    )
    checking.set_defaults(action=_check)


def _check(arguments: argparse.Namespace) -> int:
    if arguments.compare is not None:
        if arguments.directory is not None:
            raise Failure(EXIT_USAGE, "--compare takes two URLs, and no DIR beside them (see streamd check --help)")
        return _compare(*arguments.compare)
    if arguments.directory is None:
        raise Failure(EXIT_USAGE, "the following arguments are required: DIR (see streamd check --help)")
    if arguments.windows and arguments.export is None:
        raise Failure(EXIT_USAGE, "--windows needs --export OUT: it says what is written there")
    files, filename = FileSystem(), arguments.appendfilename
    if not os.path.isdir(arguments.directory):
        raise Failure(EXIT_DIRECTORY, f"{arguments.directory} is no directory; give the one that is served with --dir")
    data, journal = check.journal_directory(files, os.path.abspath(arguments.directory))
    line = ProgressLine("check")
    trials = Trials(files, journal, filename)
    place = fixing.Place(
        files, data, journal, filename, trials.loader, Clock().now_ms(), line.show, segments=trials.segments
    )

    def agree(known: list[str], question: str) -> bool:
        line.end()
        return _agree(known, question, arguments.yes)

    try:
        if arguments.fix or arguments.skip:
            report = (fixing.fix if arguments.fix else fixing.skip)(place, agree)
        else:
            report = place.examine()
        line.end()
        print("\n".join(report.done or report.lines()))
        if arguments.export is not None:
            lost: list[str] = []
            missing: list[str] | None = [] if arguments.skip and not arguments.windows else None
            if report.segments.faults and missing is None and not report.is_mended:
                raise Failure(EXIT_DAMAGED, f"nothing was exported: {_on_export(report, arguments.windows)}")
            _make_directory(arguments.export)
            line = ProgressLine("check: export")
            if arguments.windows:
                commands = _export_with_windows(files, journal, arguments.export, filename, line)
            else:
                left = check.Report() if report.is_mended else report
                commands = check.export(files, journal, arguments.export, filename, left, line.show, missing, lost)
            line.end()
            for text in [*(missing or ()), *lost]:
                print(f"not exported: {text}")
            print(
                f"{commands} commands written to {arguments.export}: redis-server --appendonly yes --dir "
                f"{arguments.export}"
            )
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
    return EXIT_OK if report.is_whole or report.is_mended else EXIT_DAMAGED


def _compare(first: str, second: str) -> int:
    """Compare two servers, and print what differs; return the exit code. Raises: Failure."""
    from streamd.checking.two_servers import compare

    line = ProgressLine("check")
    try:
        found = compare((first, second), lambda done, total: line.say(f"{done} of about {total} keys compared"))
    finally:
        line.end()
    keys = "1 key" if found.keys == 1 else f"{found.keys} keys"
    for text in found.differences[:_SHOWN_MAX]:
        print(f"differs       {text}")
    for text in found.unsettled[:_SHOWN_MAX]:
        print(f"not compared  {text}: it was written each time that it was looked at")
    if found.differences or found.unsettled:
        also = f", and {len(found.unsettled)} could not be compared" if found.unsettled else ""
        count = len(found.differences)
        print(f"{keys}: {count} {'difference' if count == 1 else 'differences'}{also}.")
        return EXIT_DAMAGED
    where = "" if found.history is None else ", up to offset {1} of the history {0}".format(*found.history)
    print(f"{keys}: no difference{where}.")
    return EXIT_OK


def _agree(known: list[str], question: str, is_agreed: bool) -> bool:
    """Print the known facts, and return True if the user agrees, by an answer at a terminal or by --yes in a script.

    Raises: Failure if the person refuses, or if there is no terminal to ask at.
    """
    print("\n".join(known), flush=True)
    if is_agreed:
        return True
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure(EXIT_DAMAGED, f"nothing was changed; --yes does it without asking: {question}")
    try:
        answer = input(f"{question} [yes/no] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() != "yes":
        raise Failure(EXIT_DAMAGED, "nothing was changed")
    return True


def _make_directory(path: str) -> None:
    """Make the directory of an export. Raises: Failure."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise Failure(EXIT_DIRECTORY, f"{path}: {error.strerror}; give another directory with --export")


def _export_with_windows(files: FileSystem, journal: str, target: str, filename: str, line: ProgressLine) -> int:
    """Load a journal up to its first fault and write its keys as commands for Redis; return the number of commands.

    Raises: DamagedError if a block of a segment file is damaged.
    """
    trials = Trials(files, journal, filename)
    check.examine(files, journal, filename, trials.loader(), line.show, trials.segments)
    return check.write_journal(files, target, commands_for_redis(trials.keyspace, Clock().now_ms()))


def _on_export(report: check.Report, has_windows: bool) -> str:
    """Return why an export of damaged segment files is refused."""
    faults = report.segments.faults
    more = f", and {len(faults) - 1} more like that" if len(faults) > 1 else ""
    advice = "without --windows, --skip" if has_windows else "--skip"
    return f"{faults[0].reason}{more}; {advice} goes on behind it, and says which entries are missing"
