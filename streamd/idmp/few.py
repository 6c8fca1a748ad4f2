"""The window of one producer with few iids of one length, as a single bytes object.

Most producers of a crowd have one iid. Its window is the number of the entry ID, 8 bytes, and the iid. The window of
several iids is a byte, 128 + the length of an iid, and such a row for each, oldest first. b"" is a window that has lost
its only iid. A change makes another object, which is quick while the window is short.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

IID_BYTES_MAX: Final = 64  # beyond, an object for each iid costs little
_ID_BYTES: Final = 8
_SEVERAL: Final = 128  # the number of an entry ID begins with a lesser byte
_SEQ_BITS: Final = 16
_SEQ_MAX: Final = (1 << _SEQ_BITS) - 1
_SEQS_MAX: Final = (1 << 64) - 1
_MS_END: Final = 1 << 47
# The bits that are 0 in an entry ID that has a number: it has at most 47 bits of milliseconds, and 16 of seq.
_NOT_IN_NUMBER: Final = (1 << 128) - (_MS_END << 64) | _SEQS_MAX - _SEQ_MAX
_pack: Final = Struct(">Q").pack
_int: Final = int.from_bytes


def number_if_fits(iid: bytes, entry_id: int) -> int:
    """Return the number of an entry ID if it and its iid may stand in a window of bytes, or in a ring; else -1."""
    ms, seq = entry_id >> 64, entry_id & _SEQS_MAX
    return ms << _SEQ_BITS | seq if seq <= _SEQ_MAX and ms < _MS_END and len(iid) <= IID_BYTES_MAX else -1


def number_of(entry_id: int) -> int:
    """Return the number, below 1 << 63, of an entry ID that fits; its order is that of the IDs."""
    return entry_id >> 64 - _SEQ_BITS | entry_id & _SEQ_MAX


def entry_id_of(number: int) -> int:
    """Return the entry ID that has a number."""
    return number >> _SEQ_BITS << 64 | number & _SEQ_MAX


def all_fit(items: Sequence[tuple[bytes, int]]) -> bool:
    """Return whether all (iid, entry ID) do."""
    return min([number_if_fits(iid, entry_id) for iid, entry_id in items], default=0) >= 0


def are_consecutive(ids: Sequence[int]) -> bool:
    """Return whether ascending entry IDs follow each other and fit, so that their numbers follow each other, too."""
    return ids[-1] - ids[0] == len(ids) - 1 and not (ids[0] | ids[-1]) & _NOT_IN_NUMBER


def _of_one(iid: bytes, number: int) -> bytes:
    return _pack(number) + iid


def of_items(items: Sequence[tuple[bytes, int]]) -> bytes | None:
    """Return the window of (iid, entry ID), oldest first, at least one; None if one does not fit, or lengths differ."""
    if len({len(iid) for iid, _ in items}) > 1 or not all_fit(items):
        return None
    rows = [_of_one(iid, number_of(entry_id)) for iid, entry_id in items]
    return _of_rows(b"".join(rows), len(rows[0]))


def _of_rows(rows: bytes, stride: int) -> bytes:
    return rows if len(rows) <= stride else bytes((_SEVERAL + stride - _ID_BYTES,)) + rows


def _rows(window: bytes) -> tuple[bytes, int]:
    """Return the rows of a window, and how long one is (at least 1)."""
    if not window or window[0] < _SEVERAL:
        return window, len(window) or 1
    return window[1:], window[0] - _SEVERAL + _ID_BYTES


def count(window: bytes) -> int:
    """Return how many iids a window holds."""
    if not window or window[0] < _SEVERAL:
        return 1 if window else 0
    return len(window) // (window[0] - _SEVERAL + _ID_BYTES)


def find(window: bytes, iid: bytes) -> int | None:
    """Return the ID of the entry that an iid made, or None if the window does not hold it."""
    at = window.find(iid, _ID_BYTES)  # (mostly it is new)
    if at < 0:
        return None
    rows, stride = _rows(window)
    if stride != _ID_BYTES + len(iid):
        return None
    at = rows.find(iid)
    while at >= 0:
        if at % stride == _ID_BYTES:
            return entry_id_of(_int(rows[at - _ID_BYTES : at], "big"))
        at = rows.find(iid, at + 1)
    return None


def oldest_ms(window: bytes) -> int:
    """Return the milliseconds of the oldest entry ID; the window is not empty."""
    return _int(_rows(window)[0][:_ID_BYTES], "big") >> _SEQ_BITS


def record(window: bytes, iid: bytes, entry_id: int, maxsize: int) -> bytes | None:
    """Return a window with an iid as the youngest, in place of the oldest if there are `maxsize`; None if the iid does
    not fit beside the others.
    """
    number = number_if_fits(iid, entry_id)
    if number < 0:
        return None
    rows, stride = _rows(window)
    if rows and stride != _ID_BYTES + len(iid):
        return None if maxsize > 1 else _of_one(iid, number)
    if rows.find(iid) >= 0 and find(window, iid) is not None:
        rows = b"".join(
            [rows[at : at + stride] for at in range(0, len(rows), stride) if rows[at + _ID_BYTES : at + stride] != iid]
        )
    elif len(rows) >= maxsize * stride:
        rows = rows[stride:]
    return _of_rows(rows + _of_one(iid, number), _ID_BYTES + len(iid))


def without_expired(window: bytes, until_ms: int) -> bytes:
    """Return the window without iids of entries up to `until_ms`, from the oldest to the first that stays."""
    rows, stride = _rows(window)
    at = 0
    while at < len(rows) and _int(rows[at : at + _ID_BYTES], "big") >> _SEQ_BITS <= until_ms:
        at += stride
    return _of_rows(rows[at:], stride) if at else window


def items(window: bytes) -> list[tuple[bytes, int]]:
    """Return (iid, entry ID) of all iids, oldest first."""
    rows, stride = _rows(window)
    return [
        (rows[at + _ID_BYTES : at + stride], entry_id_of(_int(rows[at : at + _ID_BYTES], "big")))
        for at in range(0, len(rows), stride)
    ]
