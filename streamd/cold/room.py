"""What segment files leave free of a disk."""

import errno
from typing import Final

from streamd.base.filesystem import FileSystem

# Without its journal a server takes no XTRIM and no DEL, which would free more. Of a small disk it is this part.
JOURNAL_BYTES: Final = 128 * 1024 * 1024
JOURNAL_PART: Final = 10


def check_room(files: FileSystem, directory: str) -> None:
    """Return if a disk has room for more than the journal. Raises: OSError."""
    free, size = files.room(directory)
    kept = min(JOURNAL_BYTES, size // JOURNAL_PART)
    if free < kept:
        text = f"the disk has {free >> 20} MB left, and {kept >> 20} MB are kept for the journal"
        raise OSError(errno.ENOSPC, text, directory)
