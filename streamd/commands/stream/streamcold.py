"""STREAMCOLD: the records by which a base names segment files; no client can send them."""

from streamd.catalog.applying import Applying, CannotApply, applies
from streamd.journal.cold_loading import ColdLoading


def _loading(applying: Applying) -> ColdLoading:
    """Return what finds segment files, after the base has begun. Raises: CannotApply."""
    if applying.cold is None or not applying.cold.is_begun:
        raise CannotApply("only a base that begins with STREAMCOLD FORMAT has such records")
    return applying.cold


@applies("STREAMCOLD FORMAT")
def apply_format(applying: Applying, words: list[bytes]) -> None:
    """Begin a base that names segment files."""
    if applying.cold is None:
        raise CannotApply("it names segment files, which cannot be read here")
    applying.cold.begin(*map(int, words[2:5]))


@applies("STREAMCOLD FILE")
def apply_file(applying: Applying, words: list[bytes]) -> None:
    """Open a segment file."""
    _, _, number, size, checksum = words
    _loading(applying).add_file(int(number), int(size), int(checksum, 16))


@applies("STREAMCOLD RANGE")
def apply_range(applying: Applying, words: list[bytes]) -> None:
    """Give a stream the entries of consecutive blocks of a file."""
    loading = _loading(applying)
    if not loading.has(int(words[3])):
        first, last = words[7].decode(), words[8].decode()
        raise CannotApply(f"its {int(words[6])} entries from {first} to {last} are in segment file {int(words[3])}")
    loading.add_range(applying.stream_or_new(words[2]), words[3:])


@applies("STREAMCOLD GONE")
def apply_gone(applying: Applying, words: list[bytes]) -> None:
    """Delete entries of the ranges before."""
    _, _, key, ids = words
    _loading(applying).add_gone(applying.stream(key), ids)
