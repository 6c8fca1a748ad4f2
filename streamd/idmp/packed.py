"""The window of one producer as a single bytes object, which is small rather than quick.

Most producers of a crowd have one iid. Its window is an immutable `bytes`, one object instead of two:

    ms of the entry ID 6 | its seq 2 | iid

b"" is a window that has lost its only iid. A window of several iids, or with an entry ID that is too great for 8 bytes,
is a bytearray. Shape, with counts in bytes:

    head 1 | count 1 | capacity 1 | stride 1 | tags: capacity x 1 | slots: capacity x stride

A slot is: entry ID 16 (big endian) | length of the iid 1 | iid, up to stride - 17. Its tag is a byte of the iid's hash,
so that one search through the tags, at the speed of memchr, rules out all slots but one in 256. Slots 0 to count - 1
are in use; the oldest is at `head`, which leaves 0 only when the window is full at the producer's maxsize: from there
on the youngest overwrites the oldest, round and round.

It takes a quarter of the memory of a dict and a deque, and nothing here is an object that the garbage collector tracks.
"""

from struct import Struct
from typing import Final

_HEAD: Final = 0
COUNT: Final = 1  # window[COUNT] of a bytearray is how many iids it holds
_CAPACITY: Final = 2
_STRIDE: Final = 3
_TAGS: Final = 4
_ID_BYTES: Final = 16
_SLOT_HEADER_BYTES: Final = _ID_BYTES + 1

IIDS_MAX: Final = 255  # the counts are bytes; a longer list of tags would also give a false hit at most look-ups
IID_BYTES_MAX: Final = 64  # every slot is as wide as the longest iid; beyond, an object for each iid costs little

_LENGTH: Final = tuple(bytes((length,)) for length in range(IID_BYTES_MAX + 1))
_MILLISECONDS: Final = {
    stride: Struct(f">Q{stride - 8}x") for stride in range(_SLOT_HEADER_BYTES, _SLOT_HEADER_BYTES + IID_BYTES_MAX + 1)
}  # by stride: the first 8 bytes of slots in a row
_int: Final = int.from_bytes

_ONE_ID_BYTES: Final = 8
_ONE_MS_BYTES: Final = 6
_ONE_SEQ_MAX: Final = (1 << 16) - 1
# The bits of an entry ID that are 0 in the window of one.
_NOT_IN_ONE: Final = (1 << 128) - (1 << 112) | (1 << 64) - 1 - _ONE_SEQ_MAX

Window = bytes | bytearray


def of_one(iid: bytes, entry_id: int) -> Window:
    """Return a window of one iid of at most IID_BYTES_MAX bytes."""
    if not entry_id & _NOT_IN_ONE:
        return (entry_id >> 48 | entry_id & _ONE_SEQ_MAX).to_bytes(_ONE_ID_BYTES, "big") + iid
    return of_items([(iid, entry_id)])


def of_items(items: list[tuple[bytes, int]]) -> bytearray:
    """Return a window of (iid, entry ID), oldest first: 1 to IIDS_MAX iids of at most IID_BYTES_MAX bytes."""
    stride = _SLOT_HEADER_BYTES + max([len(iid) for iid, _ in items])
    header = bytes((0, len(items), len(items), stride))
    tags = bytes([hash(iid) & 255 for iid, _ in items])
    slots = [
        (entry_id.to_bytes(_ID_BYTES, "big") + _LENGTH[len(iid)] + iid).ljust(stride, b"\0") for iid, entry_id in items
    ]
    return bytearray(b"".join((header, tags, *slots)))


def count(window: Window) -> int:
    """Return how many iids a window holds."""
    if isinstance(window, bytes):
        return 1 if window else 0
    return window[COUNT]


def copied(window: Window) -> Window:
    """Return an independent copy of a window."""
    return window if isinstance(window, bytes) else window.copy()


def lookup(window: Window, iid: bytes) -> int | None:
    """Return the ID of the entry that an iid made, or None if the window does not hold it."""
    if isinstance(window, bytes):
        return _id_of_one(window) if window[_ONE_ID_BYTES:] == iid else None
    if window.find(hash(iid) & 255, _TAGS, _TAGS + window[COUNT]) < 0:  # (mostly it is new)
        return None
    slot = find(window, iid)
    return None if slot < 0 else entry_id(window, slot)


def _id_of_one(window: bytes) -> int:
    number = _int(window[:_ONE_ID_BYTES], "big")
    return number >> 16 << 64 | number & _ONE_SEQ_MAX


def find(window: bytearray, iid: bytes) -> int:
    """Return the slot of an iid, or -1."""
    tag = hash(iid) & 255
    end = _TAGS + window[COUNT]
    at = window.find(tag, _TAGS, end)
    if at < 0:
        return -1
    length = len(iid)
    stride = window[_STRIDE]
    first = _TAGS + window[_CAPACITY] + _ID_BYTES - _TAGS * stride
    while at >= 0:
        start = first + at * stride
        if window[start] == length and window.startswith(iid, start + 1):
            return at - _TAGS
        at = window.find(tag, at + 1, end)
    return -1


def entry_id(window: bytearray, slot: int) -> int:
    """Return the entry ID in a slot."""
    start = _TAGS + window[_CAPACITY] + slot * window[_STRIDE]
    return _int(window[start : start + _ID_BYTES], "big")


def oldest_ms(window: Window) -> int:
    """Return the milliseconds of the oldest entry ID; the window is not empty."""
    if isinstance(window, bytes):
        return _int(window[:_ONE_MS_BYTES], "big")
    start = _TAGS + window[_CAPACITY] + window[_HEAD] * window[_STRIDE]
    return _int(window[start : start + 8], "big")


def record(window: Window, iid: bytes, entry_id: int, maxsize: int) -> Window:
    """Make an iid the youngest, in place of the oldest if there are `maxsize`; return the window, which may be a new
    object.

    iid: at most IID_BYTES_MAX bytes. maxsize: the same at every call. A window holds at most IIDS_MAX iids.
    """
    if isinstance(window, bytes):
        if not window or maxsize == 1 or window[_ONE_ID_BYTES:] == iid:
            return of_one(iid, entry_id)
        return of_items([(window[_ONE_ID_BYTES:], _id_of_one(window)), (iid, entry_id)])
    # The steady way, from here to the end, is written out flat, since each call more is a tenth of it.
    tag = hash(iid) & 255
    used = window[COUNT]
    if window.find(tag, _TAGS, _TAGS + used) >= 0:
        slot = find(window, iid)
        if slot >= 0:
            remove(window, slot)
            used -= 1
    length = len(iid)
    if length > window[_STRIDE] - _SLOT_HEADER_BYTES:
        _widen(window, length + _SLOT_HEADER_BYTES)
    capacity = window[_CAPACITY]
    if used >= maxsize:
        slot = window[_HEAD]
        window[_HEAD] = slot + 1 if slot + 1 < capacity else 0
    else:
        slot = used
        if used == capacity:
            # A quarter more, so that a window costs few bytes too many, and an iid is moved four times on average.
            capacity = min(capacity + (capacity >> 2) + 1, maxsize, IIDS_MAX)
            _rebuild(window, *_in_order(window), capacity, window[_STRIDE])
        window[COUNT] = used + 1
    window[_TAGS + slot] = tag
    start = _TAGS + capacity + slot * window[_STRIDE]
    window[start : start + _SLOT_HEADER_BYTES + length] = entry_id.to_bytes(_ID_BYTES, "big") + _LENGTH[length] + iid
    return window


def remove(window: bytearray, slot: int) -> None:
    """Remove the iid in a slot, at any place in the order."""
    stride = window[_STRIDE]
    place = (slot - window[_HEAD]) % window[COUNT]
    tags, slots = _in_order(window)
    del tags[place]
    del slots[place * stride : (place + 1) * stride]
    _rebuild(window, tags, slots, len(tags), stride)


def without_expired(window: Window, until_ms: int) -> Window:
    """Drop the iids of entries up to `until_ms`, from the oldest to the first that stays; return the window, which may
    be a new object.
    """
    if isinstance(window, bytes):
        return b"" if window and oldest_ms(window) <= until_ms else window
    if not window[COUNT] or oldest_ms(window) > until_ms:
        return window
    stride = window[_STRIDE]
    tags, slots = _in_order(window)
    dropped = 0
    for (ms,) in _MILLISECONDS[stride].iter_unpack(slots):
        if ms > until_ms:
            break
        dropped += 1
    del tags[:dropped]
    del slots[: dropped * stride]
    _rebuild(window, tags, slots, len(tags), stride)
    return of_one(*items(window)[0]) if len(tags) == 1 else window


def items(window: Window) -> list[tuple[bytes, int]]:
    """Return (iid, entry ID) of all iids, oldest first."""
    if isinstance(window, bytes):
        return [(window[_ONE_ID_BYTES:], _id_of_one(window))] if window else []
    stride = window[_STRIDE]
    slots = bytes(_in_order(window)[1])
    return [
        (
            slots[start + _SLOT_HEADER_BYTES : start + _SLOT_HEADER_BYTES + slots[start + _ID_BYTES]],
            _int(slots[start : start + _ID_BYTES], "big"),
        )
        for start in range(0, len(slots), stride)
    ]


def _in_order(window: bytearray) -> tuple[bytearray, bytearray]:
    """Return copies of tags and slots, oldest first."""
    head = window[_HEAD]
    stride = window[_STRIDE]
    tags_end = _TAGS + window[COUNT]
    slots_start = _TAGS + window[_CAPACITY]
    slots_end = slots_start + window[COUNT] * stride
    if not head:
        return window[_TAGS:tags_end], window[slots_start:slots_end]
    middle = slots_start + head * stride
    return (
        window[_TAGS + head : tags_end] + window[_TAGS : _TAGS + head],
        window[middle:slots_end] + window[slots_start:middle],
    )


def _rebuild(window: bytearray, tags: bytearray, slots: bytearray, capacity: int, stride: int) -> None:
    spare = capacity - len(tags)
    header = bytes((0, len(tags), capacity, stride))
    window[:] = b"".join((header, tags, bytes(spare), slots, bytes(spare * stride)))


def _widen(window: bytearray, stride: int) -> None:
    old = window[_STRIDE]
    tags, slots = _in_order(window)
    wider = bytearray().join(slots[start : start + old].ljust(stride, b"\0") for start in range(0, len(slots), old))
    _rebuild(window, tags, wider, window[_CAPACITY], stride)
