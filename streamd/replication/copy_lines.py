"""The lines around the files of a whole state, as a primary sends it.

    #streamd files COUNT KEYS LAST ORIGIN HASH  so many files follow, of a state with so many keys; LAST is the hash of
                                                the last frame before it, ORIGIN the ID of its data set
    #streamd segment SIZE HASH                  SIZE bytes follow: a segment file
    #streamd file SIZE HASH                     SIZE bytes follow: a file of the journal
    #streamd whole DIGEST HASH                  behind the last file; DIGEST is the xxh3-64 of all files

The number of segment files stands behind ORIGIN, unless it is 0; these come first. Only replicas that have said that
they take them get them.

HASH is the xxh3-64 of what stands before it in the line, in 16 hexadecimal digits. Its seed is made of the replication
ID and the offset of the state. So a damaged size is noticed at once, and not when bytes do not come.
"""

from typing import Final

from streamd.replication.frame import FrameError, seeded_hash

# What a replica says in REPLCONF capa if it takes segment files.
TAKES_SEGMENTS: Final = b"segments"
_START: Final = b"#streamd"
_HASH_BYTES: Final = 16


def make_line(replid: str, offset: int, *words: bytes | int) -> bytes:
    """Return a line of a state."""
    text = b" ".join((_START, *(b"%d" % word if isinstance(word, int) else word for word in words)))
    return b"%b %016x\n" % (text, seeded_hash(text, replid, offset, offset))


def words_of(line: bytes, replid: str, offset: int) -> list[bytes]:
    """Return the words of a line without its end. Raises: FrameError."""
    text, _, digest = line.rpartition(b" ")
    start, *words = text.split(b" ")
    if start != _START or len(digest) != _HASH_BYTES or digest != b"%016x" % seeded_hash(text, replid, offset, offset):
        raise FrameError(f"{line[:40]!r} is not what stands around the files of a state")
    return words
