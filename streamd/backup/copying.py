"""Makes a backup of a running server, and restores one."""

import os
from collections.abc import Callable, Iterator

from streamd.backup.own_history import with_own_history
from streamd.backup.placing import DIRNAME, FILENAME, Place, PlaceError, pieces_of
from streamd.base.filesystem import FileSystem
from streamd.clients.remote_journal import RemoteJournal
from streamd.durability import check
from streamd.journal.journal import LOCK_NAME, lock_directory
from streamd.journal.recovery import DamagedError

# (bytes done, bytes in all; 0 while the server rewrites)
Progress = Callable[[int, int], None]


def back_up(remote: RemoteJournal, path: str, progress: Progress, examining: Progress = check.say_nothing) -> int:
    """Copy a server's journal into the new data directory `path`; return the number of bytes.

    Segment files and the base are immutable and are copied first. Then the server tells the sizes of the increments at
    one moment, and they are copied up to there: the copy is the state of that moment. Raises: SourceError, PlaceError;
    then nothing is left.
    """
    with Place(path) as place:
        files = remote.begin(lambda: progress(0, 0))
        sizes = [size for _, size in files]
        done = 0

        def pieces(number: int) -> Iterator[bytes]:
            nonlocal done, sizes
            if number == len(files) - 1:
                sizes = remote.mark()
            offset = 0
            while offset < sizes[number]:
                piece = remote.read(number, offset, sizes[number] - offset)
                yield piece
                offset += len(piece)
                done += len(piece)
                progress(done, sum(sizes))

        place.take(with_own_history((name, pieces(number)) for number, (name, _) in enumerate(files)))
        remote.end()
        _check(place.journal, "what arrived", examining)
        place.commit()
        return done


def restore(copy: str, path: str, progress: Progress, examining: Progress = check.say_nothing) -> int:
    """Copy a backup into the data directory `path`, which has no journal; return the number of bytes.

    Raises: PlaceError; then nothing is changed.
    """
    files = FileSystem()
    _, journal = check.journal_directory(files, os.path.abspath(copy))
    segments = _check(journal, copy, examining)
    try:
        names = segments + [part.name for part in check.existing_manifest(files, journal, FILENAME).parts()]
        total = sum(os.path.getsize(os.path.join(journal, name)) for name in names)
    except OSError as error:
        raise PlaceError(f"{error.filename}: {error.strerror}")
    done = 0

    def pieces(name: str) -> Iterator[bytes]:
        nonlocal done
        try:
            for piece in pieces_of(os.path.join(journal, name)):
                yield piece
                done += len(piece)
                progress(done, total)
        except OSError as error:
            raise PlaceError(f"{os.path.join(journal, name)}: {error.strerror}")

    with Place(path) as place:
        is_new = not os.path.exists(os.path.join(path, LOCK_NAME))
        try:
            lock = lock_directory(files, path)
        except OSError as error:
            raise PlaceError(f"{path}: {error.strerror}; stop that server, or give another directory")
        try:
            place.take(with_own_history((name, pieces(name)) for name in names))
            place.commit()
        finally:
            if is_new and not os.path.exists(os.path.join(path, DIRNAME)):
                os.unlink(os.path.join(path, LOCK_NAME))
            lock.close()
    return done


def _check(journal: str, what: str, examining: Progress) -> list[str]:
    """Return the names of the segment files if the whole journal is undamaged. Raises: PlaceError."""
    try:
        report = check.examine(FileSystem(), journal, FILENAME, progress=examining)
    except DamagedError as error:
        raise PlaceError(f"{what} is damaged: {error}")
    except OSError as error:
        why = f"{error.filename or journal}: {error.strerror}"
        raise PlaceError(f"{what} is no backup: {why}; give what streamd backup made")
    for file in report.files:
        if file.is_rdb:
            raise PlaceError(f"{what} is no backup: {file}")
        if file.problem is not None:
            raise PlaceError(f"{what} is damaged: {file}")
    for fault in report.segments.faults:
        raise PlaceError(f"{what} is damaged: {fault.reason}")
    return report.segments.names
