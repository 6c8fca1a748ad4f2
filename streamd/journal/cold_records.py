"""The STREAMCOLD records of a base: which segment files it needs, and which of their entries each stream has.

* `STREAMCOLD FORMAT 1 LIMIT NUMBER` is the first command of a base: the bytes of `stream-memory`, and the greatest
  number that a segment file had. Software that does not know it refuses the base, rather than load it without entries.
* `STREAMCOLD FILE NUMBER SIZE CHECKSUM` stands before the first range of a file; the checksum is that of its footer, in
  16 hexadecimal digits.
* `STREAMCOLD RANGE KEY NUMBER FROM TO ENTRIES FIRST LAST` adds the blocks from row FROM to before TO of a file to a
  stream; ENTRIES are in them, deleted or not, and their IDs are FIRST to LAST.
* `STREAMCOLD GONE KEY IDS` says which entries of the ranges before it are deleted; IDS is one word, ascending IDs with
  blanks between them, each as the milliseconds since the one before, and `-SEQ` if its seq is not 0.
* `XTRIM KEY MAXLEN = LENGTH` behind the first range and its GONE records, if entries of its first block were trimmed.

Such records stand in bases alone. An increment says what was done, and names no file.
"""

from collections.abc import Iterator, Sequence
from operator import sub
from typing import Final

from streamd.cold.cold_list import ColdList
from streamd.cold.files import BASE, REWRITE
from streamd.cold.store import ColdStore
from streamd.cold.stretch import Stretch
from streamd.cold.tokens import Hold
from streamd.data.records import Words
from streamd.journal.record import encode_command
from streamd.stream.entry_id import format_id
from streamd.stream.stream import Stream

COLD: Final = b"STREAMCOLD"
FORMAT: Final = 1

# IDs in one word: some hundred microseconds to make.
_IDS_MAX: Final = 500


def format_words(store: ColdStore) -> Words:
    """Return the first command of a base."""
    return COLD, b"FORMAT", b"%d" % FORMAT, b"%d" % store.limit_bytes, b"%d" % store.files.number


def encode_gone(stretches: Sequence[Stretch]) -> Iterator[bytes]:
    """Yield the IDs of deleted entries, some hundreds to a word."""
    all_ms: list[int] = []
    all_seqs: list[int] = []
    for stretch in stretches:
        for row in sorted(stretch.gone):
            ms, seqs = stretch.gone[row].columns
            all_ms += ms
            all_seqs += bytes(len(ms)) if seqs is None else seqs
            while len(all_ms) >= _IDS_MAX:
                yield _gone_word(all_ms[:_IDS_MAX], all_seqs[:_IDS_MAX])
                all_ms, all_seqs = all_ms[_IDS_MAX:], all_seqs[_IDS_MAX:]
    if all_ms:
        yield _gone_word(all_ms, all_seqs)


def _gone_word(all_ms: list[int], all_seqs: list[int]) -> bytes:
    since = [*map(sub, all_ms, [0, *all_ms])]
    if not any(all_seqs):
        return " ".join(map(str, since)).encode()
    return b" ".join([b"%d-%d" % pair if pair[1] else b"%d" % pair[0] for pair in zip(since, all_seqs, strict=True)])


def decode_gone(word: bytes) -> list[int]:
    """Return the IDs of a word. Raises: ValueError."""
    found, ms = [], 0
    for part in word.split(b" "):
        since, dash, seq = part.partition(b"-")
        ms += int(since)
        found.append(ms << 64 | (int(seq) if dash else 0))
    return found


class NamedFiles:
    """The segment files that a base names while it is written. Each is held from its first range on."""

    def __init__(self, store: ColdStore) -> None:
        self.store = store
        self._holds: dict[int, Hold] = {}

    def dump(self, key: bytes, stream: Stream) -> Iterator[bytes]:
        """Yield the records of a stream's entries that are in files, as RESP; no block is read.

        Behind them follow those that are not, from `unwritten_from` on.
        """
        cold = stream.log.sealed
        if not isinstance(cold, ColdList) or not cold.rows:
            return
        rows = cold.rows
        told = 0  # of so many stretches the deleted entries were told
        for number, stretch in enumerate(rows.stretches):
            file, record = stretch.file, b""
            if file.number not in self._holds:
                self._holds[file.number] = self.store.hold(file, REWRITE)
                words = b"%d" % file.number, b"%d" % file.size, b"%016x" % file.checksum
                record = encode_command((COLD, b"FILE", *words))
            place = b"%d" % stretch.low, b"%d" % stretch.high, b"%d" % stretch.entries
            ids = format_id(stretch.first_id), format_id(stretch.last_id)
            yield record + encode_command((COLD, b"RANGE", key, b"%d" % file.number, *place, *ids))
            if rows.skipped and not number:
                # Now, so that it holds, too, where `streamd check --skip` leaves out a later range.
                for gone in encode_gone(rows.stretches[:1]):
                    yield encode_command((COLD, b"GONE", key, gone))
                told = 1
                live = stretch.entries - stretch.gone_count - rows.skipped
                yield encode_command((b"XTRIM", key, b"MAXLEN", b"=", b"%d" % live))
        for gone in encode_gone(rows.stretches[told:]):
            yield encode_command((COLD, b"GONE", key, gone))

    def base_holds(self) -> list[Hold]:
        """Return what holds the files as those of a base that the manifest names."""
        return [self.store.hold(hold.file, BASE) for hold in self._holds.values()]


def unwritten_from(stream: Stream) -> int:
    """Return the ID behind all entries that are in files; 0 if none is."""
    cold = stream.log.sealed
    return cold.rows.end + 1 if isinstance(cold, ColdList) else 0
