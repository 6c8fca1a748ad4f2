"""The ring with arrays of native numbers.

Only the compiled form imports this: there an i64 is C's integer, and no number becomes an object.
"""

from collections.abc import Sequence

from librt.vecs import vec

from streamd.idmp.few import IID_BYTES_MAX
from streamd.idmp.ring import HEADS_MIN, SERIALS, RingWindow

try:
    from mypy_extensions import i16, i64, u8
except ImportError:
    pass  # compiled code knows them by itself


class NativeRingWindow(RingWindow):
    """The iids of one producer.

    Shape: as RingWindow says, with the arrays under other names. _hashes: the last bits of each iid's hash, so that to
    grow takes a third of the time.
    """

    __slots__ = ("_earlier", "_hashes", "_iids", "_of_ids", "_youngest")

    def __init__(self, items: Sequence[tuple[bytes, int]] = (), maxsize: int = 1) -> None:
        self._iids: vec[u8] = vec[u8]()
        self._of_ids: vec[i64] = vec[i64]()
        self._hashes: vec[i16] = vec[i16]()
        self._earlier: vec[i16] = vec[i16]()
        self._youngest: vec[i16] = vec[i16]()
        super().__init__(items, maxsize)

    def put(self, iid: bytes, number: i64, maxsize: i64) -> i64:
        slot = self._slot(iid)
        if slot >= 0:
            return self._of_ids[slot]
        length: i64 = len(iid)
        if not self._is_full or length >= self._stride:
            self._make_room(length + 1, maxsize)
        slot = self._at
        iids = self._iids
        start = slot * self._stride
        iids[start] = u8(length)
        for at in range(length):
            start += 1
            iids[start] = u8(iid[at])
        self._of_ids[slot] = number
        self._link(slot, i64(hash(iid)))
        return -1

    def put_run(self, iids: Sequence[bytes], number: i64, maxsize: i64) -> int:
        done: i64 = 0
        for iid in iids:
            if len(iid) > IID_BYTES_MAX or self.put(iid, number + done, maxsize) >= 0:
                break
            done += 1
        return done

    def copy(self) -> RingWindow:
        twin = NativeRingWindow()
        twin._iids = self._iids[0 : len(self._iids)]
        twin._of_ids = self._of_ids[0 : len(self._of_ids)]
        twin._hashes = self._hashes[0 : len(self._hashes)]
        twin._earlier = self._earlier[0 : len(self._earlier)]
        twin._youngest = self._youngest[0 : len(self._youngest)]
        self._copy_counts(twin)
        return twin

    def arrays_bytes(self) -> int:
        return 200 + len(self._iids) + 12 * len(self._of_ids) + 2 * len(self._youngest)

    def _slot(self, iid: bytes) -> i64:
        youngest = self._youngest
        span = self._span
        age = (self._next - i64(youngest[i64(hash(iid)) & (len(youngest) - 1)])) & SERIALS
        if age > span:
            return -1
        iids = self._iids
        length: i64 = len(iid)
        younger: i64 = 0
        while younger < age <= span:
            slot = self._at - age
            if slot < 0:
                slot += len(self._of_ids)
            start = slot * self._stride
            if i64(iids[start]) == length:
                at = length
                while at > 0 and i64(iids[start + at]) == i64(iid[at - 1]):  # iids differ in the end rather
                    at -= 1
                if not at:
                    return slot
            younger = age
            age = (self._next - i64(self._earlier[slot])) & SERIALS
        return -1

    def _link(self, slot: i64, hashed: i64) -> None:
        """Make the iid in slot `_at` the youngest."""
        hashed &= SERIALS
        self._hashes[slot] = i16((hashed ^ 0x8000) - 0x8000)  # with a sign, as an i16 has
        place = hashed & (len(self._youngest) - 1)
        self._earlier[slot] = self._youngest[place]
        self._youngest[place] = i16((self._next ^ 0x8000) - 0x8000)
        self._next = (self._next + 1) & SERIALS
        slot += 1
        self._at = slot if slot < len(self._of_ids) else 0

    def _number(self, slot: i64) -> i64:
        return self._of_ids[slot]

    def _remove(self, slot: i64) -> None:
        self._iids[slot * self._stride] = u8(0)

    def _is_removed(self, slot: i64) -> bool:
        return i64(self._iids[slot * self._stride]) == 0

    def _capacity(self) -> i64:
        return len(self._of_ids)

    def _rebuild(self, capacity: i64, stride: i64) -> None:
        iids, ids, hashes = self._iids, self._of_ids, self._hashes
        old_stride, slot, span = self._stride, self._oldest(), self._span
        heads: i64 = HEADS_MIN
        while heads < capacity:
            heads *= 2
        self._stride = stride
        self._iids = vec[u8]([u8(0)] * (capacity * stride))
        self._of_ids = vec[i64]([i64(0)] * capacity)
        self._hashes = vec[i16]([i16(0)] * capacity)
        self._earlier = vec[i16]([i16(0)] * capacity)
        self._youngest = vec[i16]([i16(-0x8000)] * heads)
        self._at = 0
        self._next = 0
        moved = self._iids
        while span > 0:
            start = slot * old_stride
            length = i64(iids[start])
            if length > 0:
                new = self._at
                for at in range(length + 1):
                    moved[new * stride + at] = iids[start + at]
                self._of_ids[new] = ids[slot]
                self._link(new, i64(hashes[slot]))
            slot += 1
            if slot == len(ids):
                slot = 0
            span -= 1
        self._span = self.count

    def _numbers(self) -> list[tuple[bytes, int]]:
        iids, slot, left = bytes(self._iids), self._oldest(), self._span
        found: list[tuple[bytes, int]] = []
        while left > 0:
            start = slot * self._stride + 1
            length = i64(iids[start - 1])
            if length > 0:
                found.append((iids[start : start + length], self._of_ids[slot]))
            slot += 1
            if slot == len(self._of_ids):
                slot = 0
            left -= 1
        return found
