"""The window of one producer as a ring in arrays, a quarter of the size of a dict and an order."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from streamd.idmp.few import IID_BYTES_MAX, entry_id_of, number_of

if TYPE_CHECKING:
    from mypy_extensions import i64

SERIALS: Final = (1 << 16) - 1
HEADS_MIN: Final = 16
_LENGTH: Final = [bytes((length,)) for length in range(IID_BYTES_MAX + 1)]


class RingWindow:
    """The iids of one producer in slots that are used round and round: its order of expiry, as a list in arrays.

    It finds an iid as LZ77 finds a string: by its hash, and from the youngest iid with that hash to the one before.

    Shape: the `_span` slots before slot `_at` are in use, the youngest last. Slot n of `_blob` is an iid behind its
    length, in `_stride` bytes; length 0: removed. `_ids` has the numbers of the entry IDs. Each iid gets a serial,
    counted modulo 65,536; `_next` is the next. `_heads` maps the last bits of a hash -> the serial of the youngest iid
    with them; `_before` has, for each slot, the serial that was there before. A serial further back than `_span` ends a
    chain, so iids leave without a trace. (65,536 iids later it may seem to be in use again: then iids are compared for
    nothing; a chain that does not lead back ends, too.) count: the iids. `_is_full`: all slots have one, and no more
    are allowed.
    """

    __slots__ = ("_at", "_before", "_blob", "_heads", "_ids", "_is_full", "_next", "_span", "_stride", "count")

    def __init__(self, items: Sequence[tuple[bytes, int]] = (), maxsize: int = 1) -> None:
        """Take (iid, entry ID), oldest first, that all fit; there is room for more, up to `maxsize`."""
        self.count: i64 = 0
        self._at: i64 = 0
        self._next: i64 = 0
        self._span: i64 = 0
        self._stride: i64 = 1
        self._is_full = False
        room = min(len(items) + (len(items) >> 1) + 4, maxsize)
        self._rebuild(max(len(items), room), 1 + max([len(iid) for iid, _ in items], default=0))
        for iid, entry_id in items:
            self.put(iid, number_of(entry_id), SERIALS)

    def put(self, iid: bytes, number: i64, maxsize: i64) -> i64:
        """Return the number of the ID of the entry that an iid made; or make a new iid the youngest, in place of the
        oldest if there are `maxsize`, and return -1.
        """
        heads, serial, length = self._heads, self._next, len(iid)
        head = hash(iid) & len(heads) - 1
        if serial - heads[head] & SERIALS <= self._span and (slot := self._slot(iid)) >= 0:
            return self._ids[slot]
        if not self._is_full or length >= self._stride:
            self._make_room(length + 1, maxsize)
            heads, serial = self._heads, self._next
            head = hash(iid) & len(heads) - 1
        slot, ids, blob = self._at, self._ids, self._blob
        start = slot * self._stride
        blob[start] = length
        blob[start + 1 : start + 1 + length] = iid
        ids[slot] = number
        self._before[slot] = heads[head]
        heads[head] = serial
        self._next = serial + 1 & SERIALS
        self._at = slot + 1 if slot + 1 < len(ids) else 0
        return -1

    def put_run(self, iids: Sequence[bytes], number: i64, maxsize: i64) -> int:
        """Record iids of entries whose IDs follow each other, up to the first one that is known or too long; return how
        many.
        """
        done = 0
        for iid in iids:
            if len(iid) > IID_BYTES_MAX or self.put(iid, number + done, maxsize) >= 0:
                break
            done += 1
        return done

    def record(self, iid: bytes, number: i64, maxsize: i64) -> None:
        """Make an iid the youngest, in place of the oldest if there are `maxsize`; it may be there already.

        number: that of the ID of its entry.
        """
        if self.put(iid, number, maxsize) < 0:
            return
        slot = self._slot(iid)
        if slot == self._oldest():
            self._drop_oldest()
        else:
            self._remove(slot)
            self._is_full = False
            self.count -= 1
        self.put(iid, number, maxsize)

    def find(self, iid: bytes) -> int | None:
        """Return the ID of the entry that an iid made, or None."""
        slot = self._slot(iid)
        return None if slot < 0 else entry_id_of(self._number(slot))

    def drop_expired(self, until_ms: int, limit: int) -> int:
        """Drop iids of entries up to `until_ms`, from the oldest to the first that stays; return how many, at most
        `limit`.
        """
        dropped = 0
        while self.count > 0 and dropped < limit and self.oldest_ms() <= until_ms:
            self._drop_oldest()
            dropped += 1
        return dropped

    def oldest_ms(self) -> int:
        """Return the milliseconds of the oldest iid's entry ID; the window is not empty."""
        return self._number(self._oldest()) >> 16

    def items(self) -> list[tuple[bytes, int]]:
        """Return (iid, entry ID) of all iids, oldest first."""
        return [(iid, entry_id_of(number)) for iid, number in self._numbers()]

    def copy(self) -> RingWindow:
        """Return an independent copy."""
        twin = RingWindow()
        twin._blob, twin._ids = self._blob[:], self._ids[:]
        twin._before, twin._heads = self._before[:], self._heads[:]
        self._copy_counts(twin)
        return twin

    def arrays_bytes(self) -> int:
        """Return about how many bytes the arrays take."""
        return 400 + len(self._blob) + 10 * len(self._ids) + 2 * len(self._heads)

    def _slot(self, iid: bytes) -> i64:
        """Return the slot of an iid, or -1."""
        following, span, at, ids, blob = self._next, self._span, self._at, self._ids, self._blob
        age = following - self._heads[hash(iid) & len(self._heads) - 1] & SERIALS
        younger = 0
        while younger < age <= span:
            slot = at - age if at >= age else at - age + len(ids)
            start = slot * self._stride
            if blob[start] == len(iid) and blob.startswith(iid, start + 1):
                return slot
            younger = age
            age = following - self._before[slot] & SERIALS
        return -1

    def _number(self, slot: i64) -> i64:
        return self._ids[slot]

    def _remove(self, slot: i64) -> None:
        self._blob[slot * self._stride] = 0

    def _is_removed(self, slot: i64) -> bool:
        return not self._blob[slot * self._stride]

    def _capacity(self) -> i64:
        return len(self._ids)

    def _oldest(self) -> i64:
        slot = self._at - self._span
        return slot if slot >= 0 else slot + self._capacity()

    def _drop_oldest(self) -> None:
        self._is_full = False
        self.count -= 1
        self._span -= 1
        while self._span and self._is_removed(self._oldest()):
            self._span -= 1

    def _make_room(self, stride: i64, maxsize: i64) -> None:
        """Count an iid that comes next: in place of the oldest, or with half as many slots again."""
        if self.count >= maxsize:
            self._drop_oldest()
        if self._span == self._capacity() or stride > self._stride:
            capacity = self.count + (self.count >> 1) + 4
            if self.count == self._span:
                capacity = min(capacity, maxsize)
            self._rebuild(capacity, max(stride, self._stride))
        self._span += 1
        self.count += 1
        self._is_full = self.count == maxsize and maxsize == self._capacity()

    def _rebuild(self, capacity: i64, stride: i64) -> None:
        """Move the iids into arrays of other sizes, the oldest to slot 0, without removed ones."""
        numbers = self._numbers() if self._span else []
        spare = capacity - len(numbers)
        blob = b"".join([(_LENGTH[len(iid)] + iid).ljust(stride, b"\0") for iid, _ in numbers])
        self._blob, self._stride = bytearray(blob + bytes(spare * stride)), stride
        self._ids = array("Q", [number for _, number in numbers] + [0] * spare)
        self._heads = array("H", [1 << 15]) * (1 << int(max(capacity, HEADS_MIN)).bit_length())
        self._before = array("H", bytes(2 * capacity))
        for serial, (iid, _) in enumerate(numbers):
            head = hash(iid) & len(self._heads) - 1
            self._before[serial] = self._heads[head]
            self._heads[head] = serial
        self.count = self._span = self._next = len(numbers)
        self._at = len(numbers) % capacity

    def _numbers(self) -> list[tuple[bytes, int]]:
        """Return (iid, number of the entry ID) of all iids, oldest first."""
        blob, stride, ids, oldest = bytes(self._blob), self._stride, self._ids, self._oldest()
        slots = [*range(oldest, min(oldest + self._span, len(ids))), *range(oldest + self._span - len(ids))]
        starts = [slot * stride for slot in slots]
        return [
            (blob[start + 1 : start + 1 + blob[start]], ids[slot])
            for slot, start in zip(slots, starts)  # noqa: B905 (equally long)
            if blob[start]
        ]

    def _copy_counts(self, twin: RingWindow) -> None:
        twin.count, twin._at, twin._next, twin._span = self.count, self._at, self._next, self._span
        twin._stride, twin._is_full = self._stride, self._is_full
