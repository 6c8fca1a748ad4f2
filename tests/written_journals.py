"""Files of a journal as streamd writes them, made of units without a server; of this format and of earlier ones."""

from collections.abc import Sequence

from streamd.journal.formats import Beginning
from streamd.journal.record import encode_first_line, encode_run

SALT = 7


def file_of(*runs: Sequence[bytes], notes: bool = False, salt: int = SALT, begins: bytes = b"") -> bytes:
    """Return a file of runs, each of them some units; or what `begins` one, with more runs behind it."""
    data = begins or encode_first_line(salt)
    for units in runs:
        data += encode_run(units, 0, notes, salt, len(data))
    return data


def earlier_file_of(*runs: bytes, salt: int = SALT) -> bytes:
    """Return a file of format 2, or with salt 0 of format 1, whose runs have a unit each."""
    beginning = Beginning(salt, False)
    return beginning.line() + b"".join(beginning.run(unit, 0, False, 0) for unit in runs)
